# SPDX-License-Identifier: BSD-3-Clause
"""scripts/test-summary counts cases, and never turns a failure into a pass without saying so."""
import json
import pathlib
import subprocess
import sys

SUMMARY = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "test-summary"


def summary(tmp_path, *tests, again=None):
    logs = [tmp_path / "testlog.json", tmp_path / "again.json"][:1 if again is None else 2]
    for log, run in zip(logs, (tests, again)):
        log.write_text("".join(json.dumps({"name": "t", "stderr": "", **test}) + "\n" for test in run))
    done = subprocess.run(
        [sys.executable, SUMMARY, *logs], capture_output=True, text=True, timeout=30, check=False
    )
    return done.returncode, done.stdout.splitlines()


def test_a_program_that_says_nothing_counts_as_one(tmp_path):
    assert summary(tmp_path, {"result": "OK", "stdout": ""}) == (0, ["1 passed, 0 failed, 0 skipped"])


def test_cases_of_pytest_are_counted_and_skips_explained(tmp_path):
    text = (
        "..s.\n=== short test summary info ===\n"
        "SKIPPED [2] test_x.py:5: needs root\n3 passed, 2 skipped, 1 warning in 0.02s\n"
    )
    assert summary(tmp_path, {"result": "OK", "stdout": text}) == (
        0,
        ["skipped 2: needs root", "3 passed, 0 failed, 2 skipped"],
    )


def test_errors_of_pytest_are_failures(tmp_path):
    text = "===== 1 failed, 2 passed, 1 error in 61.02s (0:01:01) =====\n"
    status, lines = summary(tmp_path, {"result": "FAIL", "stdout": text})
    assert (status, lines[-1]) == (1, "2 passed, 2 failed, 0 skipped")


def test_cases_of_cmocka_are_counted_over_all_groups(tmp_path):
    text = "[  PASSED  ] 4 test(s).\n[  PASSED  ] 3 test(s).\n[  SKIPPED ] 1 test(s), listed below:\n"
    assert summary(tmp_path, {"result": "OK", "stdout": text}) == (
        0,
        ["7 passed, 0 failed, 1 skipped"],
    )


def test_cases_of_tap_are_counted(tmp_path):
    text = "1..4\nok 1 - a\nok 2 - b\nnot ok 3 - c\n# not ok\nok 4 - d # SKIP no such thing here\nokay\n"
    assert summary(tmp_path, {"result": "FAIL", "stdout": text}) == (
        1,
        ["failed: t (fail)", "2 passed, 1 failed, 1 skipped"],
    )


def test_a_skipped_program_is_no_failure(tmp_path):
    status, lines = summary(tmp_path, {"result": "OK", "stdout": ""}, {"result": "SKIP", "stdout": ""})
    assert (status, lines) == (0, ["1 passed, 0 failed, 1 skipped"])


def test_a_crash_after_the_last_case_is_a_failure(tmp_path):
    text = "[  PASSED  ] 4 test(s).\n"
    assert summary(tmp_path, {"result": "FAIL", "stdout": text}) == (
        1,
        ["failed: t (fail)", "4 passed, 1 failed, 0 skipped"],
    )


def test_a_timeout_is_a_failure(tmp_path):
    assert summary(tmp_path, {"result": "TIMEOUT", "stdout": ""}) == (
        1,
        ["failed: t (timeout)", "0 passed, 1 failed, 0 skipped"],
    )


def test_no_test_at_all_is_a_failure(tmp_path):
    assert summary(tmp_path) == (1, ["0 passed, 0 failed, 0 skipped"])


def test_a_log_that_was_never_written_is_a_failure(tmp_path):
    done = subprocess.run(
        [sys.executable, SUMMARY, tmp_path / "none"], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (1, "0 passed, 0 failed, 0 skipped\n")


def test_what_passes_when_it_runs_again_is_named_as_shaky(tmp_path):
    status, lines = summary(tmp_path, {"result": "FAIL", "stdout": "2 passed, 1 failed in 1.0s\n"},
                            again=[{"result": "OK", "stdout": "3 passed in 1.0s\n"}])
    assert (status, lines) == (0, ["shaky: t failed, and passed when it ran again by itself", "3 passed, 0 failed, 0 skipped"])


def test_what_fails_twice_has_failed(tmp_path):
    failed = {"result": "FAIL", "stdout": "2 passed, 1 failed in 1.0s\n"}
    status, lines = summary(tmp_path, failed, again=[failed])
    assert (status, lines) == (1, ["failed: t (fail)", "2 passed, 1 failed, 0 skipped"])
