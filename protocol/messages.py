"""The messages between peers: addresses and text. Rewards, reference answers and tensors never
travel. A refused message gives a `Reason`: a value to count, never an exception.

Every value is frozen, strict and bounded, so a message that validates is safe to keep in memory.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, NewType, Self

from pydantic import BaseModel, ConfigDict, FailFast, Field, GetCoreSchemaHandler
from pydantic_core import core_schema

from protocol import limits
from protocol.turns import Call as Call
from protocol.turns import Turn as Turn


class Reason(StrEnum):
    """Why a message is refused, in the order of the checks. Only those after BAD_SIGNATURE show who
    is to blame.
    """

    TOO_BIG = "too big"
    # The same payload was admitted before; the network finds this, admission has no memory
    REPLAYED = "replayed"
    MALFORMED = "malformed"
    NOT_CANONICAL = "not canonical"
    BAD_AUTHOR = "bad author"
    BAD_SIGNATURE = "bad signature"
    LOCAL_MESSAGE = "local message"
    WRONG_SEED = "wrong seed"
    TOO_MANY_EPISODES = "too many episodes"
    EPISODE_TOO_LONG = "episode too long"
    # Or calls, and this node does not play as many turns of that question
    SEVERAL_TURNS = "several turns"
    UNKNOWN_QUESTION = "unknown question"
    # This node's environment of that name and version does something else
    OTHER_ENVIRONMENT = "other environment"


@dataclass(frozen=True, slots=True)
class Rejected:
    """What admission returns instead of a message: exactly one reason."""

    reason: Reason


# base58btc of the identity multihash of the peer's Ed25519 public key: "12D3KooW..."
PeerId = NewType("PeerId", str)
# The author's own round counter; rounds of two peers are not comparable
Round = NewType("Round", int)

NAME_PATTERN = r"^[A-Za-z0-9._+-]+$"
Name = Annotated[str, Field(max_length=limits.MAX_NAME_CHARS, pattern=NAME_PATTERN)]

# base64url without padding; the last character carries four bits, so each value has one spelling
# SHA-256 of a payload
GroupHash = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$")]
# The first 8 bytes of a hash
Holding = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{10}[AEIMQUYcgkosw048]$")]
ADDRESS_PATTERN = r"^/(ip4|ip6|dns|dns4|dns6)/[A-Za-z0-9/._:-]+$"
Address = Annotated[str, Field(max_length=limits.MAX_ADDRESS_CHARS, pattern=ADDRESS_PATTERN)]


class Message(BaseModel):
    """Base of everything that travels: immutable, no coercion, no unknown fields."""

    # keys only: texts in messages rarely repeat, and pydantic would cache 16,384 of them
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", cache_strings="keys")


class Question(Message):
    """The address of a question. Any peer can rebuild the prompt and the reference answer from
    it.
    """

    environment: Name  # e.g. "reasoning_gym"
    version: Name  # of the generator, e.g. "0.1.25": items may differ between versions
    dataset: Name  # e.g. "chain_sum"
    digest: Holding  # of what the environment does: see codec.environment_digest
    config_id: Name  # e.g. "easy": a name both sides know, never parameters
    # Of (author, round): see addressing.question_seed
    seed: Annotated[int, Field(ge=0, le=limits.MAX_SEED)]
    # Position in the author's round
    index: Annotated[int, Field(ge=0, lt=limits.MAX_QUESTIONS_PER_ROUND)]


class ObjectFields:
    """How a plain value stands in a message: as an object with exactly these fields, each within
    the bounds of its type. A value that is put into a message is checked like one that arrives.
    """

    def __init__(self, **fields: Any) -> None:
        """`fields`: the type of each field, by its name."""
        self._fields = fields

    def __get_pydantic_core_schema__(
        self, kind: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """The schema of `kind`, a NamedTuple with these fields."""

        def fields_of(value: Any) -> Any:
            return value._asdict() if isinstance(value, kind) else value

        def made(fields: dict[str, Any]) -> Any:
            return kind(**fields)

        schemas = {
            name: core_schema.typed_dict_field(handler.generate_schema(field), required=True)
            for name, field in self._fields.items()
        }
        fields = core_schema.typed_dict_schema(schemas, extra_behavior="forbid", strict=True)
        read = core_schema.no_info_after_validator_function(made, fields)
        return core_schema.json_or_python_schema(
            json_schema=read,
            python_schema=core_schema.no_info_before_validator_function(fields_of, read),
            serialization=core_schema.plain_serializer_function_ser_schema(
                fields_of, return_schema=fields
            ),
        )


BoundedCall = Annotated[
    Call,
    ObjectFields(arguments=Annotated[str, Field(max_length=limits.MAX_ARGUMENT_CHARS)], name=Name),
]
BoundedTurn = Annotated[
    Turn,
    ObjectFields(
        calls=Annotated[tuple[BoundedCall, ...], Field(max_length=limits.MAX_CALLS)],
        # The bound refuses lone surrogates
        text=Annotated[str, Field(max_length=limits.MAX_EPISODE_CHARS)],
    ),
]


class Episode(Message):
    """What the policy generated for a question, turn by turn. A plain completion is an episode of
    one turn.
    """

    ended: bool  # whether the policy ended the last turn (EOS); else the turn was cut off
    # Of the environment's replies: see codec.trace; empty for a plain completion
    trace: Holding | Literal[""]
    turns: Annotated[
        tuple[BoundedTurn, ...], Field(min_length=1, max_length=limits.MAX_TURNS), FailFast()
    ]

    def model_post_init(self, context: Any, /) -> None:
        """Raises ValueError for too many characters, a plain completion with a trace, other
        episodes without one.
        """
        if (single := self.single) == bool(self.trace):
            raise ValueError("a trace is of several turns or of calls, which have one")
        # One text alone is bounded by its field
        if not single and self.chars > limits.MAX_EPISODE_CHARS:
            raise ValueError(
                f"{self.chars} characters in an episode, at most {limits.MAX_EPISODE_CHARS}"
            )

    @classmethod
    def of(cls, text: str, ended: bool) -> Self:
        """A plain completion."""
        return cls(ended=ended, trace="", turns=(Turn(text),))

    @property
    def single(self) -> bool:
        """Whether it is a plain completion."""
        return len(self.turns) == 1 and not self.turns[0].calls

    @property
    def text(self) -> str:
        """The text of a plain completion."""
        return self.turns[0].text

    @property
    def chars(self) -> int:
        """The number of characters of all texts and arguments."""
        return sum(
            len(turn.text) + sum(len(call.arguments) for call in turn.calls) for turn in self.turns
        )


class RolloutGroup(Message):
    """All episodes that one peer sampled for one question: the unit that travels."""

    # Bounded here, proven by admission
    author: Annotated[PeerId, Field(max_length=limits.MAX_NAME_CHARS)]
    round: Annotated[int, Field(ge=0, le=limits.MAX_ROUND)]
    question: Question
    episodes: Annotated[
        tuple[Episode, ...],
        Field(min_length=limits.MIN_EPISODES, max_length=limits.MAX_EPISODES),
        FailFast(),  # 64 KiB of wrong items: 0.7 ms instead of 30 ms
    ]


class Announcement(Message):
    """Where a peer is, which groups it generated last, and which external groups it holds."""

    # Without its own /p2p/ID
    addresses: Annotated[tuple[Address, ...], Field(max_length=limits.MAX_ADDRESSES)]
    author: Annotated[PeerId, Field(max_length=limits.MAX_NAME_CHARS)]
    # Local, of this round
    groups: Annotated[tuple[GroupHash, ...], Field(max_length=limits.MAX_ANNOUNCED_GROUPS)]
    # External
    held: Annotated[tuple[Holding, ...], Field(max_length=limits.MAX_ANNOUNCED_HOLDINGS)]
    round: Annotated[int, Field(ge=0, le=limits.MAX_ROUND)]  # the author's last finished round
    # Grows with every announcement of this author
    seq: Annotated[int, Field(ge=0, le=limits.MAX_SEQUENCE)]


class Hello(Message):
    """The one message that every version understands: which versions a node speaks, and in which
    swarm.
    """

    swarm: Name
    versions: Annotated[
        tuple[Annotated[int, Field(ge=0, le=limits.MAX_SEED)], ...],
        Field(min_length=1, max_length=limits.MAX_HELLO_VERSIONS),
    ]
