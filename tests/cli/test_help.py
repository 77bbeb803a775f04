# SPDX-License-Identifier: BSD-3-Clause
"""What weir says about itself: help, version, this host, man page and completion text."""
import os
import pathlib
import shutil
import subprocess

import pytest

from weirtest import link, run, weir

COMMANDS = ("stream", "rr", "crr")
SECTIONS = ("Who and where", "How much", "What is sent", "How it is sent", "Where it runs", "What is printed", "examples")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_shows_usage_sections_and_examples(command):
    done = weir(command, "--help")
    assert (done.status, done.stderr) == (0, "")
    assert done.lines[0].startswith(f"weir {command}: ")
    assert f"usage: weir {command} [-c -H HOST] [options]" in done.lines
    assert [line for line in done.lines if line in SECTIONS] == list(SECTIONS)
    assert "  -T, --num-threads N           worker threads; a server that was not told follows its client (1)" in done.lines
    assert "  -H, --host HOST               client: the server's name or address (loopback); server: the" in done.lines
    assert any(line.startswith(f"  weir {command} -c -H ") for line in done.lines)
    assert all(len(line) <= 100 for line in done.lines)


@pytest.mark.parametrize("command, own, others", [
    ("stream", "--zerocopy", "--request-size"),
    ("rr", "--outstanding", "--zerocopy"),
    ("crr", "--request-size", "--outstanding"),
])
def test_help_lists_the_options_of_its_workload_only(command, own, others):
    text = weir(command, "--help").stdout
    assert f"{own}" in text
    assert f"{others}" not in text


@pytest.mark.parametrize("command, option, words", [
    ("rr", "--noburst", "(bare number: ns)"), ("rr", "--spin", "(50us; bare number: us)"), ("stream", "--rx-coalesce", "(200us; bare number: us)"),
    ("counters", "--interval", "(1s; bare number: s)"), ("agent", "--flush", "(5s; bare number: s)"), ("probe", "--window", "(1s; bare number: s)"),
])
def test_help_says_what_a_time_without_a_unit_means(command, option, words):
    """It is not the same everywhere."""
    done = weir(command, "--help")
    if done.status:
        pytest.skip(f"this build has no weir {command}")
    text = " ".join(done.stdout.split())
    assert words in text[text.index(f"{option} TIME"):][:300]


@pytest.mark.parametrize("spelling", ("-h", "--help", "help"))
def test_help_of_weir_lists_every_command(spelling):
    done = weir(spelling)
    assert (done.status, done.stderr) == (0, "")
    assert done.lines[0] == "usage: weir COMMAND [options]"
    listed = [line.split()[0] for line in done.lines if line.startswith("  ") and not line.startswith("  weir")]
    assert {"stream", "rr", "crr", "demo", "help"} <= set(listed)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_command_says_the_same_as_the_option(command):
    assert weir("help", command).stdout == weir(command, "--help").stdout


@pytest.mark.parametrize("words", (["demo", "--help"], ["demo", "-h"], ["help", "demo"]))
def test_help_of_demo_says_what_it_runs_and_runs_nothing(words):
    done = weir(*words)
    assert (done.status, done.stderr) == (0, "")
    assert done.lines[0].startswith("weir demo: stream, rr and crr ")
    assert "127.0.0.1" not in done.stdout


@pytest.mark.parametrize("word", ("--flows", "stream"))
def test_demo_takes_no_other_words(word):
    done = weir("demo", word)
    assert (done.status, done.stdout) == (2, "")
    assert word in done.stderr


def test_help_of_an_unknown_command_is_a_usage_error():
    done = weir("help", "nonsense")
    assert (done.status, done.stdout) == (2, "")
    assert "usage: weir help stream|rr|crr" in done.stderr


def test_help_of_a_link_is_that_of_its_workload(tmp_path):
    done = run(link(tmp_path, "tcp_crr"), "--help")
    assert (done.status, done.stderr) == (0, "")
    assert done.lines[0].startswith("weir crr: ")


@pytest.mark.parametrize("words", (["--version"], ["-v"], ["stream", "--version"], ["rr", "-v"]))
def test_version_is_one_line(words):
    done = weir(*words)
    assert (done.status, done.stderr) == (0, "")
    assert done.stdout.startswith("weir ")
    assert len(done.lines) == 1 and done.lines[0].split()[1][0].isdigit()


def test_help_and_version_win_over_impossible_options():
    assert weir("stream", "-c", "-T", "4", "-F", "2", "--help").status == 0
    assert weir("stream", "-c", "-T", "4", "-F", "2", "--version").status == 0


def test_weir_alone_shows_this_host_and_what_to_try_next():
    done = weir()
    assert (done.status, done.stderr) == (0, "")
    words = {line.split()[0]: line.split()[-1] for line in done.lines if line.strip()}
    assert words["hostname"] == os.uname().nodename
    assert "lo" in words
    assert "Try next:" in done.lines


def test_a_sysroot_that_does_not_exist_is_an_error(tmp_path):
    missing = str(tmp_path / "missing")
    for words in ([], ["--version"], ["stream", "--dry-run"]):
        done = weir(*words, env={"WEIR_SYSROOT": missing})
        assert (done.status, done.stdout) == (2, ""), words
        assert done.stderr.count("\n") == 1 and missing in done.stderr


def test_a_sysroot_of_one_machine_shows_no_other(tmp_path):
    """An empty root has no NICs: nothing of the real machine shows through."""
    done = weir(env={"WEIR_SYSROOT": str(tmp_path)})
    assert done.status == 0
    assert not any(line.split()[:1] == ["lo"] for line in done.lines)


@pytest.mark.parametrize("command", COMMANDS)
def test_scdoc_describes_every_option_of_the_help(command):
    done = weir("help", "--scdoc", command)
    assert (done.status, done.stderr) == (0, "")
    for option in ("--client", "--num-threads", "--percentiles" if command != "stream" else "--throughput-opt"):
        assert f"*{option}*" in done.stdout
    shown = {word.rstrip(",") for line in weir(command, "--help").lines if line.startswith(("  -", "      --"))
             for word in line.split()[:2] if word.startswith("--")}
    for option in shown:
        assert f"*{option.partition('[')[0]}*" in done.stdout


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_completion_is_bash_and_completes(tmp_path):
    done = weir("help", "--completion")
    assert (done.status, done.stderr) == (0, "")
    script = tmp_path / "completion"
    script.write_text(done.stdout)
    assert run("bash", "-n", script).status == 0
    ask = f'. {script}; COMP_WORDS=(weir stream --num-th); COMP_CWORD=2; _weir; echo "${{COMPREPLY[@]}}"'
    assert subprocess.run(["bash", "-c", ask], capture_output=True, text=True, timeout=30, check=True).stdout == "--num-threads\n"


def test_completion_offers_all_commands(tmp_path):
    listed = {line.split()[0] for line in weir("--help").lines if line.startswith("  ") and not line.startswith("  weir")}
    script = tmp_path / "completion"
    script.write_text(weir("help", "--completion").stdout)
    ask = f'. {script}; COMP_WORDS=(weir ""); COMP_CWORD=1; _weir; echo "${{COMPREPLY[@]}}"'
    offered = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, timeout=30, check=True).stdout.split()
    assert listed <= set(offered)


def test_the_shipped_man_sources_exist_for_every_command():
    pages = pathlib.Path(__file__).resolve().parents[2] / "docs" / "man"
    for command in (*COMMANDS, "rails", "nic"):
        assert (pages / f"weir-{command}.scd.in").exists()
