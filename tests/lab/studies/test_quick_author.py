"""What an honest node loses that publishes more than the others."""

import pytest

from lab.studies.quick_author import taken


@pytest.mark.parametrize("pace", ["slow", "quick"])
def test_a_quick_author_gets_the_place_of_one_where_places_are_shared_out(pace: str) -> None:
    shared_out = taken(2.0, pace, True, 100, 1)
    by_chance = taken(2.0, pace, False, 100, 1)
    assert shared_out.filled == by_chance.filled == 1.0
    assert shared_out.share == pytest.approx(1 / 5, abs=0.03)
    assert by_chance.share == pytest.approx(1 / 2, abs=0.1)
    assert shared_out.used < by_chance.used


def test_places_stay_empty_that_only_a_quick_author_could_fill() -> None:
    shared_out = taken(0.5, "slow", True, 100, 1)
    by_chance = taken(0.5, "slow", False, 100, 1)
    assert shared_out.filled < by_chance.filled - 0.2
    assert shared_out.used < 0.5 < by_chance.used
