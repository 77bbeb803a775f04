# SPDX-License-Identifier: BSD-3-Clause
"""How a command line is read: spellings, order, and what is refused with which words."""
import itertools
import os
import re

import pytest

from weirtest import link, run, weir


def dry(*words, command="stream"):
    done = weir(command, *words, "--dry-run")
    assert (done.status, done.stderr) == (0, ""), done
    return done.kv


def refused(command, words):
    """Refused before anything happens: a reason of one line on stderr, perhaps a hint below it, and nothing else."""
    done = weir(command, *words, seconds=15)
    assert (done.status, done.stdout) == (2, ""), done
    reason, *hint = done.stderr.splitlines()
    assert reason.startswith(f"weir {command}: ") and reason.endswith("."), done
    assert len(hint) <= 1 and all(line.startswith("  ") for line in hint), done
    return reason, (hint or [""])[0].strip()


def test_dry_run_prints_options_and_ends():
    done = weir("stream", "-n")
    assert (done.status, done.stderr) == (0, "")
    assert done.kv["dry_run"] == "1"


@pytest.mark.parametrize("words", (["-T", "4"], ["-T4"], ["--num-threads", "4"], ["--num-threads=4"], ["--num-th", "4"],
                                   ["--num-th=4"], ["-ZT4"], ["-ZT", "4"]))
def test_an_option_has_many_spellings(words):
    assert dry(*words)["num_threads"] == "4"


def test_letters_can_stand_together():
    got = dry("-ZER")
    assert (got["zerocopy"], got["edge_trigger"], got["reuseaddr"]) == ("1", "1", "1")


def test_the_last_of_two_values_counts():
    assert dry("-l", "5", "-l", "7")["test_length"] == "7"


def test_a_flag_can_be_taken_back():
    assert dry("-Z", "--no-zerocopy")["zerocopy"] == "0"
    assert dry("--no-zerocopy", "-Z")["zerocopy"] == "1"
    assert dry("--no-zeroc")["zerocopy"] == "0"


def test_no_delay_and_no_cork_are_flags_of_their_own():
    assert dry("--no-delay")["no_delay"] == "1"
    assert dry("--no-cork")["no_cork"] == "1"
    assert dry("--no-no-cork")["no_cork"] == "0"


def test_rr_has_no_delay_on_unless_taken_back():
    assert dry(command="rr")["no_delay"] == "1"
    assert dry("--no-no-delay", command="rr")["no_delay"] == "0"
    assert dry(command="stream")["no_delay"] == "0"


def test_the_order_of_options_does_not_matter():
    parts = [["-c"], ["-T", "4"], ["-F", "8"], ["-L", "127.0.0.1"], ["--wait-start", "2"]]
    dumps = {tuple(sorted(dry(*itertools.chain(*order)).items())) for order in itertools.permutations(parts)}
    assert len(dumps) == 1


def test_values_may_begin_with_a_dash():
    assert dry("-l", "-100", command="rr")["test_length"] == "-100"
    assert dry("--test-length=-100", command="rr")["test_length"] == "-100"


def test_an_optional_value_must_be_attached():
    assert dry("-A")["all_samples"] == "samples.csv"
    assert dry("-Amine.csv")["all_samples"] == "mine.csv"
    assert dry("--all-samples=mine.csv")["all_samples"] == "mine.csv"
    reason, hint = refused("stream", ["-A", "mine.csv", "-n"])
    assert '"mine.csv"' in reason


@pytest.mark.parametrize("text, value", [("16384", "16384"), ("64K", "65536"), ("64KiB", "65536"), ("64KB", "64000"),
                                         ("1.5M", "1572864"), ("1M", "1048576"), ("100B", "100")])
def test_sizes_take_suffixes(text, value):
    assert dry("-B", text)["buffer_size"] == value


@pytest.mark.parametrize("text, value", [("1250000", "1250000"), ("10m", "1250000"), ("10Mb", "1250000"), ("1Gb", "125000000"),
                                         ("10MB", "10000000"), ("1G", "1073741824"), ("8b", "1"), ("1Gib", "134217728")])
def test_rates_mean_what_they_say(text, value):
    """neper reads 10Mb as ten mebibytes: that trap is not kept."""
    assert dry("-m", text)["max_pacing_rate"] == value


@pytest.mark.parametrize("text, value", [("250", "250"), ("250ns", "250"), ("10us", "10000"), ("1.5ms", "1500000"), ("2s", "2000000000")])
def test_delays_take_suffixes(text, value):
    assert dry("-D", text, command="rr")["delay"] == value


def test_unknown_command_is_refused_and_the_commands_listed():
    done = weir("nonsense")
    assert (done.status, done.stdout) == (2, "")
    assert done.stderr.startswith('weir: there is no command "nonsense"\n')
    assert "  stream " in done.stderr


@pytest.mark.parametrize("typed, meant", [("--num-treads", "--num-threads"), ("--zero-copy", "--zerocopy"), ("--test-lenght=3", "--test-length")])
def test_an_unknown_option_gets_a_suggestion(typed, meant):
    reason, hint = refused("stream", [typed])
    assert reason == f"weir stream: unknown option {typed.partition('=')[0]}."
    assert hint == f"did you mean {meant}?"


def test_an_option_nothing_resembles_points_to_the_help():
    reason, hint = refused("stream", ["--completely-unheard-of"])
    assert "--completely-unheard-of" in reason
    assert hint == "list the options with: weir stream --help"
    assert refused("rr", ["-y"]) == ("weir rr: unknown option -y.", "list the options with: weir rr --help")


def test_an_option_of_another_workload_is_unknown():
    assert "--outstanding" in refused("stream", ["--outstanding", "2"])[0]
    assert "--zerocopy" in refused("rr", ["--zerocopy"])[0]


def test_an_ambiguous_abbreviation_names_what_it_could_mean():
    reason, _ = refused("stream", ["--num", "3"])
    assert re.search(r"--num is ambiguous: --num-\w+ or --num-\w+", reason)


def test_a_flag_takes_no_value():
    assert "--client takes no value" in refused("stream", ["--client=yes"])[0]


def test_an_option_without_its_value_is_refused_with_an_example():
    assert refused("stream", ["-T"]) == ("weir stream: --num-threads needs a value.", "for example: --num-threads 1")
    assert "--host needs a value" in refused("stream", ["-c", "--host"])[0]


def test_a_value_option_cannot_be_negated():
    assert "--no-host" in refused("stream", ["--no-host"])[0]


def test_a_stray_word_is_refused():
    reason, hint = refused("stream", ["node2"])
    assert '"node2"' in reason and hint.startswith("usage: weir stream")
    assert '"-c"' in refused("stream", ["--", "-c"])[0]


# What was given, the option that must be named, the value that must be named (None: a conflict of two options).
BAD = [
    ("stream", "-T 0", "--num-threads", "0"),
    ("stream", "-T -1", "--num-threads", "-1"),
    ("stream", "-T 1025", "--num-threads", "1025"),
    ("stream", "-T two", "--num-threads", "two"),
    ("stream", "-T 1.5", "--num-threads", "1.5"),
    ("stream", "-T 4x", "--num-threads", "4x"),
    ("stream", "-F 0", "--num-flows", "0"),
    ("rr", "-F 0", "--num-flows", "0"),
    ("crr", "-T 0", "--num-threads", "0"),
    ("stream", "-c -T 4 -F 2", "--num-flows", "2"),
    ("rr", "-c -F 2 -T 4", "--num-flows", "2"),
    ("stream", "-T 99999999999999999999", "--num-threads", "99999999999999999999"),
    ("stream", "-B 16q", "--buffer-size", "16q"),
    ("stream", "-B 16Mb", "--buffer-size", "16Mb"),
    ("stream", "-B -1", "--buffer-size", "-1"),
    ("stream", "-B 0", "--buffer-size", "0"),
    ("stream", "-B 2G", "--buffer-size", "2G"),
    ("stream", "-B 99999999999T", "--buffer-size", "99999999999T"),
    ("stream", "-B K", "--buffer-size", "K"),
    ("stream", "-B 0x10", "--buffer-size", "0x10"),
    ("rr", "-Q 1Q", "--request-size", "1Q"),
    ("rr", "-R 0", "--response-size", "0"),
    ("crr", "-R 2GiB", "--response-size", "2GiB"),
    ("stream", "-m 10x", "--max-pacing-rate", "10x"),
    ("stream", "-m -5", "--max-pacing-rate", "-5"),
    ("stream", "-m 10mb", "--max-pacing-rate", "10mb"),
    ("stream", "-m fast", "--max-pacing-rate", "fast"),
    ("rr", "--rate -1", "--rate", "-1"),
    ("rr", "--rate 10k", "--rate", "10k"),
    ("rr", "--rate nan", "--rate", "nan"),
    ("stream", "-C 0", "--control-port", "0"),
    ("stream", "-C 65536", "--control-port", "65536"),
    ("stream", "-P 0", "--port", "0"),
    ("stream", "-P 65536", "--port", "65536"),
    ("stream", "-P -1", "--port", "-1"),
    ("stream", "-P http", "--port", "http"),
    ("stream", "-P 65535 --num-ports 2", "--port", "65535"),
    ("stream", "-P 12866", "--control-port", "12866"),
    ("stream", "-P 12860 --num-ports 10", "--control-port", "12866"),
    ("stream", "--num-ports 0", "--num-ports", "0"),
    ("stream", "-c --source-port 0", "--source-port", "0"),
    ("stream", "-c --source-port 65536", "--source-port", "65536"),
    ("stream", "-c --source-port 65530 -F 10", "--source-port", "65530"),
    ("stream", "-l 0", "--test-length", "0"),
    ("rr", "-l 0", "--test-length", "0"),
    ("stream", "-l -10", "--test-length", "-10"),
    ("stream", "-l forever", "--test-length", "forever"),
    ("stream", "-l 10s", "--test-length", "10s"),
    ("stream", "-l inf", "--test-length", "inf"),
    ("stream", "-I 0", "--interval", "0"),
    ("stream", "--warmup -2", "--warmup", "-2"),
    ("stream", "--connect-timeout -1", "--connect-timeout", "-1"),
    ("rr", "-D 5x", "--delay", "5x"),
    ("rr", "--noburst -3us", "--noburst", "-3us"),
    ("rr", "--outstanding 0", "--outstanding", "0"),
    ("rr", "-p 101", "--percentiles", "101"),
    ("rr", "-p -1", "--percentiles", "-1"),
    ("rr", "-p 50,abc", "--percentiles", "abc"),
    ("rr", "-p 50,,90", "--percentiles", ","),
    ("rr", "-p nan", "--percentiles", "nan"),
    ("stream", "--cpus x", "--cpus", "x"),
    ("stream", "--cpus 3-1", "--cpus", "3-1"),
    ("stream", "--cpus 99999", "--cpus", "99999"),
    ("stream", "--cpus 0,", "--cpus", "0,"),
    ("stream", "--throughput-opt Q", "--throughput-opt", "Q"),
    ("stream", "--format xml", "--format", "xml"),
    ("stream", "--protocol smtp", "--protocol", "smtp"),
    ("stream", "--mem gpu", "--mem", "gpu"),
    ("stream", "--magic 99999999999", "--magic", "99999999999"),
    ("stream", "--num-clients 0", "--num-clients", "0"),
    ("stream", "--listen-backlog 0", "--listen-backlog", "0"),
]


@pytest.mark.parametrize("command, words, option, value", BAD, ids=lambda v: str(v))
def test_a_bad_value_is_refused_by_name(command, words, option, value):
    reason, hint = refused(command, words.split())
    assert option in reason, reason
    assert value in reason, reason


def test_crr_says_why_it_has_no_device_memory():
    reason, hint = refused("crr", ["--mem", "udmabuf"])
    assert "--mem udmabuf" in reason and "steering rule" in reason, reason
    assert "weir rr --mem udmabuf" in hint, hint


def test_a_value_out_of_range_is_told_the_range_and_an_example():
    assert refused("stream", ["-T", "0"]) == (
        "weir stream: --num-threads 0 is not a number from 1 to 1024.", "for example: --num-threads 1")
    reason, hint = refused("stream", ["-B", "16q"])
    assert "64K" in hint
    reason, hint = refused("stream", ["-m", "10x"])
    assert "10Gb" in hint
    reason, hint = refused("stream", ["-c", "-T", "4", "-F", "2"])
    assert hint == "for example: -T 4 -F 4"


def test_a_range_is_told_in_the_units_of_the_option():
    assert refused("counters", ["watch", "--interval", "0"]) == (
        "weir counters: --interval 0 is not a duration from 10ms to 3600s.", "for example: --interval 1s")
    assert refused("stream", ["-B", "2G"])[0] == "weir stream: --buffer-size 2G is not a size from 1 to 1G."
    assert refused("stream", ["--rx-coalesce", "2s"])[0] == "weir stream: --rx-coalesce 2s is not a duration from 0 to 1s."


def test_a_choice_is_told_the_choices():
    assert refused("stream", ["--format", "xml"])[0].endswith("is none of: table, json, kv.")


def test_an_empty_list_of_cpus_is_refused():
    assert "--cpus" in refused("stream", ["--cpus", ""])[0]


def test_a_cpu_that_this_process_may_not_use_is_refused():
    beyond = max(os.sched_getaffinity(0)) + 1000
    assert str(beyond) in refused("stream", ["--cpus", str(beyond)])[0]


@pytest.mark.parametrize("command, one, other", [
    ("stream", "--skip-rx-copy", "--rx-zerocopy"),
    ("stream", "--pin-cpu", "--cpus=0"),
    ("stream", "--nolog", "--logtostderr"),
    ("stream", "-c --local-hosts=127.0.0.1", "--source-port=20000"),
    ("rr", "--delay=1ms", "--noburst=1ms"),
    ("rr", "--rate=100", "--delay=1ms"),
    ("rr", "--rate=100", "--noburst=1ms"),
], ids=lambda v: str(v))
def test_options_that_exclude_each_other_are_both_named(command, one, other):
    for words in (f"{one} {other}", f"{other} {one}"):
        reason, _ = refused(command, words.split())
        for option in (one.split()[-1], other):
            assert option.partition("=")[0] in reason


@pytest.mark.parametrize("words", ("--local-hosts 127.0.0.1", "--wait-start 3"))
def test_an_option_for_the_client_is_refused_at_a_server(words):
    reason, _ = refused("stream", words.split())
    assert words.split()[0] in reason and "client" in reason


def test_nothing_is_started_when_one_of_many_options_is_bad(tmp_path):
    refused("stream", ["-c", "-H", "127.0.0.1", "--out", str(tmp_path / "record"), "-l", "0"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command, words, option", [
    ("stream", "-c", "--out"), ("stream", "", "--out"), ("rr", "-c", "--out"), ("crr", "-c", "--log-rtt"), ("rr", "-c", "--all-samples"),
    ("rails", "-c -H 127.0.0.1 --devices lo", "--out"), ("p2p", "client 127.0.0.1 --mem host", "--out"), ("run", "", "--out"),
], ids=lambda v: v.split()[0] if v else "server")
def test_a_file_that_cannot_be_written_is_said_before_the_run(tmp_path, command, words, option):
    """Not after it: nothing is measured, and nothing left behind."""
    missing, ran = tmp_path / "missing" / "x", tmp_path / "ran"
    rest = ["--", "touch", str(ran)] if command == "run" else []
    for path, why, hint in ((missing, "No such file or directory", "make its folder first, or name another file"),
                            (tmp_path, "Is a directory", "name another file")):
        assert refused(command, [*words.split(), f"{option}={path}", *rest]) == (
            f"weir {command}: {option}: cannot write {path}: {why}.", hint)
    assert not list(tmp_path.iterdir())


def test_a_file_is_tried_without_a_trace(tmp_path):
    done = weir("run", "--out", tmp_path / "record", "--", "sh", "-c", f"ls {tmp_path}")
    assert (done.status, done.stdout) == (0, ""), done
    assert [path.name for path in tmp_path.iterdir()] == ["record"]


@pytest.mark.parametrize("name, words", [("tcp_stream", "-T 0"), ("tcp_rr", "-Q 1x"), ("tcp_crr", "-l 0"), ("tcp_stream", "--unheard"),
                                         ("tcp_stream", "stray")])
def test_a_link_of_nepers_name_fails_with_its_status(tmp_path, name, words):
    done = run(link(tmp_path, name), *words.split())
    assert (done.status, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{name}: ")
