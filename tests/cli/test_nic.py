# SPDX-License-Identifier: BSD-3-Clause
"""weir nic: what is shown, changed and put back, on veth interfaces in a network namespace of the test's own."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess

import jsonschema
import pytest

from weirtest import ROOT, WEIR, Process, run, wait_for, weir

TSO_OFF = ("--set", "feature:tx-tcp-segmentation=off")
ALL_OFF = ("--set", "feature:tx-tcp-segmentation=off channels:rx=2 feature:tx-checksum-ip-generic=off")


def ip(*words, check=True):
    return subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30, check=check)


class Nic:
    """veth0 in a namespace, and records in a folder of their own."""

    def __init__(self, namespace, folder):
        self.namespace, self.folder = namespace, folder
        self.how = {"prefix": ["ip", "netns", "exec", namespace], "env": {"WEIR_STATE_DIR": str(folder)}}

    def weir(self, *words, **more):
        return weir("nic", *words, **{**self.how, **more})

    def start(self, *words):
        return Process(WEIR, "nic", *words, **self.how)

    def show(self):
        done = self.weir("show", "veth0", "--json")
        assert (done.status, done.stderr) == (0, ""), done
        shown = json.loads(done.stdout)
        validate(shown)
        return shown

    def tso(self):
        return self.show()["features"]["tx-tcp-segmentation"]

    def records(self):
        return sorted(self.folder.glob("nic-*"))

    @contextlib.contextmanager
    def held(self, *words):
        with self.start("prepare", "veth0", *(words or ALL_OFF), "--hold") as owner:
            wait_for("the owner to hold veth0", lambda: "until this program ends" in owner.so_far().stdout or owner.ended())
            assert not owner.ended(), owner.so_far()
            yield owner

    def guard_of(self, pid):
        """The guardian is the only child."""
        return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def validate(document):
    path = ROOT / "schema" / (document["schema"].removeprefix("weir/").replace("/", "-") + ".json")
    schema = json.loads(path.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(document)


@pytest.fixture(name="nic")
def fixture_nic(tmp_path):
    namespace = f"weir-nic-{os.getpid()}"
    ip("netns", "del", namespace, check=False)
    if os.getuid() or ip("netns", "add", namespace, check=False).returncode:
        pytest.skip("needs root and network namespaces")
    try:
        made = ip("-n", namespace, "link", "add", "name", "veth0", "numrxqueues", "4", "numtxqueues", "4", "type", "veth",
                  "peer", "name", "veth1", check=False)
        if made.returncode:
            pytest.skip("needs veth interfaces")
        folder = tmp_path / "state"
        nic = Nic(namespace, folder)
        if "built without libmnl" in nic.weir("show", "veth0").stdout:
            pytest.skip("needs libmnl")
        yield nic
    finally:
        ip("netns", "del", namespace, check=False)


def ended(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_show_says_for_each_precondition_whether_it_holds_and_how_to_mend_it(nic):
    shown = nic.show()
    checks = {c["name"]: c for c in shown["device_memory"]}
    assert set(checks) == {"kernel-receive", "kernel-send", "rights", "driver", "header-split", "hds-thresh", "steering", "queues"}
    assert all(c["mend"] for c in checks.values() if c["state"] == "fails")
    assert checks["queues"]["state"] == "holds" and "4 receive queues" in checks["queues"]["found"]
    assert checks["header-split"]["state"] == "fails"
    assert shown["channels"]["rx"] == 4 and shown["changed_by"] is None
    text = nic.weir("show", "veth0").stdout
    assert "Device memory" in text and "NO header-split" in text


def test_show_lists_all_interfaces(nic):
    listed = json.loads(nic.weir("show", "--json").stdout)
    validate(listed)
    assert [n["nic"] for n in listed["nics"]] == ["lo", "veth0", "veth1"]
    assert nic.weir("show").lines[0].split()[:2] == ["NIC", "state"]


def test_show_with_stats_has_queues_and_page_pools(nic):
    shown = json.loads(nic.weir("show", "veth0", "--stats", "--json").stdout)
    validate(shown)
    assert "queues" in shown and "page_pools" in shown


def test_a_dry_run_shows_and_changes_nothing(nic):
    before = nic.show()
    done = nic.weir("prepare", "veth0", *ALL_OFF, "--dry-run")
    assert (done.status, done.stderr) == (0, "")
    assert "would change" in done.stdout and "channels        rx: 4 -> 2" in done.stdout
    assert nic.show() == before
    assert not nic.records()
    planned = json.loads(nic.weir("--json", "prepare", *ALL_OFF, "--dry-run", "veth0").stdout)
    validate(planned)
    assert planned["state"] == "planned" and len(planned["changes"]) == 3


def test_prepare_stays_and_restore_puts_back(nic):
    before = nic.show()
    done = nic.weir("prepare", "veth0", *ALL_OFF, "--json")
    assert done.status == 0, done
    validate(json.loads(done.stdout))
    now = nic.show()
    assert now["channels"]["rx"] == 2 and not now["features"]["tx-tcp-segmentation"]
    assert now["changed_by"] == {"kept": True}
    again = nic.weir("prepare", "veth0", *ALL_OFF)
    assert again.status == 0 and "nothing to change" in again.stdout
    done = nic.weir("restore", "veth0", "--json")
    assert done.status == 0, done
    restored = json.loads(done.stdout)
    validate(restored)
    assert restored["state"] == "restored"
    assert [c["kind"] for c in restored["changes"]][1] == "channels"
    assert restored["changes"][-1]["key"] == "tx-tcp-segmentation"
    assert nic.show() == before and not nic.records()


def test_restore_with_nothing_to_do_is_fine(nic):
    done = nic.weir("restore")
    assert (done.status, done.stdout) == (0, "nothing to put back\n")
    done = nic.weir("restore", "veth0")
    assert done.status == 0 and "changed nothing on veth0" in done.stdout


@pytest.mark.parametrize("number", (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
def test_a_signal_puts_everything_back(nic, number):
    before = nic.show()
    with nic.held() as owner:
        guard = nic.guard_of(owner.pid)
        assert nic.show() != before
        owner.signal(number)
        done = owner.wait()
    assert done.status == 0 and "veth0 is as it was" in done.stdout, done
    assert nic.show() == before and not nic.records()
    assert ended(guard)


def test_an_owner_killed_with_9_is_cleaned_up_after_by_its_guardian(nic):
    before = nic.show()
    with nic.held() as owner:
        guard = nic.guard_of(owner.pid)
        assert pathlib.Path(f"/proc/{guard}/comm").read_text() == "nic-guard\n"
        assert not nic.tso()
        os.kill(owner.pid, signal.SIGKILL)
        wait_for("the guardian", lambda: ended(guard), 10)
    assert nic.show() == before and not nic.records()


def test_a_signal_to_the_whole_process_group_spares_the_guardian(nic):
    before = nic.show()
    with Process(WEIR, "nic", "prepare", "veth0", *ALL_OFF, "--hold", start_new_session=True, **nic.how) as owner:
        wait_for("the owner", lambda: "until this program ends" in owner.so_far().stdout)
        guard = nic.guard_of(owner.pid)
        os.killpg(owner.pid, signal.SIGKILL)
        wait_for("the guardian", lambda: ended(guard), 10)
    assert nic.show() == before


def test_the_guardian_holds_no_descriptor_but_its_own(nic):
    with nic.held() as owner:
        guard = nic.guard_of(owner.pid)
        links = [os.readlink(f"/proc/{guard}/fd/{n}") for n in sorted(os.listdir(f"/proc/{guard}/fd"), key=int)]
        assert links[:3] == ["/dev/null"] * 3 and str(nic.folder) in links[3] and len(links) <= 6, links


def test_a_second_owner_is_refused_and_told_who_has_it(nic):
    with nic.held() as owner:
        now = nic.show()
        assert now["changed_by"]["pid"] == owner.pid
        for words in (("prepare", "veth0", *TSO_OFF), ("restore", "veth0"), ("restore",)):
            done = nic.weir(*words)
            assert done.status == 1
            assert f"veth0 is in use by pid {owner.pid}: " in done.stderr and "--hold" in done.stderr
            assert f"kill {owner.pid}" in done.stderr
        assert nic.show() == now
        other = nic.weir("prepare", "veth1", *TSO_OFF)
        assert other.status == 0, other
    assert nic.weir("restore", "veth1").status == 0


def kill_both(nic, owner):
    os.kill(nic.guard_of(owner.pid), signal.SIGKILL)
    os.kill(owner.pid, signal.SIGKILL)
    owner.popen.wait(10)


def test_what_is_left_when_both_are_killed_is_restored_by_hand(nic):
    before = nic.show()
    with nic.held() as owner:
        kill_both(nic, owner)
    assert not nic.tso() and len(nic.records()) == 1
    done = nic.weir("restore")
    assert done.status == 0 and "putting 3 settings back" in done.stdout, done
    assert nic.show() == before and not nic.records()


def test_what_is_left_when_both_are_killed_is_undone_by_the_next_run(nic):
    before = nic.show()
    with nic.held() as owner:
        kill_both(nic, owner)
    with nic.held(*TSO_OFF) as owner:
        assert "put back what a killed owner had left: 3 settings" in owner.so_far().stdout
        assert nic.show()["channels"]["rx"] == 4
        owner.signal(signal.SIGTERM)
        assert owner.wait().status == 0
    assert nic.show() == before


def test_kill_at_any_moment_leaves_the_nic_as_it_was(nic):
    before = nic.show()
    for delay_ms in range(0, 60, 4):
        with nic.start("prepare", "veth0", *ALL_OFF, "--hold") as owner:
            with contextlib.suppress(subprocess.TimeoutExpired):
                owner.popen.wait(delay_ms / 1000)
            owner.kill()
        wait_for(f"veth0 after {delay_ms} ms", lambda: not nic.records() or nic.weir("restore").status == 0, 10)
        assert nic.show() == before, delay_ms


def test_an_interface_that_vanishes_takes_its_settings_along(nic):
    with nic.held() as owner:
        ip("-n", nic.namespace, "link", "del", "veth0")
        owner.signal(signal.SIGTERM)
        assert owner.wait().status == 0
    assert not nic.records()


def test_another_interface_of_the_same_name_is_left_alone(nic):
    with nic.held() as owner:
        kill_both(nic, owner)
    ip("-n", nic.namespace, "link", "del", "veth0")
    ip("-n", nic.namespace, "link", "add", "name", "veth0", "numrxqueues", "4", "type", "veth", "peer", "name", "veth1")
    before = nic.show()
    done = nic.weir("restore")
    assert done.status == 0 and "gone" in done.stdout
    before["changed_by"] = None
    assert nic.show() == before


def test_a_full_disk_is_said_and_nothing_is_changed(nic, tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k,mode=755", "tmpfs", full], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("needs to mount a tmpfs")
    try:
        (full / "filler").write_bytes(b"x" * 4096)
        before = nic.show()
        done = nic.weir("prepare", "veth0", *ALL_OFF, env={"WEIR_STATE_DIR": str(full)})
        assert done.status == 1
        assert "No space left on device" in done.stderr and "nothing was changed" in done.stderr
        assert nic.show() == before
        assert [p.name for p in full.iterdir()] == ["filler"]
    finally:
        subprocess.run(["umount", full], check=True)


def test_without_the_right_nothing_is_touched(nic):
    if run("setpriv", "--version").status:
        pytest.skip("needs setpriv")
    before = nic.show()
    prefix = [*nic.how["prefix"], "setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin"]
    for words in (("prepare", "veth0", *TSO_OFF), ("restore", "veth0")):
        done = nic.weir(*words, prefix=prefix)
        assert done.status == 1
        assert "needs CAP_NET_ADMIN; nothing was touched" in done.stderr and "run it as root" in done.stderr
    assert nic.show() == before and not nic.records()
    shown = json.loads(nic.weir("show", "veth0", "--json", prefix=prefix).stdout)
    assert {c["name"]: c["state"] for c in shown["device_memory"]}["rights"] == "fails"


def test_a_directory_that_cannot_be_written_is_said(nic, tmp_path):
    (tmp_path / "file").write_text("")
    done = nic.weir("prepare", "veth0", *TSO_OFF, env={"WEIR_STATE_DIR": str(tmp_path / "file")})
    assert done.status == 1 and "cannot write the record of changes" in done.stderr and "WEIR_STATE_DIR" in done.stderr
    assert nic.tso()


@pytest.mark.parametrize("words, said", [
    ((), "the driver of veth0 has no header split"),
    (("--queues", "2"), "the driver of veth0 has no header split"),
    (("--flow", "dst-port=1"), "flows need queues"),
    (("--set", "tcp-data-split=on"), "does not let weir read the rings"),
    (("--set", "hds-thresh=0"), "does not let weir read the rings"),
    (("--set", "rss-table=0-1/128"), "does not let weir read the RSS table"),
    (("--set", "priv-flag:enable-header-split=on"), "has no private flag named enable-header-split"),
    (("--set", "feature:no-such=on"), "has no feature named no-such"),
    (("--set", "feature:rx-ntuple-filter=on"), "does not let rx-ntuple-filter be turned on"),
    (("--set", "channels:rx=99"), "channels"),
    (("--set", "channels:blue=1"), "rx, tx, other or combined"),
    (("--set", "nonsense=1"), "'nonsense' is no kind of NIC setting"),
    (("--set", "feature:rx-gro"), "has no value"),
    (("--queues", "x"), "--queues x"),
])
def test_what_cannot_be_done_is_said_and_undone(nic, words, said):
    before = nic.show()
    done = nic.weir("prepare", "veth0", *words)
    assert (done.status, done.stdout) == (1, ""), done
    assert said in done.stderr
    assert nic.show() == before and not nic.records()


def test_a_change_that_fails_takes_those_before_it_back(nic):
    before = nic.show()
    done = nic.weir("prepare", "veth0", "--set", "feature:tx-tcp-segmentation=off channels:rx=99")
    assert done.status == 1
    assert nic.show() == before and not nic.records()


def test_interfaces_that_are_not_there_are_refused(nic):
    for words in (("show", "eth99"), ("prepare", "eth99")):
        done = nic.weir(*words)
        assert (done.status, done.stdout) == (1, "")
        assert "there is no network interface eth99" in done.stderr


@pytest.mark.parametrize("words", [
    (), ("nonsense",), ("prepare",), ("show", "a", "b"), ("show", "--queues", "1"), ("restore", "--dry-run"),
    ("prepare", "lo", "--set", "feature:rx-gro=on", "--queues", "1"), ("show", "--nonsense"),
])
def test_wrong_usage_is_status_2(words):
    done = weir("nic", *words)
    assert (done.status, done.stdout) == (2, "")
    assert done.stderr.startswith("weir nic: ") and done.stderr.count("\n") == 2


def test_help_lists_all_options():
    done = weir("nic", "--help")
    assert (done.status, done.stderr) == (0, "")
    for option in ("--queues LIST", "--flow FLOWS", "--spread", "--set SETTINGS", "--hold", "--dry-run", "--stats", "--json"):
        assert option in done.stdout
    assert weir("help", "nic").stdout == done.stdout
    assert all(len(line) <= 100 for line in done.lines)


def test_a_recorded_machine_cannot_be_changed(tmp_path):
    done = weir("nic", "prepare", "lo", env={"WEIR_SYSROOT": str(tmp_path)})
    assert done.status == 1 and "recorded machine" in done.stderr
