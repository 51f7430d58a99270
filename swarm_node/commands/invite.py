"""`swarm-node invite` and `swarm-node swarm admit`: codes with which others join."""

import json
import secrets
import sys
import time
from pathlib import Path

import msgspec
from pydantic import Field

from protocol.card import DAY, Card, network_of, swarm_of
from protocol.card import digest as digest_of
from protocol.identity import Identity
from protocol.member import Refusal, certify, judge
from swarm_node.commands import status
from swarm_node.common.command import Command
from swarm_node.common.errors import UserError
from swarm_node.home.folder import load_identity, load_or_create
from swarm_node.network.process.keeper import CARDS_FILE, load_cards, load_proof
from swarm_node.network.transport.multiaddr import usefulness
from swarm_node.settings import AskConfig, Section
from swarm_node.settings.command_line import from_command_line
from swarm_node.swarm.code import MAX_ADDRESSES, Invitation, decode, encode

# By `usefulness`
REACHED = ("from anywhere", "from anywhere", "on the same local network", "on this machine only")
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
    _, card = load_cards(home / CARDS_FILE) if invited.network else ((), None)
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
        raise UserError(f"this key cannot let others in: {found}")
    return invited


class AdmitConfig(Section):
    """Who lets others in, and where."""

    card: Path = Field(Path("swarm.card"), description="One card a line, the oldest first.")
    key: Path = Field(
        Path("admit.key"), description="A key that the card names, for its user alone."
    )


def admit(argv: list[str]) -> None:
    """Prints a code for a private swarm, made from its card alone."""
    config = from_command_line(
        AdmitConfig, argv, "swarm-node swarm admit", flags_only=True, first="card"
    )
    _, card = load_cards(config.card.expanduser())
    if not isinstance(card, Card) or not config.key.expanduser().exists():
        raise UserError("swarm admit needs FILE and --key: the cards, and a key that they name")
    named, addresses = (
        (network_of(card), card.number, digest_of(card)),
        card.bootstrap[:MAX_ADDRESSES],
    )
    invited = Invitation(addresses, swarm_of(card), (), 0, *named)
    print(encode(admitting(invited, card, load_or_create(config.key.expanduser()), b"")))


INVITE = Command(AskConfig, PAGE, command)
ADMIT = Command(
    AdmitConfig,
    "usage: swarm-node swarm admit [FILE] --key KEY\n\nA code into a private swarm.",
    admit,
)
