"""The messages between peers: addresses and text. Rewards, reference answers and tensors never travel.

Every value is frozen, strict and bounded, so a message that validates is safe to keep in memory.
"""

from typing import Annotated, NewType

from pydantic import BaseModel, ConfigDict, FailFast, Field

from protocol import limits

PeerId = NewType("PeerId", str)  # base58btc of the identity multihash of the peer's Ed25519 public key: "12D3KooW..."
Round = NewType("Round", int)  # the author's own round counter; rounds of two peers are not comparable

NAME_PATTERN = r"^[A-Za-z0-9._+-]+$"
Name = Annotated[str, Field(max_length=limits.MAX_NAME_CHARS, pattern=NAME_PATTERN)]

# base64url without padding; the last character carries four bits, so each value has one spelling
GroupHash = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$")]  # SHA-256 of a payload
Holding = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{10}[AEIMQUYcgkosw048]$")]  # its first 8 bytes
ADDRESS_PATTERN = r"^/(ip4|ip6|dns|dns4|dns6)/[A-Za-z0-9/._:-]+$"
Address = Annotated[str, Field(max_length=limits.MAX_ADDRESS_CHARS, pattern=ADDRESS_PATTERN)]


class Message(BaseModel):
    """Base of everything that travels: immutable, no coercion, no unknown fields."""

    # keys only: texts in messages seldom repeat, and pydantic would cache 16,384 of them
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", cache_strings="keys")


class Question(Message):
    """The address of a question. Any peer can rebuild the prompt and the reference answer from it."""

    environment: Name  # e.g. "reasoning_gym"
    version: Name  # of the generator, e.g. "0.1.25": items may differ between versions
    dataset: Name  # e.g. "chain_sum"
    config_id: Name  # e.g. "easy": a name both sides know, never parameters
    seed: Annotated[int, Field(ge=0, le=limits.MAX_SEED)]  # of (author, round): see addressing.question_seed
    index: Annotated[int, Field(ge=0, lt=limits.MAX_QUESTIONS_PER_ROUND)]  # position in the author's round


class Completion(Message):
    """One completion as text, and whether the policy ended it (EOS) or it was cut off."""

    text: Annotated[str, Field(max_length=limits.MAX_COMPLETION_CHARS)]
    ended: bool


class RolloutGroup(Message):
    """All completions that one peer sampled for one prompt: the unit that travels."""

    author: Annotated[PeerId, Field(max_length=limits.MAX_NAME_CHARS)]  # bounded here, proven by admission
    round: Annotated[int, Field(ge=0, le=limits.MAX_ROUND)]
    question: Question
    completions: Annotated[
        tuple[Completion, ...],
        Field(min_length=limits.MIN_COMPLETIONS, max_length=limits.MAX_COMPLETIONS),
        FailFast(),  # 64 KiB of wrong items: 0.7 ms instead of 30 ms
    ]


class Announcement(Message):
    """Where a peer is, which groups it generated last, and which external groups it holds."""

    addresses: Annotated[tuple[Address, ...], Field(max_length=limits.MAX_ADDRESSES)]  # without its own /p2p/ID
    author: Annotated[PeerId, Field(max_length=limits.MAX_NAME_CHARS)]
    groups: Annotated[tuple[GroupHash, ...], Field(max_length=limits.MAX_ANNOUNCED_GROUPS)]  # local, of this round
    held: Annotated[tuple[Holding, ...], Field(max_length=limits.MAX_ANNOUNCED_HOLDINGS)]  # external
    round: Annotated[int, Field(ge=0, le=limits.MAX_ROUND)]  # the author's last finished one
    seq: Annotated[int, Field(ge=0, le=limits.MAX_SEQUENCE)]  # grows with every announcement of this author


class Hello(Message):
    """The one message that every version understands: which versions a node speaks, and in which swarm."""

    swarm: Name
    versions: Annotated[
        tuple[Annotated[int, Field(ge=0, le=limits.MAX_SEED)], ...],
        Field(min_length=1, max_length=limits.MAX_HELLO_VERSIONS),
    ]
