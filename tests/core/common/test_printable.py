"""What strangers write cannot move a cursor, ring a bell, hide or reorder anything."""

import unicodedata

from swarm_node.common.errors import printable


def test_nothing_a_terminal_obeys_gets_through() -> None:
    hostile = "".join(map(chr, range(0x20))) + "\x7f\x9b31m\u202e\u200b\u2028\ud800\x1b]0;title\x07"
    shown = printable(hostile)
    assert (
        not any(unicodedata.category(char)[0] == "C" or char == "\u2028" for char in shown)
        and "\n" not in shown
    )
    shown.encode()


def test_a_new_line_is_shown_as_one() -> None:
    assert printable("one\ntwo\tthree\r") == "one↵two three?"


def test_it_is_short() -> None:
    assert len(printable("x" * 10_000)) == 200 and printable("x" * 200) == "x" * 200
