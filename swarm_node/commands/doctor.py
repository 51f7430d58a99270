"""`doctor`: can this node train, and can it share? Every finding says what is wrong and what to do,
in plain words.

It asks the node that runs in this home. Where none runs, it starts a network that does nothing, for
a few seconds, to see whether it can listen and whether the bootstrap nodes answer.
"""

import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from protocol.identity import Identity
from protocol.messages import PeerId, Round
from swarm_node.commands.bundle import write_bundle
from swarm_node.commands.check import examine
from swarm_node.commands.status import SENSELESS, alone, strange
from swarm_node.common.command import Command
from swarm_node.common.errors import Finding, Severity, UserError, printable, reason_of
from swarm_node.home.asks import going_on
from swarm_node.home.folder import in_use, load_identity
from swarm_node.network import confinement
from swarm_node.network.process import control
from swarm_node.network.process.runner import BootstrapNode
from swarm_node.network.transport.backends import check_addresses
from swarm_node.network.trial import REMEDY, bootstrap_findings, reach, try_network
from swarm_node.scoring import sandbox
from swarm_node.settings import DoctorConfig, NodeConfig
from swarm_node.settings.command_line import from_command_line
from swarm_node.swarm.joining import follow_card

SAME_CODE = "install the same code and packages as the others"
LITTLE_SPACE = 512 * 1024 * 1024  # bytes; a checkpoint of a small model and its optimiser

# The finding about a home whose running node trains nothing
BOOTSTRAP = Finding(
    "role", Severity.OK, "a bootstrap node: others join through it, and it trains nothing"
)

PAGE = """\
usage: swarm-node doctor [CONFIG.toml] [--flags]

Finds out why a node cannot train or connect, and says what to do about it. Asks
the running node or, if none runs, looks at what the next one would find. Takes
the flags of run. Exit code 0: it can train and share, 1: it can only train
alone, 3: it cannot train.

  --home FOLDER            home folder of the node (~/.swarm-node)
  --bundle FILE            write a bug report, without keys and addresses
  --peers MULTIADDR ...    bootstrap nodes to try
  --network.port N         port on which the node should listen
  --model.name NAME        model that it should train
  --environment.tasks ...  tasks that it should train on"""


def diagnose(config: NodeConfig) -> Iterator[Finding]:
    """Findings as they are made, the quick ones first. Never raises for what is wrong with the
    machine.
    """
    home = config.home.expanduser()
    yield _disk(home)
    yield _sandbox()
    yield _confinement()
    identity, lines = None, list[str]()
    try:
        config = follow_card(config, lines.append)
        yield from (Finding("swarm", Severity.OK, line) for line in lines)
        check_addresses(config.network)
        identity = load_identity(home)
        yield Finding("identity", Severity.OK, f"{identity.peer_id} in {home}")
    except UserError as error:
        yield Finding("identity and addresses", Severity.BAD, str(error))
    answer = control.ask(home) if in_use(home) else None
    if identity is not None:
        yield from _network(config, home, identity, answer)
    if answer is not None and answer.get("role") == "bootstrap":
        yield BOOTSTRAP
    else:
        yield from _training(config, identity)


def verdict(findings: Sequence[Finding]) -> tuple[int, str]:
    """Exit code and the line that explains it: 0 trains and shares, 1 trains alone, 3 does not
    train.
    """
    levels = {finding.level for finding in findings}
    if BOOTSTRAP in findings:
        marked = [level for level in (Severity.BAD, Severity.ALONE) if level in levels]
        if marked:
            return (
                1,
                "nobody can join through this bootstrap node for now: see the lines marked "
                f"{marked[0]}",
            )
        return 0, "others can join through this bootstrap node"
    if Severity.BAD in levels:
        return 3, "this node cannot train: see the lines marked bad"
    if Severity.ALONE in levels:
        return 1, "this node can train, but cannot share for now: see the lines marked alone"
    return 0, "this node can train and share"


def _sandbox() -> Finding:
    """Which layers of the sandbox work here. Missing ones are only a note: scoring runs with the
    others.
    """
    layers = sandbox.layers()
    severity = Severity.OK if all(layers.values()) else Severity.NOTE
    return Finding("sandbox", severity, sandbox.describe(layers))


def _confinement() -> Finding:
    """What the network process, which talks to strangers, could reach if it were taken over."""
    found = confinement.layers_here()
    engines = [path for path in confinement.ENGINES if os.access(path, os.W_OK)]
    text = f"the network process is confined by {', '.join(found.held)}"
    if found.missing:
        text += (
            f", but not by {' and '.join(found.missing)}, which needs Linux 5.13 or newer on "
            "x86-64 or arm64"
        )
    if engines:
        text += (
            f"; it could reach the container engine at {engines[0]}, and nothing here can prevent "
            "that: run the node as a user who cannot open that socket"
        )
    return Finding(
        "network confinement", Severity.NOTE if found.missing or engines else Severity.OK, text
    )


def _disk(home: Path) -> Finding:
    existing = next(folder for folder in (home, *home.parents) if folder.exists())
    try:
        # Under a new name: a link that somebody put there would lead to another file
        with tempfile.TemporaryFile(prefix=".swarm-node-", dir=existing) as probe:
            probe.write(bytes(4096))
        free = shutil.disk_usage(existing).free
    except OSError as error:
        text = (
            f"{existing} cannot be written ({reason_of(error)}): make room there, or choose "
            "another --home"
        )
        return Finding("disk", Severity.BAD, text)
    if free < LITTLE_SPACE:
        text = f"{free / 1e6:.0f} MB free in {existing}: checkpoints may fail; make room there"
        return Finding("disk", Severity.NOTE, text)
    return Finding("disk", Severity.OK, f"{free / 1e9:.1f} GB free in {existing}")


def _network(
    config: NodeConfig, home: Path, identity: Identity, answer: Mapping[str, Any] | None
) -> Iterator[Finding]:
    if not config.network.enabled:
        yield Finding(
            "network", Severity.ALONE, "it is off; to share, start without --network.no-enabled"
        )
        return
    if answer is not None:
        try:
            yield from [*_of_running(answer, answer.get("network", {}))]
        except SENSELESS:
            yield Finding("running node", Severity.BAD, strange(home))
        return
    if in_use(home):
        text = "a node runs here and does not answer: it may be starting; ask again in a minute"
        yield Finding("running node", Severity.NOTE, text)
        return
    yield Finding(
        "running node", Severity.NOTE, f"none in {home}: looking at what the next one will find"
    )
    yield from try_network(config, home, identity)


def _of_running(answer: Mapping[str, Any], network: Mapping[str, Any]) -> Iterator[Finding]:
    if network.get("leaving") or network.get("resting"):
        what = (
            "the node is stopping"
            if network.get("leaving")
            else "the node rests, see swarm-node status"
        )
        yield Finding("network", Severity.ALONE, what)
        return
    if not network.get("running"):
        yield Finding(
            "network",
            Severity.ALONE,
            "the network process is down and will be started again: ask in a minute",
        )
        return
    addresses = network["addresses"]
    yield Finding(
        "listening",
        Severity.OK if addresses else Severity.ALONE,
        ", ".join(addresses) or "not yet: ask again",
    )
    yield reach(addresses)
    found = [
        BootstrapNode(**{**node, "addresses": tuple(node["addresses"])})
        for node in network["bootstrap_nodes"]
    ]
    yield from bootstrap_findings(found)
    incompatible = [peer for peer in network["peers"] if peer["note"]]
    for peer in incompatible[:3]:
        yield Finding("version", Severity.NOTE, printable(f"{peer['peer']}: {peer['note']}"))
    for name, count in network["counters"].items():
        if (task := name.removeprefix("other environment: ")) != name:
            text = (
                f"{count} groups of {printable(task)} are of another environment with this "
                "name and version"
            )
            yield Finding("environment", Severity.NOTE, f"{text}: {SAME_CODE}")
    for task in (answer.get("training") or {}).get("odd", ()):
        text = f"episodes of {printable(task)} go differently here than for several peers"
        yield Finding("environment", Severity.NOTE, f"{text}: {SAME_CODE}")
    if why := alone(answer):
        yield Finding("peers", Severity.ALONE, why.removeprefix("alone: "))
    elif network["connected"] and not any(
        peer["round"] or peer["pulls"] for peer in network["peers"]
    ):
        text = (
            f"{network['connected']} connected, and none of them trains yet: bootstrap nodes "
            "do not train"
        )
        yield Finding("peers", Severity.NOTE, text)
    elif network["connected"]:
        yield Finding(
            "peers",
            Severity.OK,
            f"{network['connected']} connected, {network['relayed']} of them through a relay",
        )
    else:
        yield Finding("peers", Severity.ALONE, "nobody is connected; " + REMEDY)


def _training(config: NodeConfig, identity: Identity | None) -> Iterator[Finding]:
    """Findings about training. They come last, because they load the model."""
    yield _gpu(config)
    from swarm_node.environments.registry import build_environment
    from swarm_node.environments.scored import rewards_of_texts
    from swarm_node.node.defaults import resolved
    from swarm_node.policy.by_card import looking

    try:
        lines: list[str] = []
        config = going_on(config, config.home.expanduser(), lines.append)
        for line in lines:
            yield Finding("home", Severity.OK, line)
        chosen: list[str] = []
        config = resolved(config, lambda text: None, looking(chosen.append))
        for line in [*chosen, *examine(config)]:
            subject, _, text = line.partition(": ")
            yield Finding(subject, Severity.OK, text)
        environment = build_environment(config)
    except UserError as error:
        yield Finding("training", Severity.BAD, str(error))
        return
    try:
        asked = environment.sample(identity.peer_id if identity else PeerId(""), Round(0), 1)
        (prompt,) = environment.prompts(asked)
        (scores,) = rewards_of_texts(environment, [(asked[0], ["0", "1"])])
    except UserError as error:
        yield Finding("scoring", Severity.BAD, str(error))
        return
    finally:
        environment.close()
    for name, (version, _) in environment.catalogue.environments.items():
        yield Finding(
            "questions",
            Severity.OK,
            f"{name} {version}; peers of another version are not understood",
        )
    if isinstance(prompt, str) and isinstance(scores, tuple):
        yield Finding(
            "scoring",
            Severity.OK,
            f"scored two completions of {asked[0].dataset}/{asked[0].config_id}",
        )
    else:
        yield Finding(
            "scoring",
            Severity.BAD,
            f"cannot score {asked[0].dataset}/{asked[0].config_id}; try other tasks",
        )


def _gpu(config: NodeConfig) -> Finding:
    import torch

    from swarm_node.policy.hardware import unusable
    from swarm_node.telemetry.manifest import hardware

    if torch.cuda.is_available():
        names = ", ".join(hardware()["gpus"])
        if can_compile():
            return Finding("GPU", Severity.OK, names)
        text = (
            "slower kernels run, as Triton finds no C compiler or no Python.h: apt install gcc "
            "python3-dev"
        )
        return Finding("GPU", Severity.NOTE, f"{names}; {text}")
    if why := unusable():
        return Finding("GPU", Severity.NOTE, why)
    return Finding("GPU", Severity.NOTE, f"none; the CPU is used ({config.model.device})")


def can_compile() -> bool:
    """Whether Triton can build the C stubs that start its kernels: a compiler, and Python's
    headers.
    """
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    return compiler is not None and Path(sysconfig.get_path("include"), "Python.h").is_file()


def command(argv: list[str]) -> None:
    """Exit code 0: trains and shares, 1: trains alone, 3: does not train."""
    config = from_command_line(DoctorConfig, argv, "swarm-node doctor")
    if config.bundle and not config.bundle.expanduser().parent.is_dir():
        raise UserError(f"{config.bundle}: there is no such folder; choose another --bundle")

    findings, lines = [], []
    for finding in diagnose(config):
        findings.append(finding)
        lines.append(
            f"{finding.level:5}  {finding.subject}{': ' * bool(finding.text)}{finding.text}"
        )
        print(lines[-1], flush=True)
    code, text = verdict(findings)
    print(text)
    if config.bundle is not None:
        home, file = config.home.expanduser(), config.bundle.expanduser()
        answer = control.ask(home) if in_use(home) else None
        names = write_bundle(file, config, answer, [*lines, text])
        print(f"{file}: {', '.join(names)}; read it before you send it")
    sys.exit(code)


DOCTOR = Command(DoctorConfig, PAGE, command)
