"""Why a message was refused: a value to count, never an exception."""

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """In the order of the checks. Only after BAD_SIGNATURE is it known who is to blame."""

    TOO_BIG = "too big"
    REPLAYED = "replayed"  # the same payload was admitted before; the network finds this, admission has no memory
    MALFORMED = "malformed"
    NOT_CANONICAL = "not canonical"
    BAD_AUTHOR = "bad author"
    BAD_SIGNATURE = "bad signature"
    LOCAL_MESSAGE = "local message"
    WRONG_SEED = "wrong seed"
    TOO_MANY_EPISODES = "too many episodes"
    EPISODE_TOO_LONG = "episode too long"
    SEVERAL_TURNS = "several turns"  # or calls, and this node does not play so many turns of that question
    UNKNOWN_QUESTION = "unknown question"
    OTHER_ENVIRONMENT = "other environment"  # of that name and version, but it does not do the same


@dataclass(frozen=True, slots=True)
class Rejected:
    """What admission returns instead of a message: exactly one reason."""

    reason: Reason
