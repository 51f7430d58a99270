"""Units and manifests: valid, hardened, and with options that exist. docs/how-to/servers.md says how they are used."""

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from protocol.identity import public_key
from swarm_node.network.transport.multiaddr import split_peer
from swarm_node.settings import BootstrapConfig, NodeConfig
from swarm_node.settings.command_line import from_command_line, resolve

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


def command_of(unit: Path) -> list[str]:
    (line,) = [line for line in unit.read_text().splitlines() if line.startswith("ExecStart=")]
    return line.removeprefix("ExecStart=").split()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_is_valid_and_hardened(unit: Path, tmp_path: Path) -> None:
    here = tmp_path / unit.name
    here.write_text(unit.read_text().replace(command_of(unit)[0], sys.executable))  # one that exists
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", here], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    limit = ["systemd-analyze", "security", "--offline=true", "--threshold=25", here]  # 2.5 of 10, the lower the better
    done = subprocess.run(limit, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout.splitlines()[-1]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_what_a_unit_starts_has_options_that_exist(unit: Path) -> None:
    _, name, *arguments = command_of(unit)
    kind = {"run": NodeConfig, "bootstrap": BootstrapConfig}[name]
    flags = [argument for argument in arguments if not argument.endswith(".toml")]
    assert str(from_command_line(kind, flags, name).home).startswith("/var/lib/swarm-node")


def objects() -> Iterator[dict[str, Any]]:
    for manifest in MANIFESTS:
        yield from yaml.safe_load_all(manifest.read_text())


def pods() -> dict[str, dict[str, Any]]:
    return {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in objects()
        if each["kind"] in ("StatefulSet", "Deployment")
    }


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest.stem)
def test_a_manifest_is_what_kubernetes_expects(manifest: Path) -> None:
    checked = [sys.executable, "-m", "kubernetes_validate", "--strict", manifest]
    done = subprocess.run(checked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["swarm-bootstrap", "swarm-trainer"])
def test_a_pod_may_do_no_more_than_it_needs_and_is_asked_for_its_health(name: str) -> None:
    pod = pods()[name]
    assert pod["automountServiceAccountToken"] is pod["enableServiceLinks"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        rights = container["securityContext"]
        assert rights["readOnlyRootFilesystem"] and not rights["allowPrivilegeEscalation"]
        assert rights["capabilities"] == {"drop": ["ALL"]}
    (container,) = pod["containers"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["exec"]["command"] == ["swarm-node", "status"]
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {"/data", "/tmp"} <= mounted


def test_what_a_pod_starts_has_options_that_exist_and_ports_that_are_open(tmp_path: Path) -> None:
    _, *flags = pods()["swarm-bootstrap"]["containers"][0]["args"]
    bootstrap = from_command_line(BootstrapConfig, flags, "bootstrap")
    (config,) = [each["data"]["node.toml"] for each in objects() if each["kind"] == "ConfigMap"]
    (tmp_path / "node.toml").write_text(config)
    node = resolve(NodeConfig, tmp_path / "node.toml", {})
    address, peer = split_peer(node.network.peers[0])
    assert address == f"/dns4/swarm-bootstrap-0.swarm-bootstrap/tcp/{bootstrap.port}"
    public_key(peer)  # raises for a name that is none
    assert not tomllib.loads(config)["network"]["mdns"]
    (policy,) = [each for each in objects() if each["kind"] == "NetworkPolicy"]
    for rule in (policy["spec"]["ingress"][0], policy["spec"]["egress"][0]):
        for port in rule["ports"]:
            assert port["port"] <= bootstrap.port < node.network.port <= port["endPort"]
