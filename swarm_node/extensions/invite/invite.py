"""`swarm-node invite`, and what a node says of invitations unasked: at its start, in `status` and
on its page.
"""

import json
import re
import secrets
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Annotated, Any, ClassVar

import msgspec
from pydantic import Field

from protocol.card import DAY, Card, network_of, swarm_of, told
from protocol.card import digest as digest_of
from protocol.identity import Identity
from protocol.member import Refusal, certify, judge
from swarm_node.commands import status
from swarm_node.commands.command import Command
from swarm_node.commands.home import load_identity, load_or_create
from swarm_node.common.errors import UserError
from swarm_node.common.parsing import read_json
from swarm_node.common.shell import at_home
from swarm_node.extensions.invite.code import MAX_ADDRESSES, Asked, Invitation, decode, encode
from swarm_node.network.process.keeper import cards_file, load_cards, load_proof
from swarm_node.network.transport.multiaddr import parts, usefulness
from swarm_node.settings import AskConfig, NodeConfig, Section
from swarm_node.settings.command_line import from_command_line
from swarm_node.settings.sections import Earlier
from swarm_node.telemetry.events import Event, Listening, Notice, Sink, Telemetry

# By `usefulness`
REACHED = ("from anywhere", "from anywhere", "on the same local network", "on this machine only")
# The highest `usefulness` that is reached from anywhere; that of this machine only
FROM_ANYWHERE, HERE = 1, 3
MANIFEST_BYTES = 1 << 20

PAGE = """\
usage: swarm-node invite [--home FOLDER] [--json]

Prints a code with which others join: where the running node and its peers are,
its swarm, and what it asks. On the other computer: swarm-node join CODE.
Anybody with the code can join, for 30 days where the swarm is private.

  --home FOLDER   of the node (~/.swarm-node)
  --json          one JSON object, for scripts"""


def command(argv: list[str]) -> None:
    """Prints the code to standard output, and what to do with it to standard error."""
    config = from_command_line(AskConfig, argv, "swarm-node invite", flags_only=True)
    answer = status.ask(config.home.expanduser())
    if "role" not in answer:
        raise UserError("; ".join(answer["problems"]))
    if "invitation" not in answer:
        raise UserError(
            "this node has no address: its network starts, rests or is off; try again in some "
            "seconds, or see swarm-node status"
        )
    invited, home = decode(answer["invitation"]), config.home.expanduser()
    _, card = load_cards(cards_file(home)) if invited.network else ((), None)
    if isinstance(card, Card) and card.members:
        invited = admitting(invited, card, load_identity(home), load_proof(home))
    code = encode(invited)
    tasks = " ".join(task for each in invited.asked for task in each.tasks)
    reached = REACHED[min(map(usefulness, invited.addresses))]
    print(
        f"swarm {invited.swarm}{tasks and f', tasks {tasks}'}; reached {reached}", file=sys.stderr
    )
    print("on the other computer: swarm-node join CODE, with this code:", file=sys.stderr)
    print(json.dumps({"invitation": code}) if config.json_output else code)


def admitting(invited: Invitation, card: Card, issuer: Identity, proof: bytes) -> Invitation:
    """The invitation with a key that lets others into the private swarm. UserError where the issuer
    may not do so.
    """
    own = Identity.from_seed_bytes(seed := secrets.token_bytes(32))
    proof = certify(proof, issuer, own.peer_id, int(time.time()) + 30 * DAY, invited.network)
    invited = msgspec.structs.replace(invited, seed=seed, proof=proof)
    if isinstance(found := judge(invited.proves(own), own.peer_id, card, time.time()), Refusal):
        raise UserError(f"this key cannot let others in: {told(found)}")
    return invited


class AdmitConfig(Section):
    """Who lets others in, and where."""

    renamed: ClassVar[Mapping[str, str]] = {"card": "manifest"}
    manifest: Annotated[Path, Earlier("--card")] = Field(
        Path("swarm.manifest"),
        description="File with all manifests of the swarm, one a line, the oldest first.",
    )
    key: Path = Field(
        Path("admit.key"),
        description="A key that the manifest names. Nobody else should be able to read it.",
    )


def admit(argv: list[str]) -> None:
    """Prints a code for a private swarm, made from its card alone."""
    config = from_command_line(
        AdmitConfig, argv, "swarm-node swarm admit", flags_only=True, first="manifest"
    )
    _, card = load_cards(config.manifest.expanduser())
    if not isinstance(card, Card) or not config.key.expanduser().exists():
        raise UserError("swarm admit needs FILE and --key: the manifest, and a key that it names")
    named, addresses = (
        (network_of(card), card.number, digest_of(card)),
        card.bootstrap[:MAX_ADDRESSES],
    )
    invited = Invitation(addresses, swarm_of(card), (), 0, *named)
    print(encode(admitting(invited, card, load_or_create(config.key.expanduser()), b"")))


def added(home: Path, answer: Mapping[str, Any]) -> dict[str, Any]:
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
    """The invitation by a node's answer. Raises what `added` catches, where the answer is not that
    of such a node.
    """
    network, training = answer["network"], answer.get("training", {})
    # Those known for longest first
    known = sorted(network["peers"], key=lambda each: -(each["answered"] or 0.0))
    others = [each["addresses"] for each in known if each["peer"] in network["connections"]]
    addresses = chosen(network["addresses"], (address for each in others for address in each))
    if card := answer.get("card"):
        named = card["network"], card["number"], bytes.fromhex(card["digest"])
        return Invitation(addresses, network["swarm"], (), 0, *named)
    asked = tuple(
        Asked(name, str(answer["questions"][name]), tuple(tasks), _file_of(home, name))
        for name, tasks in training.get("asks", {}).items()
    )
    return Invitation(addresses, network["swarm"], asked, training.get("at_once", 0))


def chosen(own: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    """At most three addresses: first those that can be dialled from anywhere, if only of a
    connected peer, then those that can be from nearby. One of each host, over TCP where there is a
    choice.
    """
    hosts: dict[tuple[str, str], str] = {}
    for address in sorted(own, key=lambda address: (usefulness(address), "/udp/" in address)):
        hosts.setdefault(parts(address)[0], address)
    found = [address for address in hosts.values() if usefulness(address) < HERE] or list(
        hosts.values()
    )
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
    return re.sub(r"[^A-Za-z0-9_ .+:/-]", "_", file if ":" in file else PurePath(file).name)[:80]


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


INVITE = Command(AskConfig, PAGE, command)
ADMIT = Command(
    AdmitConfig,
    "usage: swarm-node swarm admit [FILE] --key KEY\n\n"
    "Prints a code that lets others into a private swarm.",
    admit,
)
