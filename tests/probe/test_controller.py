# SPDX-License-Identifier: BSD-3-Clause
"""What a controller says of agents that are not there, go away, or take less than they are asked for; on loopback addresses."""
import contextlib
import os

import pytest
from probetest import WEIR, Agent, Process, free_ports, wait_for  # first: sets the path
from network import missing  # noqa: E402
from weirtest import run, validate, weir  # noqa: E402

NET = os.getpid() % 200 + 20  # two runs on one machine do not share addresses


def nics(agent, count=1):
    return [f"127.{NET}.{agent}.{nic}" for nic in range(1, count + 1)]


def name(agent):
    return nics(agent)[0]


@contextlib.contextmanager
def agents(tmp_path, *which, words=(), count=1):
    port = free_ports(1)
    with contextlib.ExitStack() as stack:
        yield port, {a: stack.enter_context(Agent(nics(a, count), port, tmp_path / str(a), *words)) for a in which}


def probe(act, port, hosts, *words, seconds=90):
    return run(WEIR, "probe", act, "--hosts", ",".join(hosts), "-p", port, *words, seconds=seconds)


@pytest.mark.parametrize("act", ["mesh", "pairs"])
def test_a_host_that_does_not_answer_is_named_and_nobody_calls_that_health(tmp_path, act):
    with agents(tmp_path, 1, 2) as (port, _):
        done = probe(act, port, [name(9), name(1), name(2)], "--length", "1", "--json")
        record = done.documents[-1]
        validate(record)
        assert done.status == 1 and record["silent"] == [name(9)] and f"{name(9)} does not answer" in done.stderr, done
        assert len(record["pair"]) == 2 and all(p["sent"] > 0 for p in record["pair"]), done
        done = probe(act, port, [name(1), name(2), name(9)], "--length", "1")
        assert done.status == 1 and f"silent  {name(9)}" in done.stdout and "else " in done.stdout, done


def test_a_tournament_goes_on_when_hosts_go_away_and_keeps_what_it_measured(tmp_path):
    """The two with most NICs go: rounds of theirs are left out, the record has what they reached before."""
    with agents(tmp_path, 1, 2, 3) as (port, living), contextlib.ExitStack() as stack:
        gone = [stack.enter_context(Agent(nics(a, 2), port, tmp_path / str(a))) for a in (4, 5)]
        hosts = [name(a) for a in (1, 2, 3, 4, 5)]
        with Process(WEIR, "probe", "pairs", "--hosts", ",".join(hosts), "-p", port, "--length", "0.5", "--json") as process:
            wait_for("a round", lambda: process.so_far().documents)
            for agent in gone:
                os.kill(agent.pid, 9)
            done = process.wait(120)
        record = done.documents[-1]
        validate(record)
        assert done.status == 1 and record["schema"] == "weir/probe-pairs/1" and record["rails"] == 2, done
        measured = {(p["from_host"], p["to_host"]) for p in record["pair"] if p.get("latency_ns")}
        assert {(a, b) for a in hosts[:3] for b in hosts[:3] if a != b} <= measured, done
        assert all(not agent.ended() for agent in living.values())


def test_a_tournament_needs_two_who_answer(tmp_path):
    with agents(tmp_path, 1) as (port, _):
        done = probe("pairs", port, [name(1), name(9)])
        assert done.status == 1 and f"only {name(1)} answers" in done.stderr, done
    done = probe("pairs", port, [name(1), name(9)])
    assert done.status == 1 and "no agent answers" in done.stderr and "weir agent" in done.stderr, done


def test_pairs_that_an_agent_refuses_are_not_called_healthy(tmp_path):
    with agents(tmp_path, 1, 2, 3, 4, words=("--connections-per-nic", "2")) as (port, _):
        hosts = [name(a) for a in (1, 2, 3, 4)]
        done = probe("mesh", port, hosts, "--length", "2", "--json")
        record = done.documents[-1]
        validate(record)
        # Two of three each, if those who answer have room: at least one of each is refused.
        assert done.status == 1 and record["refused"] >= 4 and "refuses 1 of its 3 pairs" in done.stderr, done
        done = probe("load-test", port, hosts, "--iterations", "1", "--iteration-length-in-seconds", "2",
                     "--connections-per-nic-at-start", "3")
        assert done.status == 1 and "refused 4 connections" in done.stdout and "going on without them" not in done.stderr, done


def test_a_list_that_is_not_taken_is_explained(tmp_path):
    with agents(tmp_path, 1, 2, count=3) as (port, _):
        done = probe("load-test", port, [name(1), name(2)], "--iterations", "1", "--iteration-length-in-seconds", "1",
                     "--connections-per-nic-at-start", "10000")
        assert done.status == 1 and f"{name(1)} does not take its list: INVALID_ARGUMENT" in done.stderr, done
        assert done.stderr.count(f"{name(1)} does not take") == 1 and "refused 60000 connections" in done.stdout, done
        assert done.seconds < 10, done  # nobody waits for probes that will not come


def test_start_says_what_agents_make_of_it(tmp_path):
    with agents(tmp_path, 1, 2) as (port, living):
        hosts = [name(1), name(2)]
        done = probe("start", port, hosts, "--rate", "10")
        assert done.status == 0 and f"{name(1)} sends 5 probes a second, not 10" in done.stderr, done
        assert probe("stop", port, hosts).status == 0
        for rate in ("0.5", "2.5"):
            done = probe("start", port, hosts, "--rate", rate)
            assert done.status == 2 and "whole probes" in done.stderr, done
        # A budget smaller than the rate leaves each NIC one peer, not all of them.
        done = probe("start", port, hosts, "--rate", "5", "--budget", "1", "--targets", "full")
        assert done.status == 0, done
        assert all(agent.status().health.connections <= 2 for agent in living.values())
        done = probe("stop", port, [*hosts, name(9)])
        assert done.status == 1 and f"{name(9)} does not answer" in done.stderr, done
    done = probe("start", port, hosts)
    assert done.status == 1 and "no agent answers" in done.stderr, done


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
@pytest.mark.parametrize("act", ["mesh", "stop"])
def test_every_address_of_a_name_is_tried(tmp_path, act):
    """One that nobody listens at comes first; the name is that of a hosts file which only this process sees."""
    known = tmp_path / "hosts"
    known.write_text(f"{nics(1, 2)[1]} twice\n{nics(1, 2)[0]} twice\n")
    with agents(tmp_path, 1, 2) as (port, _):
        words = ["--length", "1"] if act == "mesh" else []
        done = run("unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', known,
                   WEIR, "probe", act, "--hosts", f"twice,{name(2)}", "-p", port, *words, seconds=60)
        assert done.status in (0, 3) and "does not answer" not in done.stderr and "left out" not in done.stderr, done


@pytest.mark.parametrize("words, why", [
    (["mesh", "--window", "0"], "--window"),
    (["mesh", "--timeout", "90"], "--timeout"),
    (["pairs", "--kind", "stream", "--length", "90"], "--length"),
    (["load-test", "--iteration_length_in_seconds=0"], "--iteration-length-in-seconds"),
    (["load-test", "--budget", "5"], "weir probe load-test --help"),
    (["mesh", "--out", "/nonexistent/x"], "--out"),
    (["load-test", "--out", "/nonexistent/x"], "--out"),
    (["pairs", "--csv", "/nonexistent/x"], "--csv"),
    (["foo"], 'there is no probe "foo"'),
])
def test_what_cannot_be_is_refused_at_once(words, why):
    done = weir("probe", *words, *([] if words == ["foo"] else ["--hosts", "127.0.0.1,127.0.0.2"]))
    assert done.status == 2 and why in done.stderr, done
