"""What was learned, task by task."""

from random import Random

from protocol.messages import PeerId, Round
from swarm_node.rollouts.groups import Generated, Group, Selection
from swarm_node.telemetry.events import Corrected, RoundDone, Trained, Validated
from swarm_node.telemetry.learning import Learning
from tests import groups
from tests.groups import scored

ME, ALICE, BOB = PeerId("me"), PeerId("12D3KooWAlice"), PeerId("12D3KooWBob")


def group(author: PeerId, dataset: str, rewards: tuple[float, ...] = (0.0, 1.0)) -> Group:
    return scored(groups.group(author, dataset=dataset, config_id="few"), "prompt", rewards)


def trained(local: list[Group], external: list[Group]) -> Trained:
    return Trained(
        Selection(Generated(Round(0), local, {}, {}), local, external, [], {}, {}, Random(0))
    )


def validated(now: dict[str, float], *corrected: str) -> Validated:
    before = dict.fromkeys(now, 0.25)
    each = tuple(Corrected(task, "question", "wrong", "right") for task in corrected)
    return Validated(10, 0.5, 8, False, now, before, each)


def test_without_held_out_questions_the_first_round_stands_beside_the_last_twenty(
    round_report,
) -> None:
    learning = Learning()
    for number in range(41):
        learning.take(RoundDone(round_report(number, reward_by_task={"a/few": number / 40})))
    ((task, known),) = learning.tasks.items()
    assert task == "a/few" and known.span == (0.0, sum(range(21, 41)) / 20 / 40)
    assert not learning.held_out and learning.example is None


def test_held_out_questions_take_the_place_of_rewards_in_training(round_report) -> None:
    learning = Learning()
    learning.take(RoundDone(round_report(0, reward_by_task={"a/few": 0.1, "b/few": 0.1})))
    learning.take(validated({"a/few": 0.75}))
    assert {task: known.span for task, known in learning.tasks.items()} == {"a/few": (0.25, 0.75)}


def test_the_share_of_others_is_that_of_informative_groups() -> None:
    learning = Learning()
    learning.take(validated({"a/few": 0.75, "b/few": 0.5}))
    alike = group(ME, "a", (1.0, 1.0))
    learning.take(trained([group(ME, "a"), alike], [group(ALICE, "a"), group(BOB, "a")]))
    shares = {task: known.from_others for task, known in learning.tasks.items()}
    assert shares == {"a/few": 2 / 3, "b/few": None}
    assert (learning.groups_of_its_own, learning.groups_of_others) == (1, 2)


def test_a_task_that_only_others_had_is_shown_first_with_who_taught_it() -> None:
    learning = Learning()
    learning.take(
        trained(
            [group(ME, "a"), group(ME, "b", (0.0, 0.0))], [group(ALICE, "b"), group(ALICE, "b")]
        )
    )
    learning.take(trained([], [group(BOB, "b"), group(BOB, "a")]))
    learning.take(validated({"a/few": 1.0, "b/few": 0.5}, "a/few", "b/few"))
    corrected, teacher = learning.example
    assert (corrected.task, teacher) == ("b/few", ALICE)
    learning.take(validated({"a/few": 1.0, "b/few": 0.5}, "a/few"))
    corrected, teacher = learning.example
    assert (corrected.task, teacher) == ("a/few", "")
