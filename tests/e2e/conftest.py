# SPDX-License-Identifier: BSD-3-Clause
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from weirtest import own_network  # noqa: E402: found by the path above


def pytest_configure():
    own_network()
