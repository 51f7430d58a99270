"""A sweep of learning rates widens itself, and says where it found no end."""

from lab.studies.rates import sweep


def test_a_sweep_widens_itself_until_the_best_is_between_two_worse_ones():
    found = sweep([1.0, 2.0, 4.0], lambda rate: -abs(rate - 8.0))
    assert (
        found.best == 8.0 and list(found.values) == [1.0, 2.0, 4.0, 8.0, 16.0] and found.edge == ""
    )
    down = sweep([4.0, 8.0], lambda rate: -abs(rate - 2.0))
    assert down.best == 2.0 and list(down.values) == [1.0, 2.0, 4.0, 8.0] and down.edge == ""


def test_a_sweep_that_finds_no_end_says_so():
    found = sweep([1.0, 2.0], lambda rate: rate, widenings=2)
    assert (found.best, found.edge) == (8.0, "highest")
    assert sweep([1.0, 2.0], lambda rate: -rate, widenings=1).edge == "lowest"
