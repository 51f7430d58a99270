"""A node that chooses its tasks: what it tells, and when it measures them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from protocol.messages import PeerId, Question, Round
from swarm_node.environments.scored import Mixture
from swarm_node.node.build import choosing
from swarm_node.node.evaluation import Measured, Validation
from swarm_node.node.practice import EVERY, Practice
from swarm_node.rollouts.curriculum import CurriculumState
from swarm_node.rollouts.groups import Generated, Group, Selection, Tokens
from swarm_node.settings import NodeConfig
from swarm_node.telemetry.events import Chosen, Event, Notice, Telemetry
from tests import groups
from tests.core.telemetry.test_observers import Recorder
from tests.models import make_node

ME, PEER = PeerId("12D3KooWMe"), PeerId("12D3KooWPeer")
TASKS = ("gcd/easy", "lcm/easy", "chain_sum/easy")
MIXED, WRONG, RIGHT = (1.0, 0.0), (0.0, 0.0), (1.0, 1.0)


def config(home: Path, **options: object) -> NodeConfig:
    chosen = {"tasks": TASKS, "choose": True, "at_once": 3, **options}
    return NodeConfig.model_validate(
        {"home": home, "environment": chosen, "validation": {"every": 5, "questions": 6}}
    )


def group(task: str, rewards: Sequence[float], author: PeerId = ME, index: int = 0) -> Group:
    dataset, config_id = task.split("/")
    message = groups.group(author, index=index, dataset=dataset, config_id=config_id)
    own = [Tokens((1,), (0.0,))] * 2 if author == ME else None
    return groups.scored(message, "?", rewards, own)


def selection(now: int, local: Sequence[Group], external: Sequence[Group] = ()) -> Selection:
    generated = Generated(Round(now), list(local), {}, {})
    return Selection(generated, list(local), list(external), [], {}, {})


class Told:
    """A node's curriculum, and all that was told of it."""

    def __init__(self, home: Path, **options: object) -> None:
        self.events: list[Event] = []
        self.notes: dict[str, Any] = {}
        telemetry = Telemetry([Recorder(self.events)])
        self.practice = Practice(
            config(home, **options), ME, CurriculumState(), telemetry, self.notes.__setitem__
        )

    def round(self, now: int, rewards: dict[str, Sequence[float]]) -> None:
        asked = self.practice.tasks(Round(now), 6)
        local = [group(task, rewards[task], index=index) for index, task in enumerate(asked)]
        self.practice.learn(selection(now, local))

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def test_views_and_status_are_told_what_is_practised_with_its_share_of_right_answers(
    tmp_path: Path,
) -> None:
    told = Told(tmp_path)
    assert told.notes["chosen"] == {"practised": {}, "dropped": {}, "unasked": 3}
    told.round(0, {"gcd/easy": MIXED, "lcm/easy": WRONG, "chain_sum/easy": RIGHT})
    practised, dropped = {"gcd/easy": 0.5}, {"lcm/easy": 0.0, "chain_sum/easy": 1.0}
    assert told.events == [Chosen(1, practised, dropped, 0)]
    assert told.notes["chosen"] == {"practised": practised, "dropped": dropped, "unasked": 0}


def test_it_is_told_again_when_the_list_changes_and_every_few_rounds(tmp_path: Path) -> None:
    told = Told(tmp_path)
    for now in range(3 * EVERY):
        told.round(now, {"gcd/easy": MIXED, "lcm/easy": WRONG, "chain_sum/easy": RIGHT})
    assert [event.round for event in told.of(Chosen)] == [1, EVERY, 2 * EVERY, 3 * EVERY]


def test_the_user_is_told_once_where_no_task_lies_in_the_band(tmp_path: Path) -> None:
    told = Told(tmp_path)
    for now in range(4):
        told.round(now, dict.fromkeys(TASKS, WRONG))
    (notice,) = told.of(Notice)
    assert "of 3 tasks" in notice.text and "gcd/easy 0%" in notice.text
    assert "--environment.tasks" in notice.text and "\n" not in notice.text


def test_a_checkpoint_goes_on_with_the_same_tasks(tmp_path: Path) -> None:
    told = Told(tmp_path)
    told.round(0, {"gcd/easy": MIXED, "lcm/easy": WRONG, "chain_sum/easy": RIGHT})
    kept = told.practice.curriculum.state
    events: list[Event] = []
    telemetry = Telemetry([Recorder(events)])
    again = Practice(config(tmp_path), ME, kept, telemetry, lambda name, value: None)
    assert events == told.of(Chosen)  # views are told where it goes on
    assert list(again.tasks(Round(1), 6)) == list(told.practice.tasks(Round(1), 6))


class Held:
    """A stand-in for held-out questions: two of each task."""

    def __init__(self, tasks: Sequence[str] = TASKS) -> None:
        self.chooser, self._tasks = None, tasks

    def choose(self, rewards: object) -> tuple[str, ...]:
        return TASKS

    def held_out(self, of_each: int) -> list[Question]:
        return [
            groups.question(
                PEER, index=index, dataset=task.split("/")[0], config_id=task.split("/")[1]
            )
            for task in self._tasks
            for index in range(of_each)
        ]


class Asked(Validation):
    """A validation that writes down which tasks it asks about, in place of asking a model."""

    def __init__(
        self, settings: NodeConfig, measured: Measured, tasks: Sequence[str] = TASKS
    ) -> None:
        super().__init__(settings, Held(tasks), None, None, measured)  # type: ignore[arg-type]
        self.asked: list[tuple[str, ...]] = []

    def _take(
        self, asked: Sequence[Question], rewards: dict[str, list[float]], unasked: dict[str, str]
    ) -> list[Any]:
        tasks = [f"{question.dataset}/{question.config_id}" for question in asked]
        self.asked.append(tuple(dict.fromkeys(tasks)))
        for task in tasks:
            if task == "lcm/easy":
                unasked[task] = "too long"
            else:
                rewards.setdefault(task, []).append(0.5)
                self.measured.before.setdefault(task, 0.5)
                self.measured.now[task] = 0.5
        return []


def test_a_task_is_measured_before_the_first_training_on_it_and_never_before_that(
    tmp_path: Path,
) -> None:
    told, validation = Told(tmp_path), Asked(config(tmp_path), Measured())
    node = choosing(make_node(), Mixture({}), told.practice, validation)
    assert node.foresee is not None
    assert not validation.due(0) and not validation.asked
    node.foresee(selection(0, [group("gcd/easy", MIXED), group("chain_sum/easy", WRONG)]))
    assert validation.asked == [("gcd/easy",)]  # of the other nothing is learned
    node.foresee(selection(1, [group("gcd/easy", MIXED)]))
    assert len(validation.asked) == 1
    node.foresee(selection(2, [], [group("chain_sum/easy", MIXED, author=PEER)]))
    assert validation.asked[1:] == [("chain_sum/easy",)]


def test_what_is_validated_is_what_was_practised_also_when_it_is_dropped(tmp_path: Path) -> None:
    validation = Asked(config(tmp_path), Measured(before={"gcd/easy": 0.5}, now={"gcd/easy": 0.5}))
    assert validation.due(5)
    found = validation.measure(5)
    assert validation.asked == [("gcd/easy",)]
    assert [*found.by_task] == [*found.before] == ["gcd/easy"] and found.best


def test_a_task_whose_held_out_questions_cannot_be_asked_is_tried_once(tmp_path: Path) -> None:
    validation = Asked(config(tmp_path), Measured())
    validation.begin(["lcm/easy"])
    validation.begin(["lcm/easy"])
    assert validation.asked == [("lcm/easy",)] and not validation.due(5)


def test_questions_that_a_data_set_keeps_for_validation_are_asked_from_the_start(
    tmp_path: Path,
) -> None:
    validation = Asked(config(tmp_path), Measured(), [*TASKS, "dataset/held_out"])
    assert validation.due(0)
    validation.measure(0)
    assert validation.asked == [("dataset/held_out",)]


def test_without_validation_nothing_is_measured(tmp_path: Path) -> None:
    settings = config(tmp_path)
    off = settings.model_copy(
        update={"validation": settings.validation.model_copy(update={"every": 0})}
    )
    validation = Asked(off, Measured())
    validation.begin(["gcd/easy"])
    assert not validation.asked


@pytest.mark.parametrize("at_once", [0, 2])
def test_each_task_gets_its_share_of_the_held_out_questions(tmp_path: Path, at_once: int) -> None:
    validation = Asked(config(tmp_path, at_once=at_once), Measured(before={"gcd/easy": 0.5}))
    # Six questions for the tasks that are practised at a time
    assert len(validation._held_out()) == 3 * (6 // (at_once or 3))
