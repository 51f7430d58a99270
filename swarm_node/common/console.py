"""The console that every view and table of ours is drawn on.

Rich passes control characters in a text on to the terminal, all but five. This console escapes the
text of each segment that it draws; the controls that rich itself makes, for colours and for moving
the cursor, are segments of their own and stay. So it can write past the stream that escapes lines
(terminal.py).

While a live view is drawn, rich prints above it what others print meanwhile, and takes escapes and
brackets in it for colours and links. `Above` takes the place of rich's proxy and does not.
"""

import sys
from collections.abc import Iterator
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.file_proxy import FileProxy
from rich.segment import Segment
from rich.text import Text

from swarm_node.common.terminal import lines_escaped, raw


class Above(FileProxy):
    """A stream that prints whole lines above a live view, as plain text."""

    def __init__(self, console: Console, file: Any) -> None:
        super().__init__(console, file)
        self._view, self._begun = console, ""

    def write(self, text: str) -> int:
        """Prints the lines that are whole. Returns the number of characters."""
        lines, newline, self._begun = (self._begun + text).rpartition("\n")
        if newline:
            self._view.print(Text(lines))
        return len(text)

    def flush(self) -> None:
        """Prints the line that was begun."""
        begun, self._begun = self._begun, ""
        if begun:
            self._view.print(Text(begun))


class Terminal(Console):
    """A console whose text cannot control the terminal."""

    _lives = 0  # live views that are drawn, one inside another
    _streams: tuple[Any, Any] | None = None  # those that a live view has taken the place of

    def set_live(self, live: Any) -> bool:
        """Called by a live view that begins: what others print goes above it from now on."""
        first = super().set_live(live)
        self._lives += 1
        if self.is_terminal and self._streams is None:
            self._streams = sys.stdout, sys.stderr
            # Rich puts no proxy of its own over one that is there
            sys.stdout, sys.stderr = Above(self, sys.stdout), Above(self, sys.stderr)
        return first

    def clear_live(self) -> None:
        """Called by a live view that ends."""
        super().clear_live()
        self._lives -= 1
        if self._streams is not None and not self._lives:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            (sys.stdout, sys.stderr), self._streams = self._streams, None

    @property
    def file(self) -> IO[str]:
        """The stream that it writes to, past the one that escapes lines."""
        return raw(Console.file.fget(self))  # type: ignore[attr-defined]

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        """Writes to another stream from now on."""
        self._file = new_file

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """The segments of an object, their text escaped."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            shown = text if control else lines_escaped(text)
            yield segment if shown == text else Segment(shown, style)
