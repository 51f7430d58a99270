"""A bounded run of `lab.fuzzing.fuzz`; the long one is run by hand. Also tests that it finds faults."""

from random import Random

import pytest

from lab.fuzzing import fuzz
from lab.fuzzing.mutation import MAX_BYTES, mutate
from lab.fuzzing.targets import Target, targets


def test_nothing_a_stranger_sends_raises_hangs_or_stays() -> None:
    result = fuzz.run(inputs=9_000, seed=20)
    assert result["failures"] == {}
    assert result["inputs"] >= 9_000
    assert result["rss_mb"][-1] - result["rss_mb"][2] < 16, result["rss_mb"]
    assert max(row["slowest_ms"] for row in result["targets"].values()) < 2000


def test_seeds_are_accepted_and_most_of_what_is_made_of_them_is_not() -> None:
    for name in ("envelope", "announcement", "exchange request", "pull reply", "hello"):
        target = targets()[name]
        assert all(target.run(seed) in ("ok", "None") for seed in target.seeds), name
        tally = fuzz.fuzz(name, target, 200, seed=1)
        assert len(tally.outcomes) >= 2, name


def test_a_decoder_that_raises_is_reported() -> None:
    tally = fuzz.fuzz("broken", Target([b"12"], lambda data: str(int(data))), 50, seed=0)
    assert tally.failures and "ValueError" in tally.failures[0]


@pytest.mark.parametrize("seed", range(3))
def test_mutations_are_bounded_and_repeatable(seed: int) -> None:
    def inputs() -> list[bytes]:
        rng, data = Random(seed), b'{"a":[1,2,3]}'
        return [data := mutate(rng, data or b"x", [data, b"other"]) for _ in range(200)]

    made = inputs()
    assert made == inputs() and max(map(len, made)) <= MAX_BYTES
    assert len(set(made)) > 150
