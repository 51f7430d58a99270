"""The environment as a node uses it."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
import reasoning_gym as library

from protocol.addressing import is_held_out_text
from protocol.limits import MAX_SEED
from protocol.messages import PeerId, Question, Round
from swarm_node.common.errors import UserError
from swarm_node.environments.kinds import UnknownTaskError, find, held_out
from swarm_node.environments.reasoning_gym import installed, source, starter
from swarm_node.environments.reasoning_gym.catalogue import CATALOGUE, STARTER_TASKS
from swarm_node.environments.reasoning_gym.drawing import NoQuestion
from swarm_node.environments.reasoning_gym.environment import KIND, ReasoningGym
from swarm_node.environments.reasoning_gym.second_try_environment import KIND as SECOND_TRY
from swarm_node.rollouts.groups import Skipped
from swarm_node.settings import NodeConfig
from tests.commands import python

UNKEYED = {"graph_color", "propositional_logic"}  # any solution is right

ALICE, BOB = PeerId("12D3KooWAlice"), PeerId("12D3KooWBob")


@pytest.fixture(scope="module")
def gym() -> Iterator[ReasoningGym]:
    environment = ReasoningGym()
    yield environment
    environment.close()


def key_of(question: Question) -> str:
    return KIND.answer(question)


def tasks_of(questions: list[Question]) -> list[str]:
    return [f"{question.dataset}/{question.config_id}" for question in questions]


def test_a_round_is_a_pure_function_of_author_round_and_count(gym: ReasoningGym) -> None:
    assert gym.sample(ALICE, Round(4), 9) == ReasoningGym().sample(ALICE, Round(4), 9)
    assert gym.sample(ALICE, Round(4), 9) != gym.sample(ALICE, Round(5), 9)
    assert gym.sample(ALICE, Round(4), 9) != gym.sample(BOB, Round(4), 9)


def test_question_k_is_of_task_k_in_turn(gym: ReasoningGym) -> None:
    assert tasks_of(gym.sample(ALICE, Round(7), 18)) == [*STARTER_TASKS, *STARTER_TASKS]
    assert [question.index for question in gym.sample(ALICE, Round(7), 18)] == list(range(18))


def test_fewer_questions_than_tasks_are_distinct_tasks_that_rotate(gym: ReasoningGym) -> None:
    rounds = [tasks_of(gym.sample(ALICE, Round(now), 3)) for now in range(3)]
    assert sorted(task for tasks in rounds for task in tasks) == sorted(STARTER_TASKS)
    ragged = [task for now in range(9) for task in tasks_of(gym.sample(BOB, Round(now), 11))]
    assert all(ragged.count(task) == 11 for task in STARTER_TASKS)


def test_a_round_has_a_bound_and_may_be_empty(gym: ReasoningGym) -> None:
    assert not gym.sample(ALICE, Round(0), 0) and not gym.prompts([]) and not gym.score([])
    assert len(gym.sample(ALICE, Round(0), 256)) == 256
    with pytest.raises(ValueError, match="at most 256"):
        gym.sample(ALICE, Round(0), 257)


@pytest.mark.slow
def test_right_answers_are_rewarded_and_wrong_ones_not(gym: ReasoningGym) -> None:
    questions = gym.sample(ALICE, Round(1), 18)
    answers = [
        (q, [k := key_of(q), f" {k}\n", f"so <answer>{k}</answer>", f"{k}1"]) for q in questions
    ]
    for question, rewards in zip(questions, gym.score(answers), strict=True):
        assert rewards == (1.0, 1.0, 0.0, 0.0), question


@pytest.mark.slow
def test_prompts_are_the_librarys(gym: ReasoningGym) -> None:
    def librarys(question: Question) -> str:
        config = CATALOGUE[question.dataset][question.config_id]
        data = library.create_dataset(question.dataset, seed=question.seed, size=256, **config)
        return str(data[question.index]["question"])

    questions = gym.sample(ALICE, Round(1), 36)
    expected = [librarys(question) for question in questions]
    drawn_again = [
        one != other for one, other in zip(gym.prompts(questions), expected, strict=True)
    ]
    assert (
        drawn_again == [is_held_out_text(prompt) for prompt in expected]
        and 0 < sum(drawn_again) < 36
    )


@pytest.mark.slow
@pytest.mark.parametrize("task", STARTER_TASKS)
def test_the_starters_tasks_are_the_same_without_the_library(task: str) -> None:
    """Questions, answers and what scorers know, at addresses that some were drawn twice for."""
    dataset, config_id = task.split("/")
    addresses = Random(task)
    for _ in range(400):
        place = (dataset, config_id, addresses.randint(0, MAX_SEED), addresses.randrange(256))
        made = [_found(build, place) for build in (source.build, starter.build)]
        assert made[0] == made[1], place


def _found(build: Callable[..., Any], place: tuple[object, ...]) -> object:
    try:
        item = build(*place)
    except NoQuestion:
        return None
    return item.prompt, item.answer, item.portable, item.score("1/2"), item.score(item.answer)


def test_without_the_library_a_node_makes_the_starters_tasks_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gym = ReasoningGym()
    with_it = gym.prompts(gym.sample(ALICE, Round(3), 18))
    digests = [gym.digest(task) for task in gym.tasks]
    gym.close()
    monkeypatch.setattr(installed, "find_spec", lambda name: None)
    without = ReasoningGym()
    assert without.prompts(without.sample(ALICE, Round(3), 18)) == with_it
    assert [without.digest(task) for task in without.tasks] == digests
    asked = without.sample(ALICE, Round(3), 1)[0]
    assert without.catalogue.knows(asked)
    assert not without.catalogue.knows(asked.model_copy(update={"config_id": "easy"}))
    assert without.score([(asked, [key_of(asked)])]) == [(1.0,)]
    without.close()
    for task in ("zebra_puzzles/easy", "gcd/easy"):
        with pytest.raises(UserError) as caught:
            ReasoningGym([STARTER_TASKS[0], task])
        line = str(caught.value)
        assert f"task {task} needs reasoning-gym" in line and "textswarm[gym]" in line
        assert "\n" not in line
    with pytest.raises(UserError, match="needs reasoning-gym"):
        SECOND_TRY.start(["second_try.gcd/easy"], NodeConfig())
    with pytest.raises(UserError, match="needs reasoning-gym"):
        key_of(asked.model_copy(update={"dataset": "bf", "config_id": "paper"}))


@pytest.mark.slow
def test_exact_rewards_no_part_of_an_answer(gym: ReasoningGym) -> None:
    graded = ReasoningGym(scoring="graded")
    question = next(q for q in gym.sample(ALICE, Round(2), 9) if q.dataset == "count_bits")
    quoted = f'"{key_of(question)}"'
    (in_part,), (nothing,) = graded.score([(question, [quoted])]), gym.score([(question, [quoted])])
    assert nothing == (0.0,)
    assert isinstance(in_part, tuple) and 0.0 < in_part[0] < 1.0
    graded.close()


def test_what_this_node_cannot_rebuild_is_skipped_and_all_else_scored_whatever_it_asks(
    gym: ReasoningGym,
) -> None:
    assert gym.catalogue.knows(ReasoningGym(["bf/paper"]).sample(ALICE, Round(0), 1)[0])
    good = gym.sample(ALICE, Round(0), 1)[0]
    others = [
        good.model_copy(update=change)
        for change in (
            {"environment": "other"},
            {"version": "0.1.24"},
            {"dataset": "codeio"},
            {"config_id": "huge"},
        )
    ]
    assert gym.catalogue.knows(good) and not any(map(gym.catalogue.knows, others))
    unknown = Skipped("unknown question")
    assert gym.prompts(others) == [unknown] * 4
    assert gym.score([(question, ["1"]) for question in others]) == [unknown] * 4
    assert gym.score([(others[0], ["1"]), (good, [key_of(good)])]) == [unknown, (1.0,)]


def test_the_same_group_is_scored_once(gym: ReasoningGym) -> None:
    group = (gym.sample(BOB, Round(9), 1)[0], ["1", "2"])
    once = gym.score([group, group])
    pid = gym.scoring.pid
    gym.close()
    assert gym.score([group]) == once[:1] == once[1:]
    assert pid is not None and gym.scoring.pid is None, (
        "the second time no scoring process was needed"
    )


def test_held_out_questions_are_of_an_author_that_no_key_makes(gym: ReasoningGym) -> None:
    questions = held_out(gym, 630)
    assert len(set(questions)) == 630 and questions == held_out(gym, 630)
    assert all(tasks_of(questions).count(task) == 70 for task in STARTER_TASKS)
    seeds = {question.seed for question in questions}
    trained = {
        gym.sample(PeerId(f"12D3KooW{p}"), Round(r), 1)[0].seed
        for p in range(20)
        for r in range(200)
    }
    assert not seeds & trained


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("chain_sums/tiny", "did you mean 'chain_sum/tiny'"), ("chain_sum/tinny", (
            "chain_sum has tiny"
        )),
        ("chain_sum", "chain_sum has tiny"), ("intermediate_integration/easy", (
            "its scorer executes the answer"
        )),
        ("???", "names are dataset/config_id"), ("", "names are dataset/config_id"),
    ],
)  # fmt: skip
def test_an_unknown_task_is_one_line_with_a_suggestion(name: str, message: str) -> None:
    with pytest.raises(UnknownTaskError) as caught:
        find(name, [KIND])
    assert message in str(caught.value) and "\n" not in str(caught.value)


SCRIPTS = (  # honest completions in many scripts: right, wrong, or beside the point
    "答案是 42", "答えは４２です", "답은 42", "الجواب ٤٢", "התשובה היא 42", "Ответ: 42",
    "Η απάντηση είναι 42",
    "उत्तर ४२ है", "คำตอบคือ ๔๒", "উত্তর ৪২", "პასუხი 42", "la réponse est « 42 »", "𝟒𝟐", "x² − ½",
    "é",
)  # fmt: skip


@pytest.mark.slow
def test_completions_in_any_script_lose_no_group() -> None:
    """In seven data sets scorers raised: Python's parser imports unicodedata, which the sandbox had
    forbidden.
    """
    environment = ReasoningGym(
        [f"{name}/{next(iter(levels))}" for name, levels in CATALOGUE.items()]
    )
    asked = []
    for question in environment.sample(ALICE, Round(3), len(CATALOGUE)):
        key = question.dataset not in UNKEYED and key_of(question).translate(
            str.maketrans("0123456789", "०१२३४५६७८९")
        )
        asked += [
            (question, [*SCRIPTS, str(key)]),
            (question, [f"<answer>{text}</answer>" for text in SCRIPTS]),
        ]
    skipped = {
        question.dataset: rewards.reason
        for (question, _), rewards in zip(asked, environment.score(asked), strict=True)
        if isinstance(rewards, Skipped)
        and not rewards.reason.startswith(("slow question", "question raised"))
    }
    environment.close()
    assert skipped == {}


@pytest.mark.slow
def test_the_library_is_not_imported_by_a_node() -> None:
    node = (
        "import sys\n"
        "from protocol.messages import PeerId, Round\n"
        "from swarm_node.environments.reasoning_gym.environment import ReasoningGym\n"
        "gym = ReasoningGym()\n"
        "question = gym.sample(PeerId('a'), Round(0), 1)[0]\n"
        "assert isinstance(gym.prompts([question])[0], str)\n"
        "assert not {'reasoning_gym', 'torch', 'sympy'} & set(sys.modules)\ngym.close()\n"
    )
    assert python("-c", node).returncode == 0


def test_held_out_questions_are_apart_by_text_where_a_task_has_few() -> None:
    environment = ReasoningGym(["fraction_simplification/tiny", "count_bits/tiny", "gcd/easy"])
    asked = [q for now in range(4) for q in environment.sample(PeerId("somebody"), Round(now), 60)]
    trained, exam = (
        environment.prompts(questions) for questions in (asked, held_out(environment, 60))
    )
    environment.close()
    assert all(isinstance(prompt, str) for prompt in [*trained, *exam])
    assert len(set(trained)) > 30 and len(set(exam)) > 20 and not set(trained) & set(exam)
