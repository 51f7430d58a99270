"""Minutes to a level, beside TRL: the measure by hand, the reward that TRL pays, and both sides for
two updates.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lab.benchmarks import levels, minutes, minutes_sides
from lab.benchmarks.minutes_sides import OURS, TRL, Course, Spent, Task, Work
from protocol.messages import Episode, PeerId, Round
from swarm_node import starters
from swarm_node.environments.registry import build_environment
from swarm_node.environments.scored import Mixture
from swarm_node.node.round import score_groups
from swarm_node.rollouts.groups import Group
from tests import preloaded

WORK = Work("rare", ("swap/few",), most_seconds=50.0, most_updates=9)


def run_of(rewards: list[float], per_update: float) -> dict[str, object]:
    """A run with an evaluation every second update."""
    points = [
        {
            "updates": 2 * number,
            "tokens": 20 * number,
            "cpu": 2 * number * per_update,
            "wall": 4 * number * per_update,
            "reward": reward,
        }
        for number, reward in enumerate(rewards, 1)
    ]
    start, phases = {"cpu": 5.0, "wall": 9.0}, {"train": per_update}
    return {"points": points, "start": start, "phases": phases, "peak_mebibytes": 100.0}


def test_a_course_begins_with_the_untrained_model_before_anything_is_spent() -> None:
    run = run_of([0.25, 0.5], per_update=10.0)
    assert minutes.course(run, "cpu", 0.125) == ([0.0, 20.0, 40.0], [0.125, 0.25, 0.5])
    # A rise of 0.25 is half of the way from the first evaluation to the second
    assert minutes.time_of(run, "cpu", 0.125, 0.25) == 30.0
    assert minutes.time_of(run, "tokens", 0.125, 0.25) == 30.0
    assert minutes.time_of(run, "wall", 0.125, 0.0625) == 20.0
    assert minutes.time_of(run, "cpu", 0.125, 0.5) is None


def test_the_ratio_is_exact_where_every_run_reached_the_level() -> None:
    runs = {
        OURS: [run_of([0.25], 1.0), run_of([0.5], 2.0)],  # 2 s, and half of 4 s
        TRL: [run_of([0.0, 0.25], 5.0), run_of([0.25], 5.0)],  # 20 s and 10 s
    }
    figures = minutes.compared(runs, "cpu", 0.0, 0.25)
    assert figures["means"] == {OURS: 2.0, TRL: 15.0}
    assert (figures["ratio"], figures["bound"]) == (7.5, "exact")
    assert figures["reached"] == {OURS: 2, TRL: 2}


@pytest.mark.parametrize(
    ("ours", "theirs", "ratio", "bound"),
    [
        # TRL was followed for 20 s and did not reach it, ours needed 2
        (([0.25], 1.0), ([0.0, 0.125], 5.0), 10.0, "at least"),
        # Ours was followed for 40 s and did not reach it, TRL needed 10
        (([0.0, 0.125], 10.0), ([0.25], 5.0), 0.25, "at most"),
        # Ours was followed for 4 s, and TRL needed longer than that
        (([0.0, 0.125], 1.0), ([0.25], 5.0), 1.0, "unknown"),
        (([0.0, 0.125], 1.0), ([0.0, 0.125], 5.0), 1.0, "unknown"),
    ],
)
def test_the_ratio_says_on_which_side_of_it_the_truth_lies_where_a_run_was_cut_off(
    ours: tuple[list[float], float],
    theirs: tuple[list[float], float],
    ratio: float,
    bound: str,
) -> None:
    runs = {OURS: [run_of(*ours)], TRL: [run_of(*theirs)]}
    figures = minutes.compared(runs, "cpu", 0.0, 0.25)
    assert (figures["ratio"], figures["bound"]) == (ratio, bound)


def test_times_are_restricted_to_what_is_known_of_every_run() -> None:
    times = [3.0, None, 12.0]
    assert levels.known_until(times, [3.0, 8.0, 12.0]) == 8.0
    assert levels.restricted(times, 8.0) == [3.0, 8.0, 8.0]
    assert levels.reached(times, 8.0) == 1
    assert levels.known_until([3.0, 12.0], [3.0, 12.0]) == float("inf")


def test_the_best_rate_is_that_of_the_first_to_reach_the_level_else_of_the_highest_reward() -> None:
    slow, fast = run_of([0.0, 0.25], 1.0), run_of([0.25], 1.0)
    near, far = run_of([0.0, 0.125], 1.0), run_of([0.0, 0.0625], 1.0)
    assert minutes.best_of({1e-4: slow, 2e-4: fast, 4e-4: near}, "cpu", 0.0, 0.25) == 2e-4
    assert minutes.best_of({1e-4: far, 2e-4: near}, "cpu", 0.0, 0.25) == 2e-4
    assert minutes.edge(2e-4, [1e-4, 2e-4, 4e-4]) == ""
    assert minutes.edge(4e-4, [1e-4, 2e-4, 4e-4]) == "highest"
    assert minutes.edge(1e-4, [1e-4]) == "only one"


class Clock:
    """Seconds of the clock that pass twice as fast as those of the CPU."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> Spent:
        return Spent(2 * self.seconds, self.seconds)


def test_neither_the_start_nor_an_evaluation_counts_as_time_of_training() -> None:
    clock, rewards = Clock(), iter([0.25, 0.375])

    def evaluate() -> float:
        clock.seconds += 100.0
        return next(rewards)

    course = Course(Task(OURS, 1e-4, 0, WORK, base=0.125), evaluate, clock)
    clock.seconds += 7.0
    course.begin()
    ends = []
    for _ in range(4):
        clock.seconds += 3.0
        ends.append(course.after_update(tokens=10))
    assert ends == [False, False, False, True]  # 0.375 is above 0.125 + 0.2
    figures = [(point["cpu"], point["wall"], point["tokens"]) for point in course.points]
    assert figures == [(6.0, 12.0, 20), (12.0, 24.0, 40)]
    assert course.points[-1]["updates"] == 4


def test_a_run_ends_and_is_evaluated_once_more_at_its_limits() -> None:
    clock = Clock()
    course = Course(Task(TRL, 1e-4, 0, WORK), lambda: 0.0, clock)
    course.begin()
    clock.seconds += 49.0
    assert not course.after_update(1)
    clock.seconds += 1.0
    assert course.after_update(1)  # 50 s of CPU time are spent
    course = Course(Task(TRL, 1e-4, 0, WORK), lambda: 0.0, clock)
    course.begin()
    assert [course.after_update(1) for _ in range(9)] == [False] * 8 + [True]
    assert [point["updates"] for point in course.points] == [2, 4, 6, 8, 9]


def test_a_run_ends_with_the_command_that_was_to_keep_it() -> None:
    course = Course(Task(OURS, 1e-4, 0, WORK), lambda: 0.0, Clock(), abandoned=lambda: True)
    course.begin()
    with pytest.raises(SystemExit):
        course.after_update(1)


@pytest.fixture(scope="module")
def environment() -> Iterator[Mixture]:
    made = build_environment(minutes_sides.config_of(Task(OURS, 1e-4, 0, WORK), "unused"))
    yield made
    made.close()


def test_trl_is_paid_what_a_round_of_this_node_is_paid(environment: Mixture) -> None:
    task = Task(TRL, 1e-4, 3, replace(WORK, prompts=2, group=3, most_updates=2))
    questions = environment.sample(minutes_sides.author(task), Round(1), 2)
    answers = []
    for prompt in environment.prompts(questions):
        assert isinstance(prompt, str)
        one, other = prompt.rpartition("swap ")[2].removesuffix(":").split()
        answers.append(f" {other} {one}")
    # As TRL decodes them: with the line break that ended them, and what else came in one token
    written = [answers[0] + "\n", answers[0], " no\n", answers[0], answers[1] + "\n\n", " x"]
    addresses = [question for question in questions for _ in range(3)]
    paid = minutes_sides.paid(environment, addresses, written, 3)
    groups = [
        Group.written(
            PeerId("me"), Round(1), question, [Episode.of(text=text, ended=True) for text in texts]
        )
        for question, texts in zip(
            questions,
            ([answers[0], answers[0], " no"], [answers[0], answers[1], " x"]),
            strict=True,
        )
    ]
    ours: list[float] = []
    for scored in score_groups(environment, groups):
        assert isinstance(scored, Group)
        ours += scored.rewards
    assert paid == ours == [1.0, 1.0, 0.0, 0.0, 1.0, 0.0]


def test_trl_is_asked_what_our_rounds_ask_in_their_order(environment: Mixture) -> None:
    task = Task(TRL, 1e-4, 3, replace(WORK, prompts=2, most_updates=3))
    rows = minutes_sides.rows_of(task, environment)
    asked = [
        question.model_dump_json()
        for number in range(3)
        for question in environment.sample(minutes_sides.author(task), Round(number), 2)
    ]
    assert [row["address"] for row in rows] == asked
    assert len({row["prompt"] for row in rows}) > 1


def test_both_sides_make_the_same_amount_of_text_in_an_update_at_one_temperature() -> None:
    task = Task(TRL, 3e-4, 5, replace(WORK, prompts=3, group=5, new_tokens=7))
    config, fields = minutes_sides.config_of(task, "unused"), minutes_sides.recipe(task)
    assert fields["per_device_train_batch_size"] == 15
    assert (config.round.questions, config.round.local_groups) == (3, 3)
    assert config.generation.num_generations == fields["num_generations"] == 5
    assert config.generation.max_completion_length == fields["max_completion_length"] == 7
    assert config.training.learning_rate == fields["learning_rate"] == 3e-4
    assert config.seed == fields["seed"] == 5
    # TRL's defaults, which its recipe leaves as they are
    assert (config.generation.temperature, config.training.beta) == (1.0, 0.0)
    assert config.training.max_grad_norm == 1.0


class Vocabulary:
    """What `ends_of` reads of a tokenizer."""

    eos_token_id = 2

    def get_vocab(self) -> dict[str, int]:
        return {"a": 0, "Ċ": 1, "<end>": 2, "ĊĊ": 3, ":\n": 4, "n": 5}


def test_trl_ends_a_completion_at_each_token_with_a_line_break_and_at_the_end_of_text() -> None:
    assert minutes_sides.ends_of(Vocabulary()) == [1, 2, 3, 4]


def test_what_is_done_is_not_done_again_and_other_sizes_are_refused(tmp_path: Path) -> None:
    kept = {"work": json.loads(json.dumps(minutes.asdict(WORK))), "reward": 0.5}
    (tmp_path / "base.json").write_text(json.dumps(kept))
    task = Task(minutes.BASE, 0.0, 0, WORK)
    runs = minutes.Runs(tmp_path, WORK, [0])
    assert runs.run(task) == kept
    assert runs.run(Task(OURS, 1e-4, 0, WORK)) is None  # missing, and none may be made
    with pytest.raises(SystemExit, match="other sizes"):
        minutes.Runs(tmp_path, replace(WORK, group=4), [0]).run(task)


@pytest.mark.slow
@pytest.mark.skipif(not starters.folder("dense").is_dir(), reason="the starters are missing")
def test_both_sides_make_two_updates_and_the_second_call_makes_none(tmp_path: Path) -> None:
    pytest.importorskip("trl")
    pytest.importorskip("reasoning_gym")
    command = [*preloaded.python(), "-m", "lab.benchmarks.minutes", "--quick", "--json"]
    command += ["--runs", str(tmp_path)]
    done = subprocess.run(command, text=True, capture_output=True, timeout=800, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["benchmark"] == "minutes" and result["ratio"] > 0 and result["axis"] == "cpu"
    for side in (OURS, TRL):
        figures = result["sides"][side]
        assert figures["last"][0]["updates"] in (1, 2) and figures["last"][0]["tokens"] >= 8
        assert figures["start_cpu"] > 0 and figures["peak_mebibytes"] > 100
        # More than what it takes to find that no group is informative
        assert figures["cpu_seconds_of_an_update"]["train"] > 0.005
    assert result["settings"]["model"] == "dense"
    again = [sys.executable, *command[-6:], "--at-most", "0"]
    second = subprocess.run(again, text=True, capture_output=True, timeout=300, check=False)
    assert json.loads(second.stdout.splitlines()[-1]) == result, second.stderr
