"""What a user is told: the exception for a mistake of theirs, what `doctor` found, and text of
peers made safe to show.

`printable` is the one place that protects a terminal from text of peers.
"""

import errno
import os
import unicodedata
from dataclasses import dataclass
from enum import StrEnum

# Unicode categories: control, format (bidi, zero width), surrogates, private, unassigned, line and
# paragraph breaks.
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}

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
        error = error.__cause__ or error.__context__  # also behind "from None", as httpcore raises
    return 2


def first_line(error: BaseException, most: int = 200) -> str:
    """The first line of a library's error; the name of its type where the error has no text."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:most]


def reason_of(error: OSError) -> str:
    """Why the system refused; the words of a library whose error has no such reason."""
    return error.strerror or first_line(error)


def printable(text: str, limit: int = 200) -> str:
    """At most `limit` characters on one line, without escapes, controls or characters that reorder
    their neighbours: `?` stands for these, and an arrow for a new line.
    """
    shown = "".join(
        _SHOWN.get(char, "?") if unicodedata.category(char) in _HIDDEN else char
        for char in text[: limit + 1]
    )
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    NOTE = "note"  # worth knowing, hinders nothing
    ALONE = "alone"  # hinders sharing
    BAD = "bad"  # hinders training


@dataclass(frozen=True, slots=True)
class Finding:
    """What `doctor` found out about one subject."""

    subject: str
    level: Level
    text: str  # what was found, and what to do about it
