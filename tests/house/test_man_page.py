# SPDX-License-Identifier: BSD-3-Clause
"""scripts/man-page puts the program's own options into a page."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "man").glob("*.scd.in"))

pytestmark = pytest.mark.skipif(not shutil.which("scdoc"), reason="needs scdoc")


def make(tmp_path, page, weir=None):
    """The page of a made-up program, or of the real one."""
    program = tmp_path / "weir" if weir else os.environ["WEIR"]
    if weir:
        program.write_text("#!/bin/sh\n" + weir)
        program.chmod(0o755)
    output = tmp_path / "page.1"
    done = subprocess.run(
        [ROOT / "scripts" / "man-page", program, page, output],
        capture_output=True, text=True, timeout=30, check=False, env={**os.environ, "SOURCE_DATE_EPOCH": "0"},
    )
    return done, output


def commands():
    text = subprocess.run([os.environ["WEIR"], "--help"], capture_output=True, text=True, timeout=30, check=True).stdout
    return [line.split()[0] for line in text.splitlines() if line.startswith("  ") and not line.startswith("  weir")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_is_made(tmp_path, page):
    done, output = make(tmp_path, page, 'echo "*--flag* of $*"; printf "\\tWhat it does.\\n"\n')
    assert (done.returncode, done.stderr) == (0, "")
    text = output.read_text()
    assert "@OPTIONS" not in text
    assert "\\-\\-flag" in text or "--flag" in text or page.name == "weir.scd.in"
    for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "SEE ALSO"):
        assert f".SH {heading}\n" in text
    assert "EXIT STATUS" in text


@pytest.mark.skipif(not shutil.which("groff"), reason="needs groff")
@pytest.mark.skipif("WEIR" not in os.environ, reason="WEIR names no program")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_groff_has_nothing_to_say_about_a_page(tmp_path, page):
    """A line that begins with a dot is a request of troff: what it does not know is lost, and only a warning tells."""
    command = page.name.removeprefix("weir-").removesuffix(".scd.in")
    if command in ("agent", "probe") and command not in commands():
        pytest.skip("this weir has no gRPC")
    done, output = make(tmp_path, page)
    assert (done.returncode, done.stderr) == (0, "")
    shown = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8", output], capture_output=True, text=True, timeout=30, check=False)
    assert (shown.returncode, shown.stderr) == (0, "")


@pytest.mark.skipif("WEIR" not in os.environ, reason="WEIR names no program")
def test_every_command_has_a_page_and_its_place_in_the_one_of_weir():
    text = (ROOT / "docs" / "man" / "weir.scd.in").read_text()
    listed = re.search("^# COMMANDS$(.*?)^# ", text, re.M | re.S).group(1)
    see_also = text.partition("# SEE ALSO")[2]
    for command in set(commands()) - {"help"}:
        assert re.search(rf"^\*{command}\*.*\n\t.*\*weir-{command}\*\(1\)", listed, re.M), command
        assert f"*weir-{command}*(1)" in see_also
        assert (ROOT / "docs" / "man" / f"weir-{command}.scd.in").exists()
    named = set(re.findall(r"\*(weir-[a-z0-9]+)\*\(1\)", text))
    assert named <= {page.name.removesuffix(".scd.in") for page in PAGES}


def test_every_link_stands_in_the_page_of_weir():
    built = (ROOT / "src" / "cmd" / "meson.build").read_text()
    names = re.findall(r"install_symlink\('([a-z_]+)'", built)
    for group in re.findall(r"^foreach name : \[(.*)\]$", built, re.M):
        names += re.findall("'([a-z_]+)'", group)
    assert len(names) >= 7
    links = (ROOT / "docs" / "man" / "weir.scd.in").read_text().partition("# LINKS")[2].partition("\n# ")[0]
    assert [name for name in names if f"*{name}*" not in links] == []


def test_the_page_of_the_agent_has_every_metric():
    found = []
    for name in ("src/probe/agent_metrics.c", "src/web/metrics.c"):
        found += re.findall(r'"((?:weir|process)_[a-z_]+)"', (ROOT / name).read_text())
    assert len(found) >= 10
    page = (ROOT / "docs" / "man" / "weir-agent.scd.in").read_text()
    assert [name for name in found if f"*{name}*" not in page] == []


def test_the_page_of_probe_has_every_column_of_its_csv():
    page = (ROOT / "docs" / "man" / "weir-probe.scd.in").read_text()
    for name, first in (("mesh", "wall_ns"), ("pairs", "round")):
        source = (ROOT / "src" / "cmd" / f"probe_{name}.c").read_text()
        words = re.search(rf'"({first},.*?)\\n"', source, re.S).group(1)
        columns = re.sub(r'"\s*"', "", words).replace("%s", "latency_ns,bits_per_s").split(",")
        assert len(columns) >= 14
        described = page.partition(f"## CSV of {name}\n")[2].partition("\n#")[0]
        assert [column for column in columns if f"*{column}*" not in described] == []


def test_the_options_stand_where_the_mark_stood(tmp_path):
    page = tmp_path / "x.scd.in"
    page.write_text("x(1)\n\n# BEFORE\n\nFirst.\n\n@OPTIONS rr@\n\n# AFTER\n\nLast.\n")
    done, output = make(tmp_path, page, 'echo "asked for $*"\n')
    assert done.returncode == 0
    text = output.read_text()
    assert "asked for help --scdoc rr" in text.replace("\\-", "-")
    assert text.index("BEFORE") < text.index("asked") < text.index("AFTER")


def test_a_program_that_fails_leaves_no_page(tmp_path):
    page = tmp_path / "x.scd.in"
    page.write_text("x(1)\n\n# OPTIONS\n\n@OPTIONS rr@\n")
    done, output = make(tmp_path, page, "exit 3\n")
    assert done.returncode != 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["weir", "x.scd.in"]
    assert not output.exists()
