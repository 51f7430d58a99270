"""How a manifest changes a configuration: `run --manifest FILE|URL|CODE`, once, and the home
remembers the manifest. Code calls it a card, as the wire does.

A node trusts the first card of a network that it sees, and says so. From then on only the signers
of a card decide on the next one, no matter which peer passes it on. A node may do less than its
card says, and nothing else.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from protocol.card import (
    DAY,
    Card,
    Refusal,
    Signed,
    digest,
    follow,
    network_id,
    read,
    swarm_of,
    told,
)
from protocol.identity import Identity
from protocol.member import judge
from swarm_node.common.errors import UserError, printable
from swarm_node.common.files import write_bytes
from swarm_node.home.folder import KEY_FILE, load_identity, owned
from swarm_node.network.process.keeper import (
    PROOF_FILE,
    cards_file,
    keep_cards,
    load_cards,
    load_proof,
)
from swarm_node.network.transport.backends import check_addresses, never_dialled
from swarm_node.network.trial import ask_for_cards, download
from swarm_node.settings import BootstrapConfig, NetworkConfig, NodeConfig
from swarm_node.settings.manifest import JoiningConfig
from swarm_node.swarm.code import decode

Config = NodeConfig | BootstrapConfig
C = TypeVar("C", bound=Config)
Chain = Sequence[bytes]  # cards, the oldest first
MAX_DOWNLOAD = 1 << 20  # bytes
CLOCK = "is the clock of this machine right?"
ADVICE: Mapping[str, str] = {  # by why a card is refused; of all others a member has the newest
    Refusal.OTHER_NETWORK: (
        "take the manifest of the swarm that you mean, or correct --manifest-network"
    ),
    Refusal.NOT_YET: CLOCK,
    Refusal.EXPIRED: f"get the newest file from a member; {CLOCK}",
}


def follow_card(config: C, say: Callable[[str], None], keep: bool = False) -> C:
    """The configuration as the card allows it; unchanged without a card. `keep`: write to the home.
    UserError.
    """
    section, file = config.manifest, cards_file(config.home.expanduser())
    source = section.source.get_secret_value()
    _, card = load_cards(file)
    if isinstance(card, Refusal) and not os.access(file, os.R_OK):
        raise UserError(
            f"{file} cannot be read; make it writable for user {os.getuid()}, or choose another "
            "--home"
        )
    if isinstance(card, Refusal):
        raise UserError(f"{file}: {told(card)}; remove the file, and join again with --manifest")
    peers, network = list[str](), section.network or (network_id(card) if card else "")
    if source:
        try:
            offered, givers, meant = _offered(source, network, config)
            card, peers = _taken(file, offered, meant, card, keep), [*givers]
            if not meant:
                signers = f"{card.threshold} of {len(card.signers)} signers"
                say(
                    f"this node now trusts network {network_id(card)} ({signers}), because this is "
                    "the first manifest that it sees; to be sure that it is the right one, "
                    "give the id that people told you with --manifest-network ID"
                )
        except UserError as error:
            if card is None:
                raise
            say(f"{error}; this node continues with manifest {card.number}")
    if section.network and (card is None or network_id(card) != section.network):
        raise UserError(
            f"no manifest of network {section.network}: give it with --manifest, and a --home of "
            "its own"
        )
    if card is None:
        return config
    say(described(card))
    if card.members:
        _enter(config.home.expanduser(), card, section, say, keep)
    return _narrowed(config, card, [*peers, *card.bootstrap], say)


def _offered(source: str, network: str, config: Config) -> tuple[Chain, Sequence[str], str]:
    """A chain, not checked yet; addresses of nodes that have it; the network that is meant, or "".
    UserError.
    """
    if source.startswith("swarm:"):
        return _by_code(source, network, config)
    if "://" not in source:
        if not (chain := load_cards(Path(source).expanduser())[0]):
            raise UserError(
                f"{printable(source, 200)} is not a manifest: name the file that the signers gave"
            )
        return chain, (), network
    # A signed card needs TLS only at first sight
    if not network and not source.startswith("https://"):
        raise UserError(
            f"{printable(source, 200)} must begin with https://, unless --manifest-network says "
            "which network you mean"
        )
    return download(source, MAX_DOWNLOAD).removesuffix(b"\n").split(b"\n"), (), network


def _enter(
    home: Path, card: Card, section: JoiningConfig, say: Callable[[str], None], keep: bool
) -> None:
    source, text = section.source.get_secret_value(), section.code.get_secret_value()
    text = text or (source if source.startswith("swarm:") else "")
    own = load_identity(home) if keep or (home / KEY_FILE).exists() else Identity.create()
    code = decode(text) if text else None
    proofs = [load_proof(home), *([code.proves(own)] if code else ())]
    found = [judge(each, own.peer_id, card, time.time()) for each in proofs]
    if not (ends := max((each for each in found if isinstance(each, int)), default=0)):
        raise UserError(
            f"this swarm is private: {told(found[-1])}; ask a member for a new code, and give it "
            "with --manifest-code"
        )
    if keep and text and found[-1] == ends:
        with owned(home):
            write_bytes(home / PROOF_FILE, proofs[-1], 0o600)
    say(
        f"this node is a member of this private swarm for {int((ends - time.time()) / DAY)} more "
        "days; a new code prolongs that"
    )


def _words_of_refusal(why: str) -> str:
    """Why a card is refused, and what to do."""
    advice = ADVICE.get(why, "get the newest file, or a new code, from a member")
    return f"--manifest: {told(why)}; {advice}"


def _by_code(text: str, network: str, config: Config) -> tuple[Chain, Sequence[str], str]:
    """The chain, from the nodes that the code names; it contains the card that the maker of the
    code knew.
    """
    code = decode(text)
    if not code.network:
        raise UserError("this code has no manifest: use swarm-node join")
    if network not in ("", code.network):
        raise UserError(_words_of_refusal(Refusal.OTHER_NETWORK))

    def holds(chain: Chain) -> bool:
        known = read(chain[code.number - 1]) if len(chain) >= code.number else None
        same = isinstance(known, Signed) and digest(known.card) == code.digest
        return same and isinstance(follow(chain, code.network, None), Card)

    own = config.network if isinstance(config, NodeConfig) else NetworkConfig(host=config.host)
    chain = ask_for_cards(own, code.addresses, code.network, holds, code.proves)
    if not holds(chain):
        if not chain:
            raise UserError(f"--manifest: {_unreached(own, code.addresses)}")
        why = follow(chain, code.network, None)
        raise UserError(_words_of_refusal(Refusal.CONFLICT if isinstance(why, Card) else why))
    return chain, code.addresses, code.network


def _unreached(config: NetworkConfig, addresses: Sequence[str]) -> str:
    """Why no node of a code answered, and what to do."""
    if refused := never_dialled(config, addresses):
        address, reason = next(iter(refused.items()))
        return f"{address} is not dialled, {reason}: if you know it, give it with --peers"
    return "none of its nodes answers: ask for a newer code"


def _taken(file: Path, chain: Chain, network: str, before: Card | None, keep: bool) -> Card:
    """The newest card of a chain; `keep` puts the chain in the home. Raises UserError where it may
    not replace `before`.
    """
    card = follow(chain, network, int(time.time()), before)
    if isinstance(card, Refusal):
        raise UserError(_words_of_refusal(card))
    if keep and card != before:
        with owned(file.parent):
            load_identity(file.parent)  # first: it makes the folder a home
            keep_cards(file, chain, time.time(), network)
    return card


def _narrowed(config: C, card: Card, others: Sequence[str], say: Callable[[str], None]) -> C:
    """The configuration with the swarm and addresses of the card, and no more tasks and completions
    than it allows.
    """
    swarm, key, tasks = swarm_of(card), config.home.expanduser() / KEY_FILE, _tasks(card)
    own = load_identity(key.parent).peer_id if key.exists() else "nobody"
    section = config if isinstance(config, BootstrapConfig) else config.network
    named = (*section.suggested, *(address for address in others if not address.endswith(own)))
    # Whoever wrote the card may name anybody's address: it does not become one of the user's
    new = [address for address in dict.fromkeys(named) if address not in section.peers]
    suggested = tuple(filter(_makes_sense, new))
    if isinstance(config, BootstrapConfig):
        return config.model_copy(update={"swarm": swarm, "suggested": suggested})
    if strange := [task for task in config.environment.tasks if task not in tasks]:
        say(f"skipping tasks that the manifest does not have: {' '.join(strange)}")
    asked = tuple(task for task in config.environment.tasks or tasks if task in tasks)
    if not asked:
        raise UserError(
            f"the manifest of {printable(card.name)} has none of your tasks: choose from "
            f"{' '.join(tasks)}, or name none, which means all"
        )
    most = min(config.generation.num_generations, card.episodes)
    sections = {
        "network": {"suggested": suggested},
        "generation": {"num_generations": most},
        "environment": {"tasks": asked},
    }
    changed: dict[str, Any] = {}
    for name, values in sections.items():
        changed[name] = getattr(config, name).model_copy(update=values)
    return config.model_copy(update={"swarm": swarm, **changed})


def _makes_sense(address: str) -> bool:
    """Whether a node can dial the address at all. A card is not refused for one that it cannot."""
    try:
        check_addresses(NetworkConfig(suggested=(address,)))
    except UserError:
        return False
    return True


def _tasks(card: Card) -> list[str]:
    return [f"{task.dataset}/{task.config_id}" for task in card.tasks]


def described(card: Card) -> str:
    """A line for the user: what the card says, and its age."""
    age = int((time.time() - card.issued) / DAY)
    left = int((card.expires - time.time()) / DAY)
    ends = (
        f"{left} left"
        if left >= 0
        else f"ended {-left} days ago; its rules still apply here: ask a signer for a new one"
    )
    return (
        f"manifest {card.number} of {printable(card.name)}, {age} days old, {ends}: "
        f"network {network_id(card)}, swarm {swarm_of(card)}, tasks {' '.join(_tasks(card)[:9])}, "
        f"peers {len(card.bootstrap)}, at most {card.episodes} completions of {card.characters} "
        "characters"
    )


def card_facts(home: Path, answer: Mapping[str, Any]) -> dict[str, Any]:
    """What `status` adds: the card, and which tasks of this node it no longer has."""
    _, card = load_cards(cards_file(home))
    swarm = answer.get("network", {}).get("swarm")
    if not isinstance(card, Card) or swarm != swarm_of(card):
        return {}
    by_environment = answer.get("training", {}).get("asks", {})
    asked = (task for tasks in by_environment.values() for task in tasks)
    gone = [
        f"  the manifest no longer has this task, so it is not shared: {task}"
        for task in asked
        if task not in _tasks(card)
    ]
    facts = card.model_dump(include={"number", "issued", "expires"}) | {"network": network_id(card)}
    ends = judge(load_proof(home), answer["peer_id"], card, time.time()) if card.members else ""
    if ends:
        until = f"a member until {time.ctime(ends)}" if isinstance(ends, int) else told(ends)
        gone.append(f"  private; {until}")
    return {"card": {**facts, "digest": digest(card).hex()}, "besides": [described(card), *gone]}
