"""What a node says of invitations unasked: at its start, in `status` and on its page."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any

from swarm_node.common.parsing import read_json
from swarm_node.common.shell import at_home
from swarm_node.network.transport.multiaddr import parts, usefulness
from swarm_node.settings import NodeConfig, Section
from swarm_node.swarm.code import MAX_ADDRESSES, Invitation, RequiredEnvironment, encode
from swarm_node.telemetry.events import Event, Listening, Notice, Sink, Telemetry

# The highest `usefulness` that is reached from anywhere; that of this machine only
FROM_ANYWHERE, HERE = 1, 3
MANIFEST_BYTES = 1 << 20


def invitation(home: Path, answer: Mapping[str, Any]) -> dict[str, Any]:
    """What `status` adds: the code, and the command that prints one. Empty while others cannot
    reach the node.
    """
    try:
        return {"invitation": encode(of_node(home, answer)), "advice": advice(home)}
    except (ValueError, LookupError, TypeError, AttributeError):
        # A folder of a stranger may answer anything
        return {}


def advice(home: Path) -> str:
    """A line that tells the user how to invite others."""
    return f"invite others: {at_home('swarm-node invite', home, NodeConfig().home)}"


def of_node(home: Path, answer: Mapping[str, Any]) -> Invitation:
    """The invitation by a node's answer. Raises what `invitation` catches, where the answer is not
    that of such a node.
    """
    network, training = answer["network"], answer.get("training", {})
    # Those known for longest first
    known = sorted(network["peers"], key=lambda each: -(each["answered"] or 0.0))
    others = [each["addresses"] for each in known if each["peer"] in network["connections"]]
    addresses = chosen(network["addresses"], (address for each in others for address in each))
    if card := answer.get("card"):
        named = card["network"], card["number"], bytes.fromhex(card["digest"])
        return Invitation(addresses, network["swarm"], (), 0, *named)
    if training.get("chooses"):
        # Who joins has a model of another mind, and chooses as well
        return Invitation(addresses, network["swarm"])
    asked: list[RequiredEnvironment] = []
    for name, tasks in training.get("asks", {}).items():
        version = str(answer["questions"][name])
        asked.append(RequiredEnvironment(name, version, tuple(tasks), _file_of(home, name)))
    return Invitation(addresses, network["swarm"], tuple(asked), training.get("at_once", 0))


def chosen(own: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    """At most three addresses: first those that can be dialled from anywhere, if only of a
    connected peer, then those that can be from nearby. One of each host, over TCP where there is a
    choice.
    """
    hosts: dict[tuple[str, str], str] = {}
    for address in sorted(own, key=lambda address: (usefulness(address), "/udp/" in address)):
        hosts.setdefault(parts(address)[0], address)
    of_hosts = list(hosts.values())
    found = [address for address in of_hosts if usefulness(address) < HERE] or of_hosts
    near = [address for address in found if usefulness(address) > FROM_ANYWHERE]
    far = [address for address in (*found, *others) if usefulness(address) <= FROM_ANYWHERE]
    return (*far[: max(1, MAX_ADDRESSES - len(near))], *near)[:MAX_ADDRESSES]


def _file_of(home: Path, environment: str) -> str:
    """The name of the file with an environment's questions, without its folder; "" where there is
    no such file.
    """
    try:
        manifest = read_json(home / "manifest.json", MANIFEST_BYTES)
        file = str(manifest["config"][environment]["file"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""
    name = file if ":" in file else PurePath(file).name
    return re.sub(r"[^A-Za-z0-9_ .+:/-]", "_", name)[:80]


class Inviting(Sink):
    """An observer that says once how others join."""

    def __init__(self, home: Path, telemetry: Telemetry) -> None:
        self._home, self._telemetry, self._said = home, telemetry, False

    def take(self, event: Event) -> None:
        if isinstance(event, Listening) and event.addresses and not self._said:
            self._said = True
            self._telemetry.emit(Notice(advice(self._home)))


def inviting(home: Path, config: Section, telemetry: Telemetry) -> Inviting | None:
    """The observer for a node that trains; None for others."""
    return Inviting(home, telemetry) if isinstance(config, NodeConfig) else None
