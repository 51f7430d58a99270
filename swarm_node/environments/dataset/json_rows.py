"""Rows out of JSON: an object a line, or one array of objects, whose name may end in .json.

The reader never holds a whole file: it reads an array one object at a time, wherever its lines
break.
"""

import codecs
import json
import re
from collections.abc import Callable, Collection, Iterator
from typing import BinaryIO

from swarm_node.common.errors import UserError
from swarm_node.environments.dataset import bounds
from swarm_node.environments.dataset.table import UTF_16, text_of
from swarm_node.telemetry.jsonlines import record_of

PIECE = 64 * 1024  # characters that are read at a time
ARRAY = re.compile(rb"[ \t\r\n]*\[[ \t\r\n]*\{")  # how an array of objects begins
BETWEEN = re.compile(r"[ \t\r\n]*")


def rows(
    content: BinaryIO, wanted: Collection[str], file_name: str
) -> Iterator[tuple[int, bounds.Read]]:
    """Each row with its first line."""
    begin = content.read(PIECE)
    content.seek(0)
    if ARRAY.match(begin.removeprefix(codecs.BOM_UTF8)):
        yield from _array(content, file_name)
        return
    if begin.startswith(UTF_16):
        raise UserError(f"data set {file_name} is UTF-16: save it as UTF-8")
    if begin.startswith(codecs.BOM_UTF8):
        content.seek(len(codecs.BOM_UTF8))
    yield from _lines(content)


def _lines(content: BinaryIO) -> Iterator[tuple[int, bounds.Read]]:
    number = 0
    while line := content.readline(bounds.MAX_ROW_BYTES + 1):
        number += 1
        if len(line) > bounds.MAX_ROW_BYTES:
            while line and not line.endswith(b"\n"):
                line = content.readline(bounds.MAX_ROW_BYTES)
            yield number, bounds.TOO_LONG
        elif not line.strip():
            yield number, None
        else:
            row = record_of(line)
            yield number, bounds.NO_OBJECT if row is None else row


def _array(content: BinaryIO, file_name: str) -> Iterator[tuple[int, bounds.Read]]:
    """The objects of the array that the file is. After an object that cannot be read, none is
    found any more, so that the file is refused.
    """
    text, line = text_of(content, file_name), 1
    held = text.read(PIECE)
    place = held.index("[") + 1
    line += held.count("\n", 0, place)
    while True:
        held, place, passed = _skip(text.read, held, place)
        line += passed
        if held[place : place + 1] == "]":
            held, place, _ = _skip(text.read, held, place + 1)
            if held[place:]:
                raise UserError(
                    f"data set {file_name}: there is text after the array that ends in line "
                    f'{line}; write one object a line, such as {{"messages": [...]}}'
                )
            return
        while (end := _object_end(held, place)) is None:
            piece = text.read(PIECE)
            if not piece or len(held) - place > bounds.MAX_ROW_BYTES:
                raise UserError(
                    f"data set {file_name}: the array in it is broken, or has an element above "
                    f"1 MB, at line {line}; write one object a line instead"
                )
            held, place = held[place:] + piece, 0
        row = record_of(held[place:end].encode("utf-8", "replace"))
        yield line, bounds.NO_OBJECT if row is None else row
        line += held.count("\n", place, end)
        place = end


def _skip(read: Callable[[int], str], held: str, place: int) -> tuple[str, int, int]:
    """What is held, and the place of the next element after white space and a comma; also how
    many lines ended on the way.
    """
    passed, comma = 0, False
    while True:
        end = BETWEEN.match(held, place).end()  # type: ignore[union-attr]
        passed += held.count("\n", place, end)
        place = end
        if place == len(held):
            held, place = read(PIECE), 0
            if not held:
                return held, place, passed
        elif held[place] == "," and not comma:
            place, comma = place + 1, True
        else:
            return held, place, passed


def _object_end(held: str, place: int) -> int | None:
    """Where the element that begins at `place` ends; None where it is not whole."""
    try:
        return json.JSONDecoder().raw_decode(held, place)[1]
    except (ValueError, RecursionError):
        return None
