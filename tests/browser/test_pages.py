# SPDX-License-Identifier: BSD-3-Clause
"""The pages of weir report and weir diff in a real browser: at 360 and 1920 pixels, light and dark, used and without script.

Pictures stay in BROWSER_PICTURES where that is set, to be looked at.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import documents  # noqa: E402
from weirtest import WEIR  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
CHROMIUM = shutil.which("chromium")
HOSTILE = "</td><script>window.hostile=1</script><img src=x onerror=window.hostile=2>\"'"


def missing():
    if not CHROMIUM:
        return "needs chromium"
    if not shutil.which("node"):
        return "needs node"
    if not (HERE / "node_modules" / "playwright-core").is_dir():
        return "needs playwright-core: scripts/deps check"
    return None


WHY_NOT = missing()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=str(WHY_NOT))


def telemetry(folder, nics, hostile=False, seed=0):
    """cxi trees before and after: NIC 1 of them is paused far more than its siblings."""
    names = ["hni_rx_paused_0", "hni_tx_paused_0", "hni_pkts_sent_by_tc_0", "pct_spt_timeouts", "atu_cache_miss_0", "cq_dma_cmd_counts_0"]
    for when, t in (("before", 100.0), ("after", 110.0)):
        for nic in range(nics):
            place = folder / when / f"cxi{nic}" / "device" / "telemetry"
            place.mkdir(parents=True)
            for number, name in enumerate(names):
                grown = (10 ** number + nic + seed) if when == "after" else 0
                if nic == 1 and name == "hni_rx_paused_0" and grown:
                    grown = 7 * 10**9
                (place / name).write_text(f"{1000 + grown}@{t:.9f}")
            if hostile and nic == 0:
                (place / HOSTILE.replace("/", "%")).write_text(f"{5 if when == 'after' else 1}@{t:.9f}")


def run(*words):
    return subprocess.run([WEIR, *map(str, words)], check=True, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module", name="seen")
def fixture_seen(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    subprocess.run([os.environ["MAKE_RECORDS"], folder], check=True, timeout=60)
    telemetry(folder, 8, hostile=True)
    for when in ("before", "after"):
        run("counters", "snap", "--source", "cxi", "--cxi", folder / when, folder / f"cxi-{when}.json")
    record = json.loads((folder / "stream.json").read_text())
    record["local"]["facts"]["nic_driver"] = HOSTILE
    record["local"]["facts"]["hostname"] = HOSTILE
    record["findings"].append({"name": "unfair", "severity": "warning", "text": HOSTILE})
    (folder / "hostile.json").write_text(json.dumps(record))
    pages = {"stream": ["report", folder / "stream.json"], "rr": ["report", folder / "rr-open-loop.json"],
             "absurd": ["report", folder / "absurd.json"], "hostile": ["report", folder / "hostile.json"],
             "counters": ["report", folder / "cxi-before.json", folder / "cxi-after.json"]}
    made = documents.write(folder)
    pages["rails"], pages["p2p"] = ["report", made["rails"]], ["report", made["p2p"]]
    for name, words in pages.items():
        run(*words, "--out", folder / f"{name}.html")
    subprocess.run([WEIR, "diff", folder / "stream.json", folder / "stream-failed.json", "--out", folder / "diff.html"], check=False, timeout=60)
    pictures = pathlib.Path(os.environ.get("BROWSER_PICTURES", folder))
    pictures.mkdir(exist_ok=True)
    files = [f"{name}={folder / name}.html" for name in (*pages, "diff")]
    done = subprocess.run(["node", HERE / "pages.js", CHROMIUM, pictures, *files], cwd=HERE, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_nothing_is_loaded_and_no_script_fails(seen):
    for name, page in seen.items():
        if name != "pdf":
            assert page["requests"] == [] and page["errors"] == [], name


def test_no_page_is_wider_than_the_screen(seen):
    for name, page in seen.items():
        if name != "pdf":
            assert page["overflow"] == {"360": 0, "1920": 0}, name


def test_hostile_names_stay_text(seen):
    assert seen["hostile"]["hostile"] is None and seen["counters"]["hostile"] is None
    assert "<script>" in seen["hostile"]["title"]


def test_pictures_have_words_for_those_who_cannot_see_them(seen):
    assert all(page["unlabelled"] == 0 for name, page in seen.items() if name != "pdf")


def test_the_search_box_filters_and_gives_back(seen):
    use = seen["counters"]["use"]
    assert use["rows"] == use["rows_again"] > use["rows_filtered"] > 0
    assert all("paused" in name and "cxi1" in name for name in use["filtered_names"])
    assert "counters match" in use["output"] and use["hit_is_open"]


def test_groups_fold(seen):
    use = seen["counters"]["use"]
    assert use["groups"] > 8 and use["open_before"] is False and use["open_after"] is True


def test_tables_sort_and_charts_tell_values(seen):
    use = seen["stream"]["use"]
    assert use["sorted"] == sorted(use["sorted"], reverse=True) and len(use["sorted"]) == 8
    assert "received" in use["tip"] and "Gbit/s" in use["tip"]


def test_all_is_readable_without_javascript(seen):
    for name, page in seen.items():
        if name != "pdf":
            assert page["plain"]["has_findings"] and page["plain"]["length"] > 500 and not page["plain"]["search"], name


def test_it_prints(seen):
    assert seen["pdf"] > 10000
