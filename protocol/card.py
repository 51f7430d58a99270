"""The card of a swarm: a signed text with its tasks, limits and addresses, and with the keys that
may change it.

Cards are numbered from 1 without gaps. Card 1 names its network by its own hash. Each later card is
signed by the threshold of the card before *and* by its own, as roots of TUF are ("Key management
and migration"). So a node that knows the network id can check a chain from any source. Never
raises, whatever the bytes; the caller passes the time.
"""

from base64 import b32encode
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from operator import attrgetter
from typing import Annotated, Any

from pydantic import Field

from protocol import codec, limits
from protocol.admission import AdmissionRules
from protocol.codec import to_bytes, to_text
from protocol.identity import Identity, public_key, verify
from protocol.messages import Holding, Message, Name, PeerId, Question, Reason, Rejected

# A card a week: 19 years
MAX_BYTES, MAX_CHAIN, MAX_CARDS = limits.MAX_CARD_BYTES, limits.MAX_CERTIFICATES, 1024
MAX_SIGNERS, MAX_ADDRESSES, MAX_TASKS, MAX_NOTES_CHARS, MAX_REVOKED = 9, 16, 64, 1000, 128
DAY = 86_400  # seconds; a card is valid for at least one day
# Before and after a card's time: clocks may be wrong, and signers late
MAX_LIFE, GRACE = 400 * DAY, DAY

_ADDRESS = r"^/(ip4|ip6|dns|dns4|dns6)/[A-Za-z0-9/._:-]{1,120}/p2p/[1-9A-HJ-NP-Za-km-z]{52}$"
_place = attrgetter("environment", "version", "dataset", "config_id")
# As seconds since 1970, a date that can still be shown
Number = Annotated[int, Field(ge=0, le=2**37)]


class Refusal(StrEnum):
    """Why a card is refused: a value to count, never an exception. In the order of the checks."""

    TOO_BIG = "too big for a card"
    MALFORMED = "no card, or cut off"
    NOT_CANONICAL = "not canonical"
    BAD_KEY = "names a key that is none"
    OVER_LIMITS = "over the limits of a card"
    GAP = "a card before it is missing"
    OTHER_NETWORK = "of another network"
    FORGED = "a signature that none of its signers made"
    TOO_FEW = "too few signers"
    TOO_FEW_BEFORE = "too few signers of the card before"
    ROLLED_BACK = "older than the card known here"
    CONFLICT = "other than the card of that number known here"
    NOT_YET = "not valid yet"
    EXPIRED = "expired"


def told(reason: object) -> str:
    """A reason as people read it. They know a card as the manifest of a swarm, since a card means a
    graphics card to them; the reasons themselves stay, as other implementations compare them.
    """
    return str(reason).replace("card", "manifest")


class Task(Message):
    """A task of the swarm, and the digest of what it does."""

    environment: Name
    version: Name
    dataset: Name
    config_id: Name
    digest: Holding


class Members(Message):
    """Who is in a private swarm: the keys whose certificates let others in (see member.py)."""

    admit: tuple[PeerId, ...]  # sorted; a chain of certificates begins with one of these keys
    chain: Number  # certificates in it, at most
    revoked: tuple[PeerId, ...]  # sorted; a chain with one of these keys is refused


class Card(Message):
    """What the signers of a swarm state about it."""

    format: Annotated[int, Field(ge=1, le=1)]
    name: Name
    # Empty in card 1, whose hash it is: `network_id`
    network: Annotated[str, Field(pattern=r"^([a-z2-7]{26})?$")]
    number: Annotated[int, Field(ge=1, le=MAX_CARDS)]
    issued: Number  # seconds since 1970
    expires: Number
    signers: tuple[PeerId, ...]  # sorted
    threshold: Number  # how many of the signers must sign
    bootstrap: tuple[Annotated[str, Field(pattern=_ADDRESS)], ...]
    tasks: tuple[Task, ...]  # sorted, each once
    episodes: Number  # of a group, at most
    characters: Number  # of an episode, at most
    notes: str  # for people. Text of strangers: show it escaped
    members: Members | None = None  # left out where everybody may join


class Signed(Message):
    """What travels: a card, and for each key the signature (64 bytes, base64url) over its canonical
    form.
    """

    card: Card
    signatures: dict[PeerId, Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{85}[AQgw]$")]]


def network_id(card: Card) -> str:
    """The network id: the first 16 bytes of card 1's SHA-256, as 26 characters of base32."""
    if card.network:
        return card.network
    return b32encode(digest(card)[:16]).decode().rstrip("=").lower()


def digest(card: Card) -> bytes:
    """SHA-256 of the card's canonical form, without signatures."""
    return codec.content_hash(codec.encode(card))


def swarm_of(card: Card) -> str:
    """The name of the swarm in all messages: two networks of one name never mix."""
    return f"{card.name[: limits.MAX_NAME_CHARS - 9]}.{network_id(card)[:8]}"


def read(data: bytes) -> Signed | Refusal:
    """A well-formed card, or why the bytes are refused. Its signatures are not checked yet."""
    signed = codec.decode(data, Signed) if len(data) <= MAX_BYTES else Rejected(Reason.TOO_BIG)
    if isinstance(signed, Rejected):
        return Refusal[signed.reason.name]
    card = signed.card
    private = card.members
    admit, revoked = (private.admit, private.revoked) if private else ((), ())
    names = [*map(_place, card.tasks)]
    bootstrap = {PeerId(address.rpartition("/")[2]) for address in card.bootstrap}
    peers = {*card.signers, *admit, *revoked, *bootstrap}
    if not all(map(_is_ascending, (names, card.signers, admit, revoked))):
        return Refusal.NOT_CANONICAL
    try:
        all(map(public_key, peers))
    except ValueError:
        return Refusal.BAD_KEY
    return Refusal.OVER_LIMITS if over_limits(card) else signed


def _is_ascending(values: Sequence[Any]) -> bool:
    """Whether they stand in ascending order, each once."""
    return [*values] == sorted({*values})


def over_limits(card: Card) -> str:
    """The first of its limits that the card exceeds, for its signers; "" where it keeps them."""
    private = card.members
    admit, revoked = (private.admit, private.revoked) if private else ((), ())
    fewest_admit, chain = (1, private.chain) if private else (0, 1)
    sizes = (
        # The next line asks for 1 or more
        ("signers", 0, len(card.signers), MAX_SIGNERS),
        ("threshold", 1, card.threshold, len(card.signers)),
        ("keys that admit", fewest_admit, len(admit), MAX_SIGNERS),
        ("certificates in a chain", 1, chain, MAX_CHAIN),
        ("revoked ids", 0, len(revoked), MAX_REVOKED),
        ("bootstrap addresses", 1, len(card.bootstrap), MAX_ADDRESSES),
        ("tasks", 1, len(card.tasks), MAX_TASKS),
        ("episodes", limits.MIN_EPISODES, card.episodes, limits.MAX_EPISODES),
        ("characters", 1, card.characters, limits.MAX_EPISODE_CHARS),
        ("characters of notes", 0, len(card.notes), MAX_NOTES_CHARS),
        ("seconds until it expires", DAY, card.expires - card.issued, MAX_LIFE),
    )
    for what, least, size, most in sizes:
        if not least <= size <= most:
            return f"{what}: {size}, where {least} to {most} can be"
    return ""


def sign(signed: Signed, identity: Identity) -> Signed:
    """The card with the signature of `identity` added."""
    made = to_text(identity.sign(*_text(signed.card)))
    return Signed(card=signed.card, signatures={**signed.signatures, identity.peer_id: made})


def narrowed(rules: AdmissionRules, card: Card) -> AdmissionRules:
    """The rules of a node under this card: it admits only the card's tasks, and only within the
    card's limits.
    """
    digests = {_place(task): task.digest for task in card.tasks}

    def knows(asked: Question) -> bool:
        return _place(asked) in digests and rules.knows(asked)

    def differs(asked: Question) -> bool:
        return digests.get(_place(asked)) != asked.digest or rules.differs(asked)

    return replace(
        rules,
        knows=knows,
        differs=differs,
        max_episodes=min(rules.max_episodes, card.episodes),
        max_episode_chars=min(rules.max_episode_chars, card.characters),
    )


def go_on(last: Card, further: Sequence[bytes]) -> Card | Refusal:
    """The newest card, if the `further` ones follow `last` one by one; `last` if there are none.
    May have expired.
    """
    for data in further:
        card = _successor(data, last, last.number + 1, network_id(last))
        if isinstance(card, Refusal):
            return card
        last = card
    return last


def follow(
    chain: Sequence[bytes], network: str, now: int | None, newest: Card | None = None
) -> Card | Refusal:
    """The last of the cards 1, 2, 3, ..., if all of them hold and it is in force. `newest`: the one
    taken before. An empty network means that of card 1. `now`: seconds since 1970; None if the card
    need not be in force.
    """
    last: Card | None = None
    for number, data in enumerate(chain, 1):
        card = _successor(data, last, number, network)
        if isinstance(card, Refusal):
            return card
        if newest and newest.number == number and newest != card:
            return Refusal.CONFLICT
        last, network = card, network_id(card)
    if last is None:
        return Refusal.MALFORMED
    if newest and last.number < newest.number:
        return Refusal.ROLLED_BACK
    if now is not None and not last.issued - GRACE <= now < last.expires + GRACE:
        return Refusal.NOT_YET if now < last.issued else Refusal.EXPIRED
    return last


def _successor(data: bytes, last: Card | None, number: int, network: str) -> Card | Refusal:
    """The card in these bytes, if it may follow `last`; None stands before card 1."""
    signed = read(data)
    if isinstance(signed, Refusal):
        return signed
    return next(_objections(signed, last, number, network), signed.card)


def _objections(signed: Signed, last: Card | None, number: int, network: str) -> Iterator[Refusal]:
    """Why this card may not follow `last`. Whoever takes only the first reason pays for no check
    behind it.
    """
    card = signed.card
    if card.number != number:
        yield Refusal.GAP
    # Card 1 names no network, since its hash is the name; every other card names it
    names_rightly = (card.network == "") == (number == 1)
    if not names_rightly or network not in ("", network_id(card)):
        yield Refusal.OTHER_NETWORK
    signers, signers_before = set(card.signers), set(last.signers if last else ())
    if not _are_genuine(signed, signers | signers_before):
        yield Refusal.FORGED
    signed_by = signed.signatures.keys()
    if len(signed_by & signers) < card.threshold:
        yield Refusal.TOO_FEW
    if last is not None and len(signed_by & signers_before) < last.threshold:
        yield Refusal.TOO_FEW_BEFORE


def _are_genuine(signed: Signed, signers: set[PeerId]) -> bool:
    """Whether each signature of a card is by one of these signers, and over this card."""
    text = _text(signed.card)
    for key, signature in signed.signatures.items():
        if key not in signers or not verify(key, *text, to_bytes(signature)):
            return False
    return True


def _text(card: Card) -> tuple[bytes, bytes]:
    return f"swarm-node/card\0{network_id(card)}\0".encode(), codec.encode(card)
