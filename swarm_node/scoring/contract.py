"""What a scoring process scores with, and what it says: the contract between `server.py` and a source of questions.

A source runs inside the scoring process only. It is a module, or a class without arguments, that has:

    version = "1"
    def build(dataset: str, config_id: str, seed: int, index: int) -> Item: ...

An environment from outside is such a class with a `name` and `tasks`: docs/reference/environments.md. An environment
of ours may also bring a module of `Scorers`, which score without the source.

A node and its scoring process exchange frames over a stream socket: a length and JSON. Both ends are ours, but an
answer may take over the scoring process: whoever reads bounds the length first and checks the content.
"""

import json
import struct
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, Protocol, runtime_checkable


class Item(Protocol):
    """One question with its key, rebuilt from an address. Its key leaves the scoring process for shots alone.

    One that can also be scored without its source, in the fork server, has a `portable` beside: the name of one of the
    environment's `Scorers`, and what that needs to know, as JSON can hold it; or None.
    """

    @property
    def prompt(self) -> str: ...

    def score(self, text: str) -> float:
        """Reward of one answer, in [0, 1]. May raise or hang: the scoring process copes."""
        ...


@runtime_checkable
class Shown(Protocol):
    """An item that a prompt of others may show with its answer."""

    @property
    def answer(self) -> str: ...


class Scorers(Protocol):
    """A module of scorers that need no source. It imports little: the fork server loads it, where a fork is cheap."""

    PLAIN: Container[str]  # names of those that hand an answer to no parser: one child may score texts of all authors

    def score_with(self, name: str, entry: Mapping[str, Any], text: str) -> float:
        """Reward of one answer by the scorer of this name, in [0, 1]; name and entry are an item's `portable`."""
        ...


class Source(Protocol):
    """The shape of a source. `name` and `tasks` are read of environments from outside only."""

    name: str
    tasks: Mapping[str, Iterable[str]]  # data set -> config ids
    version: str  # of the questions: the node refuses to start when it is not the version it speaks of on the wire

    def build(self, dataset: str, config_id: str, seed: int, index: int) -> Item:
        """A pure function of the address, in any process, after any other call."""
        ...


MAX_FRAME_BYTES = 64 * 1024 * 1024  # far above one batch (a few MB); what is longer is not ours
_LENGTH = struct.Struct(">I")
QUESTION_BUDGET = 0.25  # CPU seconds to rebuild one question; a slower one is skipped by every node
CHILD_ITEMS = 16  # items scored in one child, at most; bounds how long a node waits for a reply

# Reasons of skips, as they are counted.
SLOW_QUESTION = "slow question"  # rebuilding it took more than the budget: nobody's fault
SOUGHT_OUT = "slow question sought out"  # more than twice the budget, where others of its task take less than once
BROKEN_QUESTION = "question raised"  # it cannot be rebuilt
NOT_SHOWN = "no answer to show"  # asked of an item that is not `Shown`
SCORER_RAISED = "scorer raised"
NOT_A_SCORE = "not a score"  # not a finite number in [0, 1]: dropped, never clamped: that could reward it
TIMEOUT = "scoring timeout"
CRASHED = "scoring crashed"  # the process died, or said something it never says
OTHER_ENVIRONMENT = "other environment"  # of that name and version, but it does not do the same
UNKNOWN_QUESTION = "unknown question"  # other environment or version, or a dataset or config id not in the catalogue


class BrokenFrame(Exception):
    """The bytes are no frame: the other end is no longer what we started."""


def encode(value: Any) -> bytes:
    """ASCII only, so that any text survives, lone surrogates included; NaN and infinity are refused (ValueError)."""
    body = json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")
    return _LENGTH.pack(len(body)) + body


class Reader:
    """Frames out of a stream, several per system call."""

    def __init__(self, receive: Callable[[int], bytes]) -> None:
        """`receive` up to so many bytes, none at the end: a socket's `recv`, which may have a timeout, or `os.read`."""
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
