# SPDX-License-Identifier: BSD-3-Clause
"""scripts/deps finds what is missing, and with DEPS=no touches nothing."""
import os
import pathlib
import shutil
import subprocess

import pytest

DEPS = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "deps"
HAVE_ALL = 'shift 3; for p; do echo "installed $p"; done\n'
HAVE_NONE = "exit 1\n"


@pytest.fixture(name="machine")
def fixture_machine(tmp_path):
    """Runs scripts/deps on a machine that has bash, cat and what the test puts there."""
    (tmp_path / "bin").mkdir()
    for tool in ("bash", "env", "cat"):
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))

    def put(name, script):
        path = tmp_path / "bin" / name
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)

    def run(*groups, **environment):
        path = str(tmp_path / "bin")
        return subprocess.run(
            [DEPS, *groups], capture_output=True, text=True, timeout=30, check=False,
            env={"PATH": path, "CALLS": str(tmp_path / "calls"), **environment},
        )

    run.put = put
    run.calls = lambda: (tmp_path / "calls").read_text() if (tmp_path / "calls").exists() else ""
    put("id", "echo 0\n")
    put("apt-get", 'echo "apt-get $*" >>"$CALLS"\n')
    return run


def test_nothing_missing_is_silent(machine):
    machine.put("dpkg-query", HAVE_ALL)
    done = machine("build", "check", "lint", "fuzz", "bench")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert machine.calls() == ""


def test_what_is_missing_is_said_and_installed(machine):
    machine.put("dpkg-query", 'shift 3; for p; do [ "$p" = scdoc ] || echo "installed $p"; done\n')
    done = machine("build")
    assert done.returncode == 0
    assert "scdoc" in done.stderr and "man pages" in done.stderr
    assert machine.calls().splitlines() == [
        "apt-get install -y --no-install-recommends scdoc --simulate",
        "apt-get -q -o DPkg::Lock::Timeout=120 install -y --no-install-recommends scdoc",
    ]


def test_an_empty_package_index_is_refreshed(machine):
    machine.put("dpkg-query", 'shift 3; for p; do [ "$p" = scdoc ] || echo "installed $p"; done\n')
    machine.put(
        "apt-get",
        'echo "$*" >>"$CALLS"; case "$*" in *update) : >"$CALLS.fresh";; *) [ -e "$CALLS.fresh" ];; esac\n',
    )
    assert machine("build").returncode == 0
    assert [call.split()[-1] for call in machine.calls().splitlines()] == ["--simulate", "update", "scdoc"]


def test_a_package_that_was_removed_is_missing(machine):
    machine.put("dpkg-query", 'shift 3; for p; do echo "config-files $p"; done\n')
    done = machine("build", DEPS="no")
    assert done.returncode == 1


def test_deps_no_installs_nothing_and_gives_the_command(machine):
    machine.put("dpkg-query", HAVE_NONE.replace("exit 1", 'echo "installed gcc"; exit 1'))
    done = machine("build", DEPS="no")
    assert done.returncode == 1
    assert "apt-get install -y --no-install-recommends libc6-dev meson ninja-build" in done.stderr
    assert machine.calls() == ""


def test_deps_no_passes_if_only_the_optional_is_missing(machine):
    machine.put("dpkg-query", 'shift 3; for p; do [ "$p" = scdoc ] || echo "installed $p"; done\n')
    done = machine("build", DEPS="no")
    assert done.returncode == 0
    assert "scdoc" in done.stderr


def test_a_tool_from_elsewhere_counts(machine):
    machine.put("dpkg-query", 'shift 3; for p; do [ "$p" = meson ] || echo "installed $p"; done\n')
    machine.put("meson", "")
    done = machine("build", DEPS="no")
    assert (done.returncode, done.stderr) == (0, "")


def test_without_root_and_sudo_it_says_so(machine):
    machine.put("dpkg-query", 'shift 3; for p; do [ "$p" = gcc ] || echo "installed $p"; done\n')
    machine.put("id", "echo 1000\n")
    done = machine("build")
    assert done.returncode == 1
    assert "not root" in done.stderr
    assert machine.calls() == ""


def test_sudo_is_used_without_root(machine):
    machine.put("dpkg-query", 'shift 3; for p; do [ "$p" = gcc ] || echo "installed $p"; done\n')
    machine.put("id", "echo 1000\n")
    machine.put("sudo", 'echo "sudo" >>"$CALLS"; exec "$@"\n')
    assert machine("build").returncode == 0
    assert "sudo\n" in machine.calls()


def test_a_machine_without_dpkg_goes_on(machine):
    done = machine("build")
    assert done.returncode == 0
    assert done.stderr.startswith("scripts/deps: this is not Debian")
    assert len(done.stderr.splitlines()) == 1


def test_an_unknown_group_is_refused(machine):
    machine.put("dpkg-query", HAVE_ALL)
    done = machine("biuld")
    assert done.returncode == 2
    assert "biuld" in done.stderr
