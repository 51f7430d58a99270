"""The commands of the group `swarm`, for the manifest of a swarm, which code calls a card. A file
has one card a line, the oldest first; the newest may be a draft that lacks signatures. What a card
says is text of strangers.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, Field

from protocol import card as cards
from protocol import codec, limits
from protocol.card import Card, Refusal, Signed
from protocol.messages import Round
from swarm_node.common.command import Command
from swarm_node.common.errors import UserError, printable
from swarm_node.common.files import read_plain, write_bytes
from swarm_node.common.shell import typed
from swarm_node.home.folder import load_or_create
from swarm_node.network.transport.multiaddr import split_peer
from swarm_node.settings import NodeConfig
from swarm_node.settings.command_line import from_command_line
from swarm_node.settings.sections import Count, Earlier, Positive, Section, SwarmName

T = TypeVar("T")
File = Annotated[Path, AfterValidator(Path.expanduser)]
Door = Annotated[str, AfterValidator(lambda text: "/p2p/".join(split_peer(text)))]


FILE, EARLIER_FILE = Path("swarm.manifest"), Path("swarm.card")


class CardConfig(Section):
    """The manifest of a swarm, and the network that it should belong to."""

    renamed: ClassVar[Mapping[str, str]] = {"card": "manifest"}
    manifest: Annotated[File, Earlier("--card")] = Field(
        FILE, description="File with all manifests of the swarm, one a line, the oldest first."
    )
    key: File = Field(
        Path("signer.key"), description="Key of a signer. Nobody else should be able to read it."
    )
    network: str = Field(
        "",
        description="Id of the network, as you got it from people you trust. Empty: the one of "
        "the first manifest in the file.",
    )
    after: File | None = Field(
        None, description="An older file of the same swarm, which must be part of this one."
    )

    @property
    def card(self) -> Path:
        """The file. Where none is named, one with the name of an earlier version is taken, too."""
        is_earlier = self.manifest == FILE and not FILE.exists() and EARLIER_FILE.exists()
        return EARLIER_FILE if is_earlier else self.manifest


class DraftConfig(CardConfig):
    """The options that say what is in a manifest. With `swarm next`, an option that is not given
    keeps the value that it had in the manifest before.
    """

    name: SwarmName = Field("swarm", description="Name of the swarm.")
    signers: tuple[str, ...] = Field((), description="Ids of the signers.")
    threshold: Count = Field(
        0, description="How many of the signers have to sign. 0: more than half of them."
    )
    bootstrap: tuple[Door, ...] = Field((), description="Full addresses of bootstrap nodes.")
    tasks: tuple[str, ...] = Field(
        (),
        description="Tasks of the swarm, like environment.tasks of run. This machine computes "
        "their digests.",
    )
    episodes: Positive = Field(
        limits.MAX_EPISODES, description="Largest number of completions in a group."
    )
    admit: tuple[str, ...] = Field(
        (),
        description="Ids of the keys that let others in, which makes the swarm private. none: an "
        "open swarm.",
    )
    chain: Positive = Field(
        cards.MAX_CHAIN,
        description="Largest number of certificates of a member. A code adds two of them.",
    )
    revoked: tuple[str, ...] = Field(
        (),
        description="Ids of all members and inviters who are excluded. none: nobody.",
    )
    characters: Positive = Field(
        limits.MAX_EPISODE_CHARS, description="Largest number of characters of a completion."
    )
    notes: str = Field(
        "", description="A text for people: who you are, and where the questions come from."
    )
    days: Positive = Field(90, description="Days from now for which the manifest is valid.")


def draft(first: bool, config: DraftConfig) -> None:
    """Adds a card without signatures. The one before may have expired."""
    if first and config.card.exists():
        raise UserError(f"{config.card} exists: remove it, or choose another name")
    chain, now = [] if first else load(config.card), int(time.time())
    last = None
    if chain:
        last = held(config.card, judged(config, chain, chain[-1].card.issued))
    rules = {*cards.Members.model_fields}
    asked = partial(config.model_dump, include=rules)
    given = config.model_dump(
        exclude={*CardConfig.model_fields, *rules, "days"}, exclude_unset=not first
    )
    values = (last.model_dump(exclude_none=True) if last else {"format": 1}) | given
    members = values.pop("members", asked()) | asked(exclude_unset=True)
    members |= {key: sorted({*members[key]} - {"none"}) for key in ("admit", "revoked")}
    values |= {"members": members} if members["admit"] else {}
    values |= {"number": len(chain) + 1, "network": cards.network_id(last) if last else ""}
    values |= {
        "issued": now,
        "expires": now + config.days * cards.DAY,
        "signers": sorted(values["signers"]),
    }
    values["threshold"] = values["threshold"] or len(values["signers"]) // 2 + 1
    values["tasks"] = digested(config.tasks) if config.tasks else values["tasks"]
    whole = {"card": values, "signatures": {}}
    text = json.dumps(whole, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
    made = cards.read(text)
    if made is Refusal.OVER_LIMITS:
        beyond = cards.over_limits(Signed.model_validate_json(text).card)
        raise UserError(f"{config.card}: {cards.told(made)}: {beyond}")
    chain.append(held(config.card, made))
    write_bytes(config.card, b"".join(codec.encode(each) + b"\n" for each in chain))


def digested(names: tuple[str, ...]) -> list[dict[str, str]]:
    """The tasks, with digests made on this machine. Raises UserError for a task that it does not
    have.
    """
    # Imported here, so that the other commands are quick
    from swarm_node.environments.kinds import EVALUATION
    from swarm_node.environments.registry import build_environment, with_environment

    with closing(build_environment(with_environment(NodeConfig(), tasks=names))) as environment:
        # Each is asked for an equal share, and its tasks in turn
        kinds = len(environment.catalogue.environments)
        asked = environment.sample(EVALUATION, Round(0), kinds * len(names))
    of_task = attrgetter(*cards.Task.model_fields)
    tasks = {tuple(map(str, of_task(question))) for question in asked}
    return [dict(zip(cards.Task.model_fields, task, strict=True)) for task in sorted(tasks)]


def sign(config: CardConfig) -> None:
    """Adds a signature. The file goes from signer to signer."""
    if not config.key.exists():
        raise UserError(
            f"there is no key {config.key}: {typed('swarm-node', 'swarm', 'key', config.key)} "
            "makes one"
        )
    chain = load(config.card)
    chain[-1] = cards.sign(chain[-1], load_or_create(config.key))
    found = judged(config, chain, chain[-1].card.issued)
    if found not in (Refusal.TOO_FEW, Refusal.TOO_FEW_BEFORE):
        held(config.card, found)
    write_bytes(config.card, b"".join(codec.encode(each) + b"\n" for each in chain))


def show(strict: bool, config: CardConfig) -> None:
    """Prints the newest card, what differs from the one before, and whether it holds."""
    chain, now = load(config.card), int(time.time())
    card, found = chain[-1].card, judged(config, chain, now)
    newest, before = chain[-1], chain[-2:][0]
    new, old = [*rows(newest.card)], [*rows(before.card)]
    for row in new:
        print(" " if row in old else "+", row)
    for row in old:
        if row not in new:
            print("-", row)
    for warning in _warnings(config, card, now):
        print(f"warning: {warning}")
    if strict:
        held(config.card, found)
    print(
        f"signed by {len(chain[-1].signatures)}: "
        f"{cards.told(found) if isinstance(found, Refusal) else 'complete, and in force'}"
    )


def _warnings(config: CardConfig, card: Card, now: int) -> Iterator[str]:
    """What a signer of this card should think about."""
    if not config.network:
        yield "give --network ID, otherwise nothing shows that this is the swarm you mean"
    if card.threshold < 2:
        yield "one stolen key is enough to change this swarm"
    if card.threshold == len(card.signers):
        yield "one lost key is enough to end this swarm"
    if len({address.split("/")[2] for address in card.bootstrap}) < 2:
        yield "all bootstrap nodes are on one machine, so nobody can join while it is off"
    if card.expires - now < 14 * cards.DAY:
        yield "this manifest ends soon: swarm-node swarm next renews it"


def load(file: Path) -> list[Signed]:
    """The cards in a file, each well formed."""
    if not file.is_file():
        raise UserError(f"{file} is not a manifest: name the file that the signers gave you")
    lines = read_plain(file, cards.MAX_CARDS * cards.MAX_BYTES).removesuffix(b"\n").split(b"\n")
    return [held(file, cards.read(line)) for line in lines]


def held(file: Path, found: T | Refusal) -> T:
    """What was found. Raises UserError where that is a refusal."""
    if isinstance(found, Refusal):
        raise UserError(f"{file}: {cards.told(found)}")
    return found


def judged(config: CardConfig, chain: list[Signed], now: int) -> Card | Refusal:
    """The newest card, if all of them hold."""
    newest = load(config.after)[-1].card if config.after else None
    encoded = list(map(codec.encode, chain))
    network = config.network or cards.network_id(chain[0].card)
    return cards.follow(encoded, network, now, newest)


def rows(card: Card) -> Iterator[str]:
    """A line for each fact on the card."""
    times = {key: datetime.fromtimestamp(getattr(card, key), UTC) for key in ("issued", "expires")}
    rules = card.members.model_dump() if card.members else {}
    said = card.model_dump(exclude={"members"}) | rules | times
    for name, value in (said | {"network": cards.network_id(card)}).items():
        for each in value if isinstance(value, tuple) else (value,):
            text = " ".join(each.values()) if isinstance(each, dict) else str(each)
            yield f"{name:<12}{printable(text, cards.MAX_NOTES_CHARS)}"


def command(
    usage: str, does: str, do: Callable[[Any], None], options: type[CardConfig] = CardConfig
) -> Command:
    """A command of the group `swarm`. Its first argument is a file."""
    name, file = usage.split()[0], "key" if usage.startswith("key") else "manifest"

    def run(argv: list[str]) -> None:
        try:
            do(
                from_command_line(
                    options, argv, f"swarm-node swarm {name}", flags_only=True, first=file
                )
            )
        except OSError as error:
            raise UserError(f"{error.filename}: {error.strerror or error}") from error

    return Command(options, f"usage: swarm-node swarm {usage}\n\n{does}", run)


KEY = command(
    "key [FILE]",
    "Prints the id of a signer. Makes the key if there is none.",
    lambda c: print(load_or_create(c.key).peer_id),
)
CREATE = command(
    "create [FILE] --flags",
    "Writes the first manifest of a swarm, without signatures.",
    partial(draft, True),
    DraftConfig,
)
NEXT = command(
    "next [FILE] --flags",
    "Adds the next manifest: like the newest, except for what you give.",
    partial(draft, False),
    DraftConfig,
)
SIGN = command(
    "sign [FILE] --key KEY",
    "Signs the newest manifest of a file. Read it first, with swarm show.",
    sign,
)
SHOW = command(
    "show [FILE]",
    "Prints the newest manifest. + and - mark what differs from the one before.",
    partial(show, False),
)
VERIFY = command(
    "verify [FILE] --network ID [--after OLD]",
    "Checks the signatures of all manifests in a file.",
    partial(show, True),
)
