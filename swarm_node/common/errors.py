"""What a user is told: the exception for a mistake of theirs, what `doctor` found, and text of
others made safe to show.

Text of others (a peer, a model folder, a server, a library's error) is shortened by `printable` and
`first_line` alone. Both do the same three steps in the same order: hide the secrets in the whole
text, escape what a terminal would obey, then cut. A test over the tree finds any other cut.
`escaped` is the second step by itself; terminal.py applies it to all that a command prints.
"""

import errno
import os
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from swarm_node.common.redaction import hidden, without_secrets

# Unicode categories: control, format (bidi, zero width), surrogates, private, unassigned, line and
# paragraph breaks.
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
# Letters and marks by category, which show nothing: joiners, fillers, selectors of variants
_INVISIBLE = {*"\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0", *map(chr, range(0xE0100, 0xE01F0))}

# What stands for white space that is hidden
_SHOWN = {"\n": "↵", "\t": " "}

# Errors that may pass by themselves: a full disk, a port or a lock that is taken, no room, no
# connection.
_PASSING = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EADDRINUSE,
    errno.EAGAIN,
    errno.EMFILE,
    errno.ENOMEM,
    errno.EIO,
}
_PASSING |= {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN}


class UserError(Exception):
    """A mistake that a user can correct. Its text is one line: what is wrong, and what to do. No
    traceback is shown.
    """


class TemporaryError(UserError):
    """A UserError whose cause may pass by itself, so that a service is started again."""


class Diverged(TemporaryError):
    """The model cannot be trained on from here: its weights would change beyond use, or have.

    Attributes:
        sound: whether the weights are still those before the round, so that they can be saved.
    """

    def __init__(self, text: str, *, sound: bool) -> None:
        super().__init__(text)
        self.sound = sound


def exit_code(error: BaseException | None) -> int:
    """75 where this error, or one that led to it, may pass by itself; else 2."""
    while error is not None:
        # By name: most commands never import socket
        unresolved = type(error).__name__ == "gaierror"
        passing = isinstance(error, OSError) and error.errno in _PASSING
        if (
            unresolved
            or passing
            or isinstance(error, TemporaryError | TimeoutError | ConnectionError)
        ):
            return os.EX_TEMPFAIL
        error = error.__cause__ or error.__context__  # also after "from None", as httpcore raises
    return 2


def first_line(error: object, most: int = 200, secrets: Iterable[str] = ()) -> str:
    """The first line of a library's error, as `printable` shows it; the name of its type where the
    error has no text.
    """
    text = str(error).strip() or type(error).__name__
    return printable(_without(text, secrets).splitlines()[0], most)


def last_line(text: str, most: int = 200, secrets: Iterable[str] = ()) -> str:
    """The last line of what a process printed, as `printable` shows it; "" if it printed none."""
    lines = _without(text.strip(), secrets).splitlines()
    return printable(lines[-1], most) if lines else ""


def reason_of(error: OSError) -> str:
    """Why the system refused; the words of a library whose error has no such reason."""
    return error.strerror or first_line(error)


def printable(text: str, limit: int = 200, secrets: Iterable[str] = ()) -> str:
    """Returns the text as one line of at most `limit` characters, without escapes, controls,
    characters that reorder their neighbours, the secrets that `hidden` knows, and `secrets`. The
    end of a text that is too long is skipped.
    """
    shown = escaped(_without(text, secrets)[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def printable_end(text: str, limit: int) -> str:
    """Shows a text as `printable` does, but skips the beginning of a text that is too long."""
    return printable(_without(text, ())[::-1], limit)[::-1]


def _without(text: str, secrets: Iterable[str]) -> str:
    return without_secrets(hidden(text), secrets)


def escaped(text: str) -> str:
    """The text on one line, with a question mark in place of each character that a terminal obeys
    or does not show, an arrow for a new line and a blank for a tab.
    """
    if text.isascii() and text.isprintable():
        return text
    chars = [_SHOWN.get(char, "?") if _obeyed(char) else char for char in text]
    return "".join(chars)


def _obeyed(char: str) -> bool:
    return unicodedata.category(char) in _HIDDEN or char in _INVISIBLE


class Severity(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    NOTE = "note"  # worth knowing, hinders nothing
    ALONE = "alone"  # hinders sharing
    BAD = "bad"  # hinders training


@dataclass(frozen=True, slots=True)
class Finding:
    """What `doctor` found out about one subject."""

    subject: str
    level: Severity
    text: str  # what was found, and what to do about it
