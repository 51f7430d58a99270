"""Units, manifests and compose files: valid, hardened, and with options that exist.
docs/how-to/servers.md and docs/how-to/several_machines.md say how they are used.
"""

import os
import re
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
from swarm_node.settings.command_line import from_command_line
from tests.commands import python, resolve

DEPLOY = Path(__file__).parents[2] / "deploy"
DOCKER = DEPLOY.parent / "docker"
CONFIGS = DEPLOY.parent / "configs"
# What a configuration says that needs the extra
NEEDS_MEMORY = re.compile(r'^(optimizer = "adamw_8bit"|quantization = "nf4")', re.M)
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
# By its service's name
COMPOSED = {name: DEPLOY / "compose" / f"{name}.yaml" for name in ("bootstrap", "node")}
PEER = "/ip4/192.168.1.20/tcp/31330/p2p/12D3KooWEyoppNCUx8Yx66oV9fJnriXwCcXwDDUA2kj6vnc6iDEp"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


def command_of(unit: Path) -> list[str]:
    (line,) = [line for line in unit.read_text().splitlines() if line.startswith("ExecStart=")]
    return line.removeprefix("ExecStart=").split()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_is_valid_and_hardened(unit: Path, tmp_path: Path) -> None:
    here = tmp_path / unit.name
    # A program that exists
    here.write_text(unit.read_text().replace(command_of(unit)[0], sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", here], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    # 2.5 of 10, the lower the better
    limit = ["systemd-analyze", "security", "--offline=true", "--threshold=25", here]
    done = subprocess.run(limit, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout.splitlines()[-1]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_what_a_unit_starts_has_options_that_exist_and_is_bounded(unit: Path) -> None:
    lines = {line.partition("=")[0] for line in unit.read_text().splitlines()}
    assert {"MemoryMax", "RestartPreventExitStatus"} <= lines
    _, name, *arguments = command_of(unit)
    if name == "page":  # test_monitoring.py checks it, as the page may be missing
        return
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
    done = python("-m", "kubernetes_validate", "--strict", manifest)
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
        assert container[probe]["exec"]["command"] == ["swarm-node", "status", "--alive"]
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
    public_key(peer)  # raises for an invalid peer id
    assert not tomllib.loads(config)["network"]["mdns"]
    (policy,) = [each for each in objects() if each["kind"] == "NetworkPolicy"]
    for rule in (policy["spec"]["ingress"][0], policy["spec"]["egress"][0]):
        for port in rule["ports"]:
            assert port["port"] <= bootstrap.port < node.network.port <= port["endPort"]


def composed(name: str, **variables: str) -> dict[str, Any]:
    """The service of a compose file, as compose reads it with these variables."""

    def value(found: "re.Match[str]") -> str:
        variable, kind, word = found.groups()
        given = variables.get(variable)
        assert given or kind == ":-", f"{variable}: {word}"
        return given or str(word)

    text = re.sub(r"\$\{(\w+)(:[-?])([^}]*)\}", value, COMPOSED[name].read_text())
    content = yaml.safe_load(text)
    assert list(content["services"]) == [name] and list(content["volumes"]) == [name]
    service: dict[str, Any] = content["services"][name]
    return service


@pytest.mark.parametrize("name", COMPOSED)
def test_a_composed_service_may_do_no_more_than_it_needs_and_keeps_what_it_is(name: str) -> None:
    service = composed(name, SWARM_NODE_NETWORK__PEERS=PEER)
    assert service["read_only"] and service["tmpfs"] == ["/tmp"] and service["cap_drop"] == ["ALL"]
    assert (
        service["security_opt"] == ["no-new-privileges:true"]
        and service["restart"] == "unless-stopped"
    )
    assert service["pids_limit"] == 2048
    assert service["volumes"] == [f"{name}:/data"] and service["network_mode"] == "host"


LIMITS = ("read_only", "tmpfs", "cap_drop", "security_opt", "pids_limit", "restart")
RIGHTS = {
    "cap_add", "cgroup", "cgroup_parent", "device_cgroup_rules", "devices", "group_add", "ipc",
    "isolation", "network_mode", "pid", "privileged", "secrets", "sysctls", "ulimits", "user",
    "userns_mode", "uts", "volumes_from",
}  # fmt: skip


def test_the_swarm_on_one_machine_is_hardened_as_the_services_of_servers_are() -> None:
    services = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]
    assert list(services) == ["bootstrap", *(f"node{k}" for k in range(8))]
    for name, service in services.items():
        like = composed(
            "bootstrap" if name == "bootstrap" else "node", SWARM_NODE_NETWORK__PEERS=PEER
        )
        assert {key: service.get(key) for key in LIMITS} == {key: like[key] for key in LIMITS}, name
        assert not RIGHTS & service.keys(), name
        own, *others = service["volumes"]
        assert own.endswith(":/data") and "/" not in own.split(":")[0], "no folder of the host"
        assert others == ([] if name == "bootstrap" else ["entry:/entry:ro"])


def test_what_lies_over_the_swarm_on_one_machine_takes_nothing_of_that_back() -> None:
    for name, service in yaml.safe_load((DOCKER / "compose.gpu.yaml").read_text())[
        "services"
    ].items():
        assert not (RIGHTS | {*LIMITS, "volumes", "entrypoint", "command"}) & service.keys(), name


def test_what_is_composed_has_options_that_exist_and_one_machine_has_room_for_both(
    tmp_path: Path,
) -> None:
    _, *flags = composed("bootstrap")["command"]
    bootstrap = from_command_line(BootstrapConfig, flags, "bootstrap")
    variables = {
        "SWARM_NODE_NETWORK__PEERS": f"{PEER},{PEER[:-1]}X",
        "SWARM_NODE_MODEL__NAME": "rarest",
    }
    (tmp_path / "node.toml").touch()
    environment = {
        name: str(value) for name, value in composed("node", **variables)["environment"].items()
    }
    node = resolve(NodeConfig, tmp_path / "node.toml", environment)
    assert node.network.peers == (PEER, f"{PEER[:-1]}X") and node.model.name == "rarest"
    assert {bootstrap.port, node.network.port} == {31330, 31331} and bootstrap.swarm == node.swarm
    variables = {f"SWARM_NODE_{name}": "x" for name in ("SWARM", "IMAGE")}
    assert composed("bootstrap", **variables)["image"] == "x"
    with pytest.raises(AssertionError, match="give the address of a bootstrap node"):
        composed("node")


COMPOSE_FILES = sorted([*DOCKER.rglob("compose*.yaml"), *(DEPLOY / "compose").glob("*.yaml")])
OURS = re.compile(r"(\$\{SWARM_NODE_IMAGE:-swarm-node\}|swarm-node(:gpu)?)")
# A name, a version and a digest: what a registry serves under it cannot change
PINNED = re.compile(r"[a-z]+/[a-z-]+:v?\d+\.\d+\.\d+@sha256:[0-9a-f]{64}")


def images(file: Path) -> list[str]:
    return re.findall(r"^\s+image: (.+?)(?:\s+#.*)?$", file.read_text(), re.MULTILINE)


def test_every_image_of_others_in_a_compose_file_is_named_by_version_and_digest() -> None:
    named = {image for file in COMPOSE_FILES for image in images(file)}
    others = {image for image in named if not OURS.fullmatch(image)}
    assert {image.split(":")[0] for image in others} == {
        "prom/prometheus",
        "prom/alertmanager",
        "grafana/grafana",
    }
    assert [image for image in others if not PINNED.fullmatch(image)] == []


@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="needs docker-compose")
def test_compose_takes_its_files() -> None:
    for files in (
        [COMPOSED["bootstrap"]],
        [COMPOSED["node"]],
        [COMPOSED["node"], DEPLOY / "compose" / "gpu.yaml"],
    ):
        words = [word for file in files for word in ("-f", str(file))]
        given = {"PATH": os.environ["PATH"], "SWARM_NODE_NETWORK__PEERS": PEER}
        done = subprocess.run(
            ["docker-compose", *words, "config", "-q"],
            capture_output=True,
            text=True,
            env=given,
            check=False,
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("cuda", "extras"), [(False, "gym,libp2p"), (True, "gym,libp2p,memory,card")]
)
def test_the_image_for_cards_has_what_the_configurations_for_cards_need(
    cuda, extras, tmp_path
) -> None:
    """AdamW in 8 bits and bases in 4 bits are in the extra memory. Runs the lines that choose the
    extras, with a torch that has or has no CUDA.
    """
    text = (DOCKER.parent / "Dockerfile").read_text().replace("\\\n", "")
    chosen = re.search(r'extras=.*?pip install --no-compile "[^"]*"', text)
    assert chosen, "the image installs no extras"
    for name, script in {"python": f"exit {int(not cuda)}", "pip": 'echo "$@"'}.items():
        file = tmp_path / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o700)
    said = subprocess.run(
        ["sh", "-c", chosen[0]],
        env={"PATH": f"{tmp_path}:/bin:/usr/bin"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.split()[-1] == f".[{extras}]"
    needing = [path for path in CONFIGS.glob("*.toml") if NEEDS_MEMORY.search(path.read_text())]
    assert needing, "no configuration needs the extra, so that this test would say nothing"
