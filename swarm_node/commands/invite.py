"""`swarm-node invite` and `swarm-node swarm admit`: codes with which others join."""

import json
import secrets
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec
from pydantic import Field

from protocol.card import DAY, Card, network_id, swarm_of, told
from protocol.card import digest as digest_of
from protocol.identity import Identity
from protocol.member import ProofFault, certify, judge
from swarm_node.commands import status
from swarm_node.common.command import Command
from swarm_node.common.errors import UserError
from swarm_node.home.folder import load_identity, load_or_create
from swarm_node.network.process.keeper import cards_file, load_cards, load_proof
from swarm_node.network.transport.multiaddr import usefulness
from swarm_node.settings import AskConfig, Section
from swarm_node.settings.command_line import from_command_line
from swarm_node.settings.sections import Earlier
from swarm_node.swarm.code import MAX_ADDRESSES, Invitation, decode, encode

# By `usefulness`
REACHED = ("from anywhere", "from anywhere", "on the same local network", "on this machine only")
PAGE = """\
usage: swarm-node invite [--home FOLDER] [--json]

Prints a code that lets others join. It names the addresses of the running node
and its peers, the swarm and the tasks. On the other computer: swarm-node join
CODE. Anybody with the code can join; in a private swarm it works for 30 days.

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
            "this node has no address yet: its network is starting, resting or off; try again in a "
            "few seconds, or see swarm-node status"
        )
    invited, home = decode(answer["invitation"]), config.home.expanduser()
    _, card = load_cards(cards_file(home)) if invited.network else ((), None)
    if isinstance(card, Card) and card.members:
        invited = admitting(invited, card, load_identity(home), load_proof(home))
    code = encode(invited)
    tasks = " ".join(task for each in invited.asked for task in each.tasks)
    reached = REACHED[min(map(usefulness, invited.addresses))]
    print(
        f"swarm {invited.swarm}{tasks and f', tasks {tasks}'}; can be reached {reached}",
        file=sys.stderr,
    )
    print("run swarm-node join CODE on the other computer, with this code:", file=sys.stderr)
    print(json.dumps({"invitation": code}) if config.json_output else code)


def admitting(invited: Invitation, card: Card, issuer: Identity, proof: bytes) -> Invitation:
    """The invitation with a key that lets others into the private swarm. Raises UserError where the
    issuer may not do so.
    """
    own = Identity.from_seed_bytes(seed := secrets.token_bytes(32))
    ends = int(time.time()) + 30 * DAY
    proof = certify(proof, issuer, own.peer_id, ends, invited.network)
    invited = msgspec.structs.replace(invited, seed=seed, proof=proof)
    found = judge(invited.proves(own), own.peer_id, card, time.time())
    if isinstance(found, ProofFault):
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
    """Prints a code for a private swarm, made from its manifest alone."""
    config = from_command_line(
        AdmitConfig, argv, "swarm-node swarm admit", flags_only=True, first="manifest"
    )
    _, card = load_cards(config.manifest.expanduser())
    if not isinstance(card, Card) or not config.key.expanduser().exists():
        raise UserError(
            "swarm admit needs FILE, the manifest, and --key, one of the keys listed in that "
            "manifest"
        )
    named = network_id(card), card.number, digest_of(card)
    addresses = card.bootstrap[:MAX_ADDRESSES]
    invited = Invitation(addresses, swarm_of(card), (), 0, *named)
    print(encode(admitting(invited, card, load_or_create(config.key.expanduser()), b"")))


INVITE = Command(AskConfig, PAGE, command)
ADMIT = Command(
    AdmitConfig,
    "usage: swarm-node swarm admit [FILE] --key KEY\n\n"
    "Prints a code that lets others into a private swarm.",
    admit,
)
