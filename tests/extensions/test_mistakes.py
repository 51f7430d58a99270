"""The wrong invocations of tests/core/commands/test_mistakes.py that need extensions."""

from pathlib import Path

import pytest

from tests.mistakes import called, faults, listed, started

EXTENSIONS = listed("extensions")
INSIDE = [mistake for mistake in EXTENSIONS if mistake.inside]


def test_every_fifth_mistake_of_the_list_is_answered_in_one_line(tmp_path: Path) -> None:
    assert faults(INSIDE[::5], called, tmp_path) == []


@pytest.mark.slow
def test_every_mistake_of_the_list_is_answered_in_one_line(tmp_path: Path) -> None:
    assert faults(INSIDE, called, tmp_path) == []


@pytest.mark.long
def test_every_mistake_is_answered_in_one_line_as_a_user_types_it(tmp_path: Path) -> None:
    assert faults(EXTENSIONS, started, tmp_path) == []
