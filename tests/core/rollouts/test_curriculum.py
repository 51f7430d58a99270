"""The curriculum: which tasks a node asks, from its first round on."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random

import pytest
from pydantic import ValidationError

from swarm_node.rollouts.curriculum import (
    EASIEST,
    LEARNED,
    LEAST,
    PAUSE,
    PROBE,
    Curriculum,
    CurriculumState,
    TaskState,
    summary,
)
from swarm_node.rollouts.groups import all_equal

QUESTIONS, GROUP = 8, 8
Ability = Callable[[str, int], float]  # of a task in a round: how often the model is right


class Model:
    """A stand-in for a model: it answers each task rightly with a known probability."""

    def __init__(self, ability: Ability, seed: int = 0) -> None:
        self._ability, self._rng = ability, Random(seed)
        self.informative: list[float] = []  # by round, the share of informative groups

    def round(self, curriculum: Curriculum, now: int) -> list[str]:
        """One round. Returns the tasks that were asked."""
        asked = curriculum.ask(now, QUESTIONS, Random(f"{now}"))
        groups = [(task, self._rewards(task, now)) for task in asked]
        curriculum.learn(now, asked, groups)
        spread = [not all_equal(rewards) for _, rewards in groups]
        self.informative.append(sum(spread) / len(spread))
        return asked

    def _rewards(self, task: str, now: int) -> list[float]:
        share = self._ability(task, now)
        return [float(self._rng.random() < share) for _ in range(GROUP)]


def fixed(shares: Mapping[str, float]) -> Ability:
    return lambda task, now: shares[task]


def mixed(count: int) -> dict[str, float]:
    """Tasks of which a third is all wrong, a third all right, and a third in between."""
    return {f"task/{number}": (0.0, 0.4, 1.0)[number % 3] for number in range(count)}


def test_the_first_rounds_ask_two_questions_of_each_task_in_order() -> None:
    shares = mixed(12)
    curriculum, model = Curriculum([*shares], at_once=12), Model(fixed(shares))
    asked = [model.round(curriculum, now) for now in range(3)]
    assert asked == [
        [f"task/{4 * now + number}" for number in range(4) for _ in range(PROBE)]
        for now in range(3)
    ]


def test_what_is_all_right_or_all_wrong_is_dropped_and_the_rest_is_practised() -> None:
    shares = mixed(12)
    curriculum, model = Curriculum([*shares], at_once=12), Model(fixed(shares))
    for now in range(3):
        model.round(curriculum, now)
    assert set(curriculum.practised) == {task for task, share in shares.items() if share == 0.4}
    assert set(curriculum.dropped) == {task for task, share in shares.items() if share != 0.4}
    assert not curriculum.unasked and not curriculum.is_stuck


def test_probing_stops_while_enough_tasks_are_practised() -> None:
    shares = dict.fromkeys((f"task/{number}" for number in range(40)), 0.4)
    curriculum, model = Curriculum([*shares], at_once=10), Model(fixed(shares))
    for now in range(PAUSE):
        model.round(curriculum, now)
    assert len(curriculum.practised) == 10 and len(curriculum.unasked) == 30


def test_most_groups_are_informative_although_most_tasks_are_not_in_the_band() -> None:
    """In turn, a third of the tasks would give a third of the groups at most."""
    shares = mixed(40)
    curriculum, model = Curriculum([*shares], at_once=10), Model(fixed(shares))
    for now in range(60):
        model.round(curriculum, now)
    assert sum(model.informative[20:]) / 40 > 0.7


def test_a_task_that_is_learned_makes_room_for_the_next() -> None:
    names = [f"task/{number}" for number in range(30)]
    practice: Counter[str] = Counter()

    def ability(task: str, now: int) -> float:
        return min(1.0, 0.3 + practice[task] / 20)  # it learns what it practises

    curriculum, model = Curriculum(names, at_once=6), Model(ability)
    for now in range(150):
        practice.update(model.round(curriculum, now))
    learned = [task for task, share in curriculum.dropped.items() if share >= LEARNED]
    assert len(learned) > 12 and len(curriculum.practised) <= 6
    assert all(LEAST <= share < LEARNED for share in curriculum.practised.values())


def test_a_dropped_task_comes_back_after_a_pause_that_doubles() -> None:
    shares = {"good/1": 0.4, "hard/1": 0.0}
    curriculum, model = Curriculum([*shares], at_once=4), Model(fixed(shares))
    came = [now for now in range(150) if "hard/1" in model.round(curriculum, now)]
    assert came == [0, PAUSE, 3 * PAUSE, 7 * PAUSE]


def test_what_was_too_hard_is_practised_once_the_model_is_able() -> None:
    def ability(task: str, now: int) -> float:
        return 0.4 if task == "good/1" or now >= 15 else 0.0

    curriculum, model = Curriculum(["good/1", "later/1"], at_once=4), Model(ability)
    for now in range(PAUSE + 1):
        model.round(curriculum, now)
    assert set(curriculum.practised) == {"good/1", "later/1"}


def test_what_was_learned_and_is_forgotten_is_practised_again() -> None:
    def ability(task: str, now: int) -> float:
        return 0.4 if task == "good/1" or now >= 15 else 1.0

    curriculum, model = Curriculum(["good/1", "known/1"], at_once=4), Model(ability)
    for now in range(PAUSE + 1):
        model.round(curriculum, now)
    assert set(curriculum.practised) == {"good/1", "known/1"}


def test_a_task_that_the_probe_flattered_is_dropped_when_it_is_refined() -> None:
    """One right answer in the first two questions, none afterwards."""
    curriculum = Curriculum(["lucky/1"], at_once=4)
    curriculum.learn(0, ["lucky/1"] * 2, [("lucky/1", [1.0] + [0.0] * 7), ("lucky/1", [0.0] * 8)])
    assert "lucky/1" in curriculum.practised
    for now in range(1, 30):
        curriculum.learn(now, ["lucky/1"], [("lucky/1", [0.0] * 8)])
        if curriculum.dropped:
            break
    assert "lucky/1" in curriculum.dropped and now < 8


def test_a_task_half_of_whose_questions_are_always_right_teaches_nothing_and_is_dropped() -> None:
    """Its share of right answers alone, one half, would keep it for ever."""
    curriculum = Curriculum(["split/1"], at_once=4)
    curriculum.learn(0, ["split/1"] * 2, [("split/1", [1.0] * 8), ("split/1", [0.0] * 8)])
    assert curriculum.dropped == {"split/1": pytest.approx(0.47, abs=0.01)}


def test_questions_go_to_tasks_by_the_variance_within_their_groups() -> None:
    curriculum = Curriculum(["even/1", "rare/1"], at_once=4)
    for now in range(20):
        groups = [("even/1", [1.0, 0.0] * 4), ("rare/1", [1.0] + [0.0] * 7)]
        curriculum.learn(now, ["even/1", "rare/1"], groups)
    asked = Counter(
        task for now in range(20, 60) for task in curriculum.ask(now, QUESTIONS, Random(now))
    )
    # By p(1-p): 0.25 to 0.11
    assert 1.7 < asked["even/1"] / asked["rare/1"] < 2.7


def test_where_no_task_lies_in_the_band_the_easiest_are_asked() -> None:
    names = [f"hard/{number}" for number in range(8)]
    curriculum = Curriculum(names, at_once=4)
    lucky = [0.1] + [0.0] * 7  # partial credit, on average below the band
    for now in range(2):
        own = names[4 * now : 4 * now + 4]
        groups = [
            (task, lucky if task == "hard/6" else [0.0] * GROUP) for task in own for _ in range(2)
        ]
        curriculum.learn(now, own, groups)
    assert curriculum.is_stuck and not curriculum.practised
    assert curriculum.easiest[0] == "hard/6" and len(curriculum.easiest) == EASIEST
    asked = curriculum.ask(2, QUESTIONS, Random(0))
    assert len(asked) == QUESTIONS and set(asked) <= set(curriculum.easiest)


def test_the_easiest_are_practised_as_soon_as_an_answer_is_right() -> None:
    names = [f"hard/{number}" for number in range(4)]
    curriculum = Curriculum(names, at_once=4)
    curriculum.learn(0, names, [(task, [0.0] * 8) for task in names for _ in range(2)])
    curriculum.learn(1, names, [("hard/2", [1.0] + [0.0] * 7)] * 2)
    assert [*curriculum.practised] == ["hard/2"] and not curriculum.is_stuck


def test_a_task_whose_questions_cannot_be_asked_does_not_hold_up_the_others() -> None:
    curriculum = Curriculum(["mute/1", "good/1"], at_once=1)
    asked = curriculum.ask(0, QUESTIONS, Random(0))
    assert set(asked) == {"mute/1"}
    curriculum.learn(0, asked, [])
    assert set(curriculum.ask(1, QUESTIONS, Random(0))) == {"good/1"}


def test_a_round_of_which_nothing_is_left_drops_no_task_that_is_practised() -> None:
    curriculum, names = Curriculum(["good/1", "fair/1"], at_once=4), ["good/1", "fair/1"]
    curriculum.learn(0, names * 2, [(task, [1.0, 0.0] * 4) for task in names * 2])
    before = curriculum.practised
    assert [*before] == names
    curriculum.learn(1, names, [])
    assert curriculum.practised == before
    curriculum.learn(2, names, [("good/1", [1.0, 0.0] * 4)])
    assert [*curriculum.practised] == ["good/1"], "one of which nothing is left while others are"


def test_every_round_has_as_many_questions_as_it_should() -> None:
    shares = mixed(9)
    for count in (1, 2, 3, 8, 64):
        curriculum, rng = Curriculum([*shares], at_once=4), Random(count)
        for now in range(60):
            asked = curriculum.ask(now, count, rng)
            assert len(asked) == count and set(asked) <= set(shares)
            groups = [
                (task, [float(rng.random() < shares[task]) for _ in range(4)]) for task in asked
            ]
            curriculum.learn(now, asked, groups)


def test_a_round_that_is_done_again_after_a_resume_counts_once() -> None:
    curriculum = Curriculum(["a/1"], at_once=1)
    groups = [("a/1", [1.0, 0.0])] * 2
    curriculum.learn(0, ["a/1"], groups)
    before = curriculum.state
    curriculum.learn(0, ["a/1"], groups)
    assert curriculum.state == before


def test_it_goes_on_from_a_checkpoint_as_if_it_had_never_stopped() -> None:
    shares = mixed(20)
    whole, model = Curriculum([*shares], at_once=5), Model(fixed(shares))
    for now in range(30):
        model.round(whole, now)
    text = json.dumps(whole.state.model_dump())
    again = Curriculum([*shares], 5, CurriculumState.model_validate(json.loads(text)))
    one, other = Model(fixed(shares), seed=1), Model(fixed(shares), seed=1)
    for now in range(30, 60):
        assert one.round(whole, now) == other.round(again, now)
    assert whole.state == again.state


def test_tasks_that_are_no_candidates_any_more_are_forgotten_and_new_ones_unasked() -> None:
    kept = CurriculumState(tasks={"gone/1": TaskState(), "kept/1": TaskState(stage="practised")})
    curriculum = Curriculum(["kept/1", "new/1"], 4, kept)
    assert [*curriculum.practised] == ["kept/1"] and curriculum.unasked == ["new/1"]
    assert curriculum.candidates == {"kept/1", "new/1"}


@pytest.mark.parametrize(
    "hostile",
    [
        {"version": 2},
        {"rounds": -1},
        {"rounds": 1e300},
        {"tasks": []},
        {"more": 1},
        {"tasks": {"a/1": {"stage": "rm -rf"}}},
        {"tasks": {"a/1": {"right": float("nan")}}},
        {"tasks": {"a/1": {"right": 2.0, "completions": 1.0}}},
        {"tasks": {"a/1": {"spread": 1e300}}},
        {"tasks": {"a/1": {"drops": 2**80}}},
        {"tasks": {"a/1": {"code": "x"}}},
        {"tasks": {f"a/{number}": {} for number in range(5000)}},
    ],
)
def test_a_state_that_no_node_writes_is_refused(hostile: object) -> None:
    with pytest.raises(ValidationError):
        CurriculumState.model_validate(hostile)


def test_people_read_what_is_practised_and_what_is_left() -> None:
    shares = {"a/1": 0.25, "b/1": 0.5}
    assert summary(shares, {"c/1": 0.95, "d/1": 0.0}, 3) == (
        "2 practised, 1 learned, 1 too hard, 3 not tried yet; recently right: a/1 25%, b/1 50%"
    )
    assert summary({}, {}, 3) == "0 practised, 3 not tried yet"
