"""What a user is told: the exception for a mistake of theirs, what `doctor` found, and text of peers made safe
to show.

`printable` is the one place that protects a terminal from text of peers.
"""

import errno
import os
import unicodedata
from dataclasses import dataclass
from enum import StrEnum

# Unicode categories: control, format (bidi, zero width), surrogates, private, unassigned, line and paragraph breaks.
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}

# What passes by itself: a full disk, a port or a lock that somebody has, no room, no connection.
_PASSING = {errno.ENOSPC, errno.EDQUOT, errno.EADDRINUSE, errno.EAGAIN, errno.EMFILE, errno.ENOMEM, errno.EIO}
_PASSING |= {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN}


class UserError(Exception):
    """A mistake that a user can correct. Its text is one line: what is wrong, and what to do. No traceback is shown."""


class TemporaryError(UserError):
    """A UserError whose cause may pass by itself, so that a service is started again."""


def exit_code(error: BaseException | None) -> int:
    """75 where this error, or one that it came from, may pass by itself; else 2."""
    while error is not None:
        unresolved = type(error).__name__ == "gaierror"  # of socket, which most commands never import
        passing = isinstance(error, OSError) and error.errno in _PASSING
        if unresolved or passing or isinstance(error, TemporaryError | TimeoutError | ConnectionError):
            return os.EX_TEMPFAIL
        error = error.__cause__ or error.__context__  # "from None" hides a cause, as httpcore does, and it stays one
    return 2


def first_line(error: BaseException, most: int = 200) -> str:
    """What an error of a library says, in its first line; its type where it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:most]


def printable(text: str, limit: int = 200) -> str:
    """At most `limit` characters on one line, without escapes, controls or characters that reorder their neighbours."""
    shown = "".join("?" if unicodedata.category(char) in _HIDDEN else char for char in text[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    NOTE = "note"  # worth knowing, hinders nothing
    ALONE = "alone"  # hinders sharing
    BAD = "bad"  # hinders training


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    subject: str
    level: Level
    text: str  # what is, and what to do about it
