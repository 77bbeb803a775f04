# SPDX-License-Identifier: BSD-3-Clause
"""tests/layers finds what it is there to find."""
import pathlib
import subprocess
import sys

import pytest

LAYERS = pathlib.Path(__file__).resolve().parent.parent / "layers"
SPDX = "// SPDX-License-Identifier: BSD-3-Clause\n"
ORDER = """# Architecture
<!-- layers -->
```
base/   errors, and/or the log
sys/    machine
flow/   workloads      probe/  agent
cmd/    subcommands
```
"""


@pytest.fixture(name="tree")
def fixture_tree(tmp_path):
    """A small house that is in order."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/architecture.md").write_text(ORDER)
    for folder in ("base", "sys", "flow", "probe", "cmd"):
        (tmp_path / "src" / folder).mkdir(parents=True)
        (tmp_path / "src" / folder / "README.md").write_text("What lives here.\n")
    (tmp_path / "src/base/err.h").write_text(SPDX + "#include <sys/socket.h>\n")
    (tmp_path / "src/flow/rr.h").write_text(SPDX + '#include "base/err.h"\n')
    (tmp_path / "src/probe/mesh.h").write_text(SPDX)
    (tmp_path / "src/cmd/rr.c").write_text(
        SPDX + '#include <stdio.h>\n\n#include "base/err.h"\n#include "flow/rr.h"\n'
    )
    return tmp_path


def run(tree):
    done = subprocess.run(
        [sys.executable, LAYERS, tree], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.stderr == ""
    assert (done.returncode == 0) == (done.stdout == "")
    return done.stdout.splitlines()


def add(tree, path, text):
    (tree / path).write_text(text)


def test_a_tree_in_order_passes(tree):
    assert run(tree) == []


def test_an_include_from_below_fails(tree):
    add(tree, "src/base/err.c", SPDX + '\n#include "flow/rr.h"\n')
    assert run(tree) == ['src/base/err.c:3: includes "flow/rr.h", but flow/ stands below base/']


def test_an_include_in_angle_brackets_is_an_include(tree):
    add(tree, "src/base/err.c", SPDX + "#  include <flow/rr.h>\n")
    assert run(tree) == ['src/base/err.c:2: includes "flow/rr.h", but flow/ stands below base/']


def test_a_header_that_hides_a_header_of_the_system_fails(tree):
    add(tree, "src/sys/socket.h", SPDX)
    assert "src/sys/socket.h:1: hides the system's <sys/socket.h>: choose another name" in run(tree)


def test_siblings_may_not_include_each_other(tree):
    add(tree, "src/flow/rr.c", SPDX + '#include "probe/mesh.h"\n')
    add(tree, "src/probe/mesh.c", SPDX + '#include "flow/rr.h"\n')
    assert run(tree) == [
        'src/flow/rr.c:2: includes "probe/mesh.h", but probe/ and flow/ are siblings',
        'src/probe/mesh.c:2: includes "flow/rr.h", but flow/ and probe/ are siblings',
    ]


def test_an_include_that_goes_up_fails(tree):
    add(tree, "src/base/err.c", SPDX + '#include "../cmd/rr.h"\n')
    assert len(run(tree)) == 1


def test_a_file_of_a_folder_within_a_layer_belongs_to_the_layer(tree):
    (tree / "src/base/deep").mkdir()
    add(tree, "src/base/deep/x.c", SPDX + '#include "cmd/rr.h"\n')
    assert run(tree) == ['src/base/deep/x.c:2: includes "cmd/rr.h", but cmd/ stands below base/']


def test_a_folder_without_readme_fails(tree):
    (tree / "src/flow/README.md").unlink()
    assert len(run(tree)) == 1


def test_a_readme_of_eleven_lines_fails(tree):
    add(tree, "src/flow/README.md", "x\n" * 10)
    assert run(tree) == []
    add(tree, "src/flow/README.md", "x\n" * 11)
    assert run(tree) == ["src/flow/README.md:11: longer than 10 lines"]


def test_a_folder_without_a_place_fails(tree):
    (tree / "src/attic").mkdir()
    add(tree, "src/attic/README.md", "Old things.\n")
    assert run(tree) == ["src/attic:1: has no place in the order of docs/architecture.md"]


def test_a_file_without_licence_fails(tree):
    add(tree, "src/flow/x.c", "int x;\n" + SPDX)
    assert run(tree) == ["src/flow/x.c:1: the first line is not the SPDX licence line"]


def test_a_file_of_more_than_700_lines_fails(tree):
    add(tree, "src/flow/x.c", SPDX + "\n" * 699)
    assert run(tree) == []
    add(tree, "src/flow/x.c", SPDX + "\n" * 700)
    assert run(tree) == ["src/flow/x.c:701: longer than 700 lines: split it"]


@pytest.mark.parametrize(
    "order",
    [
        "no mark\n```\nbase/\n```\n",
        "<!-- layers -->\nno block\n",
        ORDER.replace("flow/   workloads", "and so on"),
        ORDER.replace("cmd/", "base/"),
    ],
)
def test_an_order_that_cannot_be_read_fails(tree, order):
    add(tree, "docs/architecture.md", order)
    assert len(run(tree)) == 1


def test_no_order_fails(tree):
    (tree / "docs/architecture.md").unlink()
    assert len(run(tree)) == 1
