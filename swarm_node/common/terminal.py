"""The one place where lines are printed: nothing that a command prints controls the terminal.

Text of others gets into lines in more ways than anybody can list: the name of a module in a model's
config.json, the message of a chat template's exception, the status line of a package index, the
warning of a library about either. So nothing is escaped where such a text is met. Instead
`guard_streams` puts an `Escaping` stream in the place of standard output and standard error, before
a command loads anything. Whatever is printed afterwards (by `print`, by a logger, by `warnings`, by
Python as a traceback) passes through it. It keeps line breaks, and shows a question mark for every
other character that a terminal obeys or hides.

Two things need more than that:

- A line break in text of others would begin a line that looks like one of ours. Records of loggers
  and warnings are therefore joined to one line (`guard_libraries`), and `cli.told` does the same
  for errors.
- Our own views do control the terminal. They are drawn by a `Terminal` (console.py), which escapes
  each piece of text in what it draws, and then writes past this stream. The bars of a library's
  download are drawn inside `progress_bars`.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from swarm_node.common.errors import escaped

_BREAKS = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")
# With these a bar goes back to the beginning of its line, or of the line above
_BAR = re.compile(r"\A(?:\r|\n|\x1b\[A)+")


def lines_escaped(text: str) -> str:
    """The text with its line breaks, and nothing else that a terminal obeys."""
    return "\n".join(map(escaped, text.split("\n")))


def one_line(text: str) -> str:
    """The text on one line, with nothing that a terminal obeys."""
    return escaped(_BREAKS.sub(" ", text.rstrip()))


class Escaping:
    """A stream that escapes what is written to it, and is the stream behind it in all else."""

    def __init__(self, raw: Any) -> None:
        self.raw_stream = raw
        self.bars = False  # whether a bar may return to the beginning of its line

    def write(self, text: str) -> int:
        """Writes the text, escaped. Returns the number of its characters."""
        bar = _BAR.match(text) if self.bars else None
        start = bar[0] if bar else ""
        self.raw_stream.write(start + lines_escaped(text[len(start) :]))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Writes the lines, escaped."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name == "raw_stream":  # while it is copied or unpickled
            raise AttributeError(name)
        return getattr(self.raw_stream, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.raw_stream)


def raw(stream: Any) -> TextIO:
    """The stream behind the one that escapes: for views that escape their text themselves."""
    found: TextIO = stream.raw_stream if isinstance(stream, Escaping) else stream
    return found


def guard_streams() -> None:
    """Escapes all that this process prints from now on."""
    for name in ("stdout", "stderr"):
        if not isinstance(getattr(sys, name), Escaping):
            setattr(sys, name, Escaping(getattr(sys, name)))


def guard_libraries() -> None:
    """Makes one line of every record of a logger, and of every warning, from now on."""
    import logging  # now: it takes a command that says only its version longer than all else
    import warnings

    class Record(logging.LogRecord):
        def getMessage(self) -> str:
            return one_line(super().getMessage())

    def formatted(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: object
    ) -> str:
        return f"{one_line(f'{filename}:{lineno}: {category.__name__}: {message}')}\n"

    logging.setLogRecordFactory(Record)
    warnings.formatwarning = formatted  # type: ignore[assignment]


@contextmanager
def progress_bars() -> Iterator[None]:
    """Inside, a library may draw bars on standard error: a text may begin with the characters that
    return to the beginning of a line. Everything behind them is escaped.
    """
    stream = sys.stderr
    if not isinstance(stream, Escaping):
        yield
        return
    before, stream.bars = stream.bars, True
    try:
        yield
    finally:
        stream.bars = before
