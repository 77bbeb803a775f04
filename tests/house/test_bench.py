# SPDX-License-Identifier: BSD-3-Clause
"""Benchmarks that need a GPU say what they are, and stand in the README."""
import os
import pathlib
import subprocess

import pytest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
SCRIPTS = sorted(path for path in (BENCH / "gpu").iterdir() if path.is_file() and os.access(path, os.X_OK))


@pytest.mark.parametrize("word", ("-h", "--help"))
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_help_is_shown_and_nothing_is_run(tmp_path, script, word):
    done = subprocess.run([script, word], capture_output=True, text=True, timeout=30, check=False,
                          env={**os.environ, "BUILD": str(tmp_path / "build"), "OUT": str(tmp_path / "out")})
    assert (done.returncode, done.stderr) == (0, "")
    assert f"bench/gpu/{script.name} " in done.stdout and "Exit status" in done.stdout
    assert "set -u" not in done.stdout and "shellcheck" not in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_every_one_of_them_is_in_the_readme():
    text = (BENCH / "README.md").read_text()
    assert [script.name for script in SCRIPTS if f"| `bench/gpu/{script.name}` |" not in text] == []
