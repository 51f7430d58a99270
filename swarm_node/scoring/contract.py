"""What a scoring process scores with, and what it says: the contract between `server.py` and a
source of questions.

A source runs inside the scoring process only. It is a module, or a class without arguments, that
has:

    version = "1"
    def build(dataset: str, config_id: str, seed: int, index: int) -> Item: ...

An environment from outside is such a class with a `name` and `tasks`:
docs/reference/environments.md. An environment of ours may also bring a module of `Scorers`, which
score without the source.

Every question is an episode. A source whose questions have several turns has `begin` in place of
`build`, and returns what plays them: see `Source` and `Playable`. An item answers at one go; the
scoring process lifts its text and score to an episode of one turn, so nobody outside of it has to
tell the two apart.

A node and its scoring process exchange frames over a stream socket: a length and JSON. Both ends
are ours, but an answer may take over the scoring process, so a reader bounds the length first and
checks the content.
"""

import json
import math
import struct
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from protocol.turns import Call as Call
from protocol.turns import Turn as Turn
from swarm_node.common.frames import BrokenFrame as BrokenFrame


class Item(Protocol):
    """One question with its key, rebuilt from an address. The key leaves the scoring process only
    in shots (`Shown`).

    A score above that of an empty text is paid only within the bound of `bound.py`. An item may say
    with `longest`, a number of characters or None for no bound, how long a right completion may be.
    Without it the bound follows from the `answer`, if the item has one and scores it as right. An
    item may also have `accounts(text) -> bool`: whether this text, without the frames of
    `bound.py`, says nothing but the answer.

    An item that the fork server can score without the source has a `portable`, too: the name of one
    of the environment's `Scorers`, and what that scorer needs to know, as JSON can hold it; or
    None.
    """

    @property
    def prompt(self) -> str: ...

    def score(self, text: str) -> float:
        """Reward of one answer, in [0, 1]. May raise or hang: the scoring process copes."""
        ...


@runtime_checkable
class Shown(Protocol):
    """An item that the prompts of other questions may show with its answer."""

    @property
    def answer(self) -> str: ...


class Scorers(Protocol):
    """A module of scorers that need no source. It imports little, since the fork server loads it
    and must fork fast.
    """

    # Names of scorers without a parser for answers: one child may score texts of all authors
    PLAIN: Container[str]

    def score_with(self, name: str, entry: Mapping[str, Any], text: str) -> float:
        """Reward of one answer by the scorer of this name, in [0, 1]; name and entry are an item's
        `portable`.
        """
        ...


class ItemSource(Protocol):
    """A source whose questions have one turn. Only environments from outside need `name` and
    `tasks`.
    """

    name: str
    tasks: Mapping[str, Iterable[str]]  # data set -> config ids
    # Of the questions: a node refuses to start if it is not the version in the node's messages
    version: str

    def build(self, dataset: str, config_id: str, seed: int, index: int) -> Item:
        """The question of this address. A pure function of it, in any process, after any other
        call.
        """
        ...


class Step(NamedTuple):
    """What an environment replies to a turn."""

    observations: tuple[str, ...]  # one for each call, in order, or at most one to a text
    done: bool = False  # the episode ends here, and nobody reads the observations


class Playable(Protocol):
    """A question of several turns, at the beginning of an episode. A copy (`copy.deepcopy`) of
    it is played from there again for each new turn and by each peer: so it draws from the
    address alone, and reads no clock. If it has a true `strict`, text next to calls, or a call
    that `playing.use` answers with an error, ends the episode with a score of 0. If it has a
    `longest`, it is paid nothing where a turn without calls has more characters.
    """

    @property
    def prompt(self) -> str:
        """The text that opens the episode; it names the tools, if there are any."""
        ...

    def step(self, turn: Turn) -> Step:
        """What the environment replies to the next turn, within 0.05 s of CPU, and 0.25 s for the
        whole episode.
        """
        ...

    def score(self) -> float:
        """Reward of the episode as it is, in [0, 1]: a policy may stop before the episode is
        done.
        """
        ...


class Source(Protocol):
    """A source whose questions have several turns."""

    name: str
    tasks: Mapping[str, Iterable[str]]
    version: str
    turns: int  # of an episode, at most; 2 or more
    # At most 8, played for the digest: they should reach what may differ between versions
    probe: Sequence[Turn]

    def begin(self, dataset: str, config_id: str, seed: int, index: int) -> Playable:
        """The question of this address, at its beginning: a pure function, like
        `ItemSource.build`.
        """
        ...


# As environments of version 0.2 name them
Episode, EpisodeSource = Playable, Source


class Replay(NamedTuple):
    """An episode as it was played."""

    observations: tuple[tuple[str, ...], ...]  # of each turn; none where the episode ended
    done: bool
    score: float


Episodes = tuple[tuple[Turn, ...], ...]
# None: prompt; (): answer; episodes to play; texts: episodes of one turn
Asked = None | tuple[str, ...] | Episodes
MAX_FRAME_BYTES = 64 * 1024 * 1024  # far above one batch (a few MB); a longer frame is not ours
_LENGTH = struct.Struct(">I")
QUESTION_BUDGET = 0.25  # CPU seconds to rebuild one question; a slower one is skipped by every node
# CPU seconds to play a turn, and all of an episode with its score
STEP_BUDGET, EPISODE_BUDGET = 0.05, 0.25
# Of a turn, of an episode; more end the episode
MAX_OBSERVATION_CHARS, MAX_OBSERVED_CHARS = 4096, 16384
MAX_PROBE = 8  # turns
# How a scoring process is started: whether text next to an answer is unpaid (`bound.py`)
BOUNDED, FREE = "bounded", "free"
CHILD_ITEMS = 16  # items scored in one child, at most; bounds how long a node waits for a reply

# Reasons of skips, as they are counted.
SLOW_QUESTION = "slow question"  # rebuilding it took more than the budget: nobody's fault
# More than twice the budget, while a random question of its task is in time
SOUGHT_OUT = "slow question sought out"
BROKEN_QUESTION = "question raised"  # it cannot be rebuilt
NOT_SHOWN = "no answer to show"  # asked of an item that is not `Shown`
SCORER_RAISED = "scorer raised"
# Not a finite number in [0, 1]: dropped, never clamped: that could reward it
NOT_A_SCORE = "not a score"
TIMEOUT = "scoring timeout"
CRASHED = "scoring crashed"  # the process died, or wrote what our code never writes
AFTER_THE_END = "after the end"  # an episode has turns after the one in which it ends here
# The one here has that name and version, but does something else
OTHER_ENVIRONMENT = "other environment"
# Other environment or version, or a dataset or config id not in the catalogue
UNKNOWN_QUESTION = "unknown question"


def is_plain(turns: Sequence[Turn]) -> bool:
    """Whether these turns are an answer at one go: a text without calls."""
    return len(turns) == 1 and not turns[0].calls


def is_score(value: Any) -> bool:
    """Whether the value is a number in [0, 1]."""
    return isinstance(value, int | float) and math.isfinite(value) and 0.0 <= value <= 1.0


def encode(value: Any) -> bytes:
    """A frame in ASCII, so that any text survives, lone surrogates included. Raises ValueError for
    NaN and infinity.
    """
    body = json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")
    return _LENGTH.pack(len(body)) + body


class Reader:
    """Frames out of a stream, several per system call."""

    def __init__(self, receive: Callable[[int], bytes]) -> None:
        """`receive(n)` gives up to n bytes, none at the end: `os.read` or `recv`, which may have a
        timeout.
        """
        self._receive = receive
        self._buffer = bytearray()

    def read(self) -> Any | None:
        """The next frame; None at the end of the stream. Raises TimeoutError, BrokenFrame."""
        if not self._fill(_LENGTH.size):
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > MAX_FRAME_BYTES:
            raise BrokenFrame(f"frame of {length} bytes")
        if not self._fill(_LENGTH.size + length):
            return None
        body = bytes(self._buffer[_LENGTH.size : _LENGTH.size + length])
        del self._buffer[: _LENGTH.size + length]
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise BrokenFrame(f"not JSON: {error}") from error

    def _fill(self, wanted: int) -> bool:
        while len(self._buffer) < wanted:
            try:
                chunk = self._receive(256 * 1024)
            except ConnectionResetError:
                return False
            if not chunk:
                return False
            self._buffer += chunk
        return True
