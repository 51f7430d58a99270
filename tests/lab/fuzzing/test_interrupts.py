"""Ctrl-C while a command starts, and a second one: real processes, as a terminal has them."""

import pytest

from lab.fuzzing.interrupts import interrupted

EARLY = (0.0, 0.02, 0.04, 0.06, 0.1, 0.2)  # the shell, Python's own start, our first imports
LATER = (0.5, 1.0, 2.0)
MOMENTS = {"run": (*EARLY, *LATER), "simulate": (0.3, 1.5), "bootstrap": (0.3, 1.5)}


@pytest.mark.slow
def test_ctrl_c_at_any_moment_of_the_start_shows_no_traceback() -> None:
    cases = list(interrupted(MOMENTS))
    assert [case for case in cases if case.wrong] == [] and len(cases) == sum(
        map(len, MOMENTS.values())
    )
