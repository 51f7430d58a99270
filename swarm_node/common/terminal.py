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

Libraries in Rust or C write to descriptors 1 and 2 themselves: tokenizers prints the names of
fields that it does not know, and what its panics say. So the streams of a command write to
descriptors of their own, and `native_kept` takes what arrives at 1 and 2 while such a library
reads.
"""

import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, TextIO

from swarm_node.common.errors import escaped, printable

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
        self.apart = False  # whether it has a descriptor of its own

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
        stream = getattr(sys, name)
        if not isinstance(stream, Escaping):
            stream.flush()
            escaping = Escaping(_apart(stream))
            escaping.apart = escaping.raw_stream is not stream
            setattr(sys, name, escaping)


def _apart(stream: Any) -> Any:
    """A copy of this stream with a descriptor of its own; the stream itself if it has no
    descriptor.
    """
    try:
        return open(
            os.dup(stream.fileno()),
            "w",
            buffering=1,
            encoding=stream.encoding,
            errors=stream.errors,
        )
    except (OSError, ValueError, AttributeError):
        return stream


class _Native:
    """What code below Python writes, while any thread asks that it is kept."""

    def __init__(self) -> None:
        self._lock, self._asking = threading.Lock(), 0
        self._kept: IO[bytes] | None = None
        self._before: tuple[int, int] = (1, 2)

    def keep(self) -> None:
        """Begins to keep it, unless another thread has."""
        with self._lock:
            self._asking += 1
            if self._asking == 1:
                self._kept = self._kept or tempfile.TemporaryFile()  # noqa: SIM115  (kept)
                self._before = os.dup(1), os.dup(2)
                for descriptor in (1, 2):
                    os.dup2(self._kept.fileno(), descriptor)

    def give(self) -> str:
        """Ends that. Returns what was written, if no other thread continues."""
        with self._lock:
            self._asking -= 1
            if self._asking:
                return ""
            for before, descriptor in zip(self._before, (1, 2), strict=True):
                os.dup2(before, descriptor)
                os.close(before)
            assert self._kept is not None
            self._kept.seek(0)
            said = self._kept.read(64 * 1024)
            self._kept.seek(0)
            self._kept.truncate()
            return said.decode(errors="replace")


_native = _Native()


@contextmanager
def native_kept(what: str) -> Iterator[None]:
    """Inside, nothing that code below Python writes reaches the terminal. At the end it is printed
    in one line that begins with `what`, unless an error is raised, which says the same. Only in
    commands of ours: elsewhere Python's own streams may have no descriptors but these.
    """
    streams = sys.stdout, sys.stderr
    if not all(isinstance(stream, Escaping) and stream.apart for stream in streams):
        yield
        return
    _native.keep()
    try:
        yield
    except BaseException:
        _native.give()
        raise
    if said := _native.give().strip():
        sys.stderr.write(f"{what}: {printable(one_line(said), 400)}\n")


def guard_libraries() -> None:
    """Makes one line of every record of a logger, and of every warning, from now on."""
    import logging  # now: it takes a command that says only its version longer than all else
    import warnings

    class OneLineRecord(logging.LogRecord):
        def getMessage(self) -> str:
            return one_line(super().getMessage())

    def formatted(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: object
    ) -> str:
        return f"{one_line(f'{filename}:{lineno}: {category.__name__}: {message}')}\n"

    logging.setLogRecordFactory(OneLineRecord)
    warnings.formatwarning = formatted  # type: ignore[assignment]


@contextmanager
def progress_bars() -> Iterator[None]:
    """Inside, a library may draw bars on standard error: a text may begin with the characters that
    return to the beginning of a line. Everything after them is escaped.
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
