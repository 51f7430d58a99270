"""A right answer with something beside it is unpaid in every environment: a slice of
`lab.fuzzing.beside`.
"""

from pathlib import Path

import pytest

from lab.fuzzing import beside
from lab.fuzzing.carriers import carriers

SLICE = 12  # one carrier in so many


def test_the_sweep_finds_a_scorer_that_takes_the_answer_out_of_a_text() -> None:
    target = beside.Target("lax", lambda text: float("117" in text), "117")
    tally = beside.sweep(target, {"text": "payload"})
    assert tally.paid > 10 and "'payload 117'" in tally.examples


def test_every_environment_that_ships_has_targets(tmp_path: Path) -> None:
    named = {target.name.partition(",")[0] for target in beside.targets(tmp_path, task_sets=False)}
    assert named == {"dataset", "temporal_clue", "basics", "episodes", "second_try"}


@pytest.mark.slow
def test_a_slice_of_the_carriers_is_paid_in_no_environment() -> None:
    results = beside.run(dict(list(carriers().items())[::SLICE]), task_sets=False)
    assert {name: tally.examples for name, tally in results.items() if tally.paid} == {}
    assert sum(tally.cases for tally in results.values()) > 20_000


@pytest.mark.slow
def test_the_example_of_a_task_set_pays_for_nothing_beside_its_answers(tmp_path: Path) -> None:
    pytest.importorskip("verifiers")
    texts = dict(list(carriers().items())[::SLICE])
    tallies = [beside.sweep(target, texts) for target in beside.of_task_sets(tmp_path)]
    assert len(tallies) == 4 and sum(tally.paid for tally in tallies) == 0
