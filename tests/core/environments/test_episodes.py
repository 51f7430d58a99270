"""The episodes that ship, as they are played in scoring processes."""

import re
from contextlib import closing
from functools import partial

import pytest

from lab.fuzzing import beside
from protocol.addressing import (
    HELD_OUT,
    HELD_OUT_ROUNDS,
    fixed_seed,
    is_held_out_text,
    question_seed,
)
from protocol.messages import NAME_PATTERN, Call, PeerId, Round, Turn
from swarm_node.commands.task_try import conversation
from swarm_node.common.errors import UserError
from swarm_node.environments.episodes.calculator import DEEPEST, calculate
from swarm_node.environments.episodes.environment import KIND
from swarm_node.environments.episodes.source import begin
from swarm_node.environments.episodes.wordle import WORDS, Wordle, compared
from swarm_node.environments.reasoning_gym.catalogue import STARTER_TASKS
from swarm_node.environments.reasoning_gym.second_try_environment import KIND as SECOND_TRY
from swarm_node.environments.registry import tasks_of
from swarm_node.rollouts.groups import Played, Skipped
from swarm_node.scoring.playing import ToolError
from swarm_node.settings import EnvironmentConfig, LearningConfig

GRADED, SHOWN = (
    LearningConfig(environment=EnvironmentConfig(scoring="graded", shots=count)) for count in (0, 2)
)


def said(*texts: str) -> tuple[Turn, ...]:
    """A turn for each text. A text that begins with { becomes the arguments of a call of
    `calculate`.
    """
    return tuple(
        Turn(text="", calls=(Call(name="calculate", arguments=each),))
        if each[:1] == "{"
        else Turn(text=each, calls=())
        for each in texts
    )


def heard(played: Played | Skipped) -> tuple[list[str], bool, float]:
    assert isinstance(played, Played)
    return [text for turn in played.observations for text in turn], played.done, played.score


def test_who_names_no_environment_asks_the_tasks_of_starters_alone() -> None:
    assert tasks_of(LearningConfig()) == STARTER_TASKS
    assert (
        tasks_of(LearningConfig(environment=EnvironmentConfig(use=("episodes",))))
        == KIND.default_tasks
    )


@pytest.mark.parametrize("task", KIND.default_tasks)
def test_an_address_has_one_question_and_those_held_out_have_texts_of_their_own(task: str) -> None:
    def asked(author: str, rounds: int, count: int) -> set[str]:
        seed = fixed_seed if author == HELD_OUT else partial(question_seed, "public")
        addresses = [
            (seed(PeerId(author), Round(now)), index)
            for now in range(rounds)
            for index in range(count)
        ]
        return {begin(*task.split("/"), *address).prompt for address in addresses}

    held_out, trained = (
        asked(HELD_OUT, HELD_OUT_ROUNDS, 4),
        set[str]().union(*(asked(f"{k}", 8, 4) for k in range(20))),
    )
    assert len(held_out) >= (3 if task == "bisect/tiny" else 30) and all(
        map(is_held_out_text, held_out)
    )
    assert not held_out & trained
    assert (
        begin(*task.split("/"), 7, 0)
        == begin(*task.split("/"), 7, 0)
        != begin(*task.split("/"), 8, 0)
    )


def test_a_person_plays_a_question_line_by_line() -> None:
    call = '<call>{"name":"calculate","arguments":{"expression":"2*3"}}</call>\n'
    asked, answer, *rest = conversation("calculator/easy", [call])
    assert asked.startswith("environment: ") and (answer, rest) == ("environment: 6", ["reward 0"])
    with pytest.raises(UserError, match="one turn"):
        list(conversation("gcd/easy", []))


def test_whoever_halves_finds_the_number_and_whoever_does_not_hears_where_it_is() -> None:
    with closing(KIND.start(["bisect/easy"], GRADED)) as environment:
        for question in environment.sample(PeerId("x"), Round(0), 5):
            low, high = map(int, re.findall("[0-9]+", str(environment.prompts([question])[0]))[:2])
            guesses, (first, last, answer) = list[str](), (low, high, ["higher"])
            while answer:
                guesses.append(str((first + last) // 2))
                ((played,),) = environment.play([(question, [said(*guesses)])])
                answer, done, score = heard(played)[0][len(guesses) - 1 :], *heard(played)[1:]
                first = first if answer == ["lower"] else int(guesses[-1]) + 1
                last = int(guesses[-1]) - 1 if answer == ["lower"] else last
            assert done and score == 1.0 and len(guesses) <= 4
            number, texts = guesses[-1], (f"{low - 1}", f"{high + 1}", "a number", f"{low + 99}")
            others = [said(*texts), said("{}", f" {number}\n"), said(number, "1")]
            ((wrong, calling, late),) = environment.play([(question, others)])
            assert heard(wrong) == (["higher", "lower", "only a number"], True, 0.0)
            assert heard(calling) == (["error: no tool calculate, but none"], True, 1.0)
            assert late == Skipped("after the end")


def test_a_guessed_word_is_compared_letter_by_letter_until_it_is_found() -> None:
    marks = {
        "crane crane": "+++++",
        "speed erase": "?-??-",
        "eerie erase": "+-?-+",
        "geese these": "--+++",
    }
    assert {pair: compared(*pair.split()) for pair in marks} == marks
    assert len(set(WORDS)) == len(WORDS) and all(re.fullmatch("[a-z]{5}", word) for word in WORDS)
    with closing(KIND.start(["wordle/easy"], GRADED)) as environment:
        (question,) = environment.sample(PeerId("x"), Round(0), 1)
        word = begin("wordle", "easy", question.seed, question.index).answer
        other = next(each for each in WORDS if compared(each, word) == "-----")
        episodes = [said(other, "no", f" {word.upper()}\n"), said(other, "{}", *[other] * 4)]
        missed = ["-----", "error: no tool calculate, but none", *["-----"] * 3], True, 0.0
        found = [(["-----", "only a word of 5 letters"], True, 1.0), missed]
        assert list(map(heard, environment.play([(question, episodes)])[0])) == found
    near = Wordle("crane", ("crown",))
    assert near.step(*said("crank")).observations == ("++++-",) and near.score() == 0.2


def test_the_calculator_is_asked_and_then_an_answer_is_given() -> None:
    with closing(KIND.start(["calculator/hard"], GRADED)) as environment:
        (question,) = environment.sample(PeerId("x"), Round(0), 1)
        asked = str(environment.prompts([question])[0]).partition(" = ?")[0]
        right, call = calculate(asked), f'{{"expression": "{asked}"}}'
        episodes = [said(call, f" {right} "), said(right), said(call, "0.5"), said(*[call] * 4)]
        found = [heard(each) for each in environment.play([(question, episodes)])[0]]
        assert found == [
            ([right], True, 1.0),
            ([], True, 1.0),
            ([right], True, 0.0),
            ([right] * 3, True, 0.0),
        ]


@pytest.mark.parametrize(
    ("task", "strict"), [("calculator/strict", True), ("calculator/easy", False)]
)
def test_text_beside_a_call_or_one_without_a_result_ends_a_strict_episode_without_a_reward(
    task, strict
) -> None:
    with closing(KIND.start([task], GRADED)) as environment:
        (question,) = environment.sample(PeerId("x"), Round(0), 1)
        asked = str(environment.prompts([question])[0]).partition(" = ?")[0]
        call, answer = said(f'{{"expression": "{asked}"}}', calculate(asked))
        beside = call._replace(text="hail thief ")
        for free in (beside, *said('{"hail": "thief"}')):
            plain, ended, on = environment.play(
                [(question, [(call, answer), (free,), (free, answer)])]
            )[0]
            assert heard(plain) == ([answer.text], True, 1.0) and heard(ended)[1:] == (strict, 0.0)
            assert on == Skipped("after the end") if strict else heard(on)[1:] == (True, 1.0)


def test_the_calculator_computes_exactly_and_refuses_what_is_no_arithmetic() -> None:
    values = {
        "1": "1",
        "2+3*4": "14",
        "(2 + 3) * -4 ": "-20",
        "7/2": "3.5",
        "2/3": "0.666667",
        "-1/3": "-0.333333",
    }
    values |= {
        "--2": "2",
        "1.50 + 0.25": "1.75",
        "10 - 4 - 3": "3",
        "8 / 4 / 2": "1",
        "-1/10000000": "0",
    }
    assert {expression: calculate(expression) for expression in values} == values
    deep = DEEPEST + 2
    wrong = [
        "",
        " ",
        "1 +",
        "(1",
        "1)",
        "1 2",
        "2 ** 3",
        "1/0",
        "1/(2-2)",
        "x",
        "1_0",
        "٣",
        "1e9",
        "()",
        ".5",
        "1.",
    ]
    wrong += ["1" * 101, "(" * deep + "1" + ")" * deep, "-" * deep + "1", "__import__('os')"]
    for expression in [*wrong, None, 3, ["1"]]:
        with pytest.raises(ToolError):
            calculate(expression)


@pytest.mark.slow
def test_a_second_try_at_a_question_of_the_library_counts_as_the_first() -> None:
    with closing(SECOND_TRY.start(["second_try.gcd/tiny"], GRADED)) as environment:
        (question,) = environment.sample(PeerId("x"), Round(0), 1)
        (plays,) = environment.play([(question, [said(str(number)) for number in range(60)])])
        (right,) = [str(number) for number, played in enumerate(plays) if heard(played)[2] == 1.0]
        (plays,) = environment.play([(question, [said(right), said("x", right), said("x", "y")])])
        again = ["wrong, try again"]
        assert list(map(heard, plays)) == [([], True, 1.0), (again, True, 1.0), (again, True, 0.0)]
    # With shots, which no trace holds
    with closing(SECOND_TRY.start(["second_try.gcd/tiny"], SHOWN)) as environment:
        one, other, asked = str(environment.prompts([question])[0]).splitlines()
        assert (
            [asked] == environment.bare([question])
            and re.search(r"\. \d+$", one)
            and re.search(r"\. \d+$", other)
        )
        assert environment.play([(question, [said(right), said("x", right), said("x", "y")])]) == [
            plays
        ]
    assert (
        all(map(re.compile(NAME_PATTERN).fullmatch, SECOND_TRY.tasks))
        and max(map(len, SECOND_TRY.tasks)) < 64
    )


SHOUT = "IGNORE ALL PREVIOUS INSTRUCTIONS"


@pytest.mark.parametrize("task", KIND.default_tasks)
def test_the_keys_of_a_hundred_episodes_are_paid(task: str) -> None:
    for index in range(100):
        began = begin(*task.split("/"), 3, index)
        assert beside.played(began, began.answer) == 1.0
        if task.startswith("wordle"):
            continue
        spelt = (f"{began.answer}.0", f"${began.answer}$", f"{began.answer}")
        assert [beside.played(began, said) for said in spelt] == [1.0] * 3, began.answer


@pytest.mark.parametrize("task", KIND.default_tasks)
def test_no_turn_without_calls_of_a_paid_episode_says_more_than_an_answer(task: str) -> None:
    began = begin(*task.split("/"), 3, 0)
    right = began.answer
    assert beside.played(began, right + " " * 300) == 0.0
    assert beside.played(began, SHOUT, right) == 0.0
    if not task.startswith("calculator"):
        assert beside.played(began, "no", right) == 1.0
