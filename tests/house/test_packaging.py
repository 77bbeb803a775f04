# SPDX-License-Identifier: BSD-3-Clause
"""The files that run an agent on every host can be read by what reads them, and give it as little as it needs."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

PACKAGING = pathlib.Path(__file__).resolve().parents[2] / "packaging"


def run(*words, **how):
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=60, check=False, **how)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_the_unit_is_understood_and_confined():
    done = run("systemd-analyze", "security", "--offline=true", "--no-pager", PACKAGING / "systemd" / "weir-agent.service")
    found = re.search(r"Overall exposure level for .*: ([0-9.]+)", done.stdout)
    if not found:
        pytest.skip(f"this systemd-analyze cannot judge a file: {done.stderr.strip()[-200:]}")
    assert float(found.group(1)) <= 2.5, done.stdout
    assert "Unknown" not in done.stderr and "Failed to parse" not in done.stderr, done.stderr


def test_the_daemonset_is_confined():
    yaml = pytest.importorskip("yaml", reason="python3-yaml is not installed")
    documents = list(yaml.safe_load_all((PACKAGING / "kubernetes" / "agent.yaml").read_text()))
    pod = next(d for d in documents if d["kind"] == "DaemonSet")["spec"]["template"]["spec"]
    agent = pod["containers"][0]
    assert pod["securityContext"]["runAsNonRoot"] and not pod["automountServiceAccountToken"]
    assert agent["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                        "capabilities": {"drop": ["ALL"], "add": ["NET_RAW"]}}
    assert {v["name"] for v in pod["volumes"]} == {m["name"] for m in agent["volumeMounts"]}


def test_both_say_the_same_to_the_agent():
    unit = (PACKAGING / "systemd" / "weir-agent.service").read_text()
    words = set(re.findall(r"--([a-z-]+)", re.search("^ExecStart=.*$", unit, re.M).group(0)))
    assert words == {"cert", "key", "ca", "metrics-port"}
    assert words == set(re.findall(r"- --([a-z-]+)=", (PACKAGING / "kubernetes" / "agent.yaml").read_text()))


def test_the_image_is_of_this_version():
    version = re.search(r"version: '([0-9.]+)'", (PACKAGING.parent / "meson.build").read_text()).group(1)
    for name in ("Containerfile", "README.md", "kubernetes/agent.yaml"):
        assert set(re.findall(r"\bweir:([0-9.]+)", (PACKAGING / name).read_text())) == {version}, name


@pytest.mark.skipif(not (shutil.which("readelf") and shutil.which("dpkg-query")), reason="needs readelf and dpkg")
@pytest.mark.skipif("WEIR" not in os.environ, reason="WEIR names no program")
def test_the_image_has_the_libraries_that_weir_needs():
    stage = (PACKAGING / "Containerfile").read_text().rpartition("\nFROM ")[2]
    here = re.search("^VERSION_CODENAME=(.*)$", pathlib.Path("/etc/os-release").read_text(), re.M)
    if not here or not stage.startswith(f"debian:{here.group(1)}-slim"):
        pytest.skip("the image is of another Debian, whose packages have other names")
    needed = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", os.environ["WEIR"]).stdout)
    assert "libc.so.6" in needed
    for library in needed:
        if re.match("lib(c|m|gcc_s|asan|ubsan)[.]|ld-", library):
            continue  # libc's own, and what the sanitizers add
        package = run("dpkg-query", "-S", f"*/{library}").stdout.partition(":")[0]
        assert package and f" {package} " in stage.replace("\t", " "), (library, package)


def test_settings_of_a_host_reach_the_agent():
    """The file of settings comes after what the unit itself sets, and options from it after those of the unit: the last wins."""
    lines = (PACKAGING / "systemd" / "weir-agent.service").read_text().splitlines()
    start = next(line for line in lines if line.startswith("ExecStart="))
    assert start.endswith(" $WEIR_AGENT_OPTIONS")
    assert next(i for i, line in enumerate(lines) if line.startswith("Environment=")) < lines.index("EnvironmentFile=-/etc/weir/agent.env")


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")
def test_trial_certificates_are_made(tmp_path):
    done = run(PACKAGING / "kubernetes" / "certificates.sh", tmp_path / "tls", "10.0.0.1", "node1.example", "fe80::1")
    assert done.returncode == 0, done
    assert sorted(p.name for p in (tmp_path / "tls").iterdir()) == ["ca.pem", "cert.pem", "key.pem"]
    shown = run("openssl", "x509", "-in", tmp_path / "tls" / "cert.pem", "-noout", "-ext", "subjectAltName,extendedKeyUsage").stdout
    for name in ("IP Address:10.0.0.1", "DNS:node1.example", "IP Address:FE80:", "Client Authentication", "Server Authentication"):
        assert name in shown
    for purpose in ("sslserver", "sslclient"):
        assert run("openssl", "verify", "-purpose", purpose, "-CAfile", tmp_path / "tls" / "ca.pem",
                   tmp_path / "tls" / "cert.pem").returncode == 0
