"""A right answer that carries something else is worth no more than an empty one: a slice of
`lab.fuzzing.carried`, and answers that were rewarded before.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from lab.fuzzing import carried, carriers, right_answers
from swarm_node.environments.reasoning_gym.catalogue import CATALOGUE
from swarm_node.environments.reasoning_gym.scorers import scorers, spellings
from swarm_node.environments.reasoning_gym.source import LibraryItem
from swarm_node.scoring import bound

LONG = "314159265358979323846264338327"
SLICE = 5  # one carrier in so many


def question(name: str) -> tuple[LibraryItem, str]:
    """The first question of a data set that has an answer, and that answer."""
    return next(
        right_answers.answered(name, next(iter(CATALOGUE[name].values())), carried.SEED, 64)
    )


def test_there_are_two_hundred_carriers_of_every_kind() -> None:
    assert len(carriers.carriers()) >= 200 and all(
        len(texts) >= 18 for texts in carriers.CARRIERS.values()
    )


def test_the_sweep_finds_a_scorer_that_takes_the_answer_out_of_a_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        LibraryItem, "score", lambda self, text: float(self.entry["answer"] in text)
    )
    tally = carried.sweep("gcd", {"text": "payload"}, configs=1)
    assert tally.paid["before"] == tally.paid["after"] == 3 and "payload" in tally.examples[0]


def test_permitted_spellings_are_those_that_were_rewarded_before() -> None:
    """`lab.fuzzing.right_answers` has the spellings of before; the scorers' own list may be
    shorter, and not longer.
    """
    for answer in (
        "7",
        "-7",
        "12345",
        "0.25",
        "[[1, 2]]",
        "A → B",
        "a, b\nc d",
        "x*y",
        "A is b, and c is d",
    ):
        known = {text.strip() for text in right_answers.spellings(answer).values()}
        assert {text.strip() for text in spellings.spellings(answer)} <= known


CARRIED: Mapping[str, Callable[[str], str]] = {  # each had the full reward before
    "coin_flip": lambda answer: answer + LONG,
    "complex_arithmetic": lambda answer: answer.replace("i", f"000{LONG}i"),
    "game_of_life": lambda answer: answer.replace("0", f"0e{LONG}", 1),
    "gsm_symbolic": lambda answer: f"{'$' * 40}{answer}",
    "knights_knaves": lambda answer: answer.replace(" is ", " is is a an is an an a ", 1),
    "number_format": lambda answer: f"{answer}000{LONG}",
    "pool_matrix": lambda answer: f"{answer[0]}.00{LONG}{answer[1:]}",
    "power_function": lambda answer: f"{answer}{LONG}",
    "simple_integration": lambda answer: f"{answer} + {LONG}",
    # and some of those that were paid in part
    "advanced_geometry": lambda answer: answer.replace(".", f".000{LONG}"),
    "decimal_arithmetic": lambda answer: f"{answer}000000000000{LONG}",
    "palindrome_partitioning": lambda answer: json.dumps(
        [*json.loads(answer), json.loads(answer)[0]]
    ),
    "spell_backward": lambda answer: f"{answer}payload",
    "letter_jumble": lambda answer: f"{answer} buy at example.com",
    "polynomial_multiplication": lambda answer: f"0.5 + {answer} - 0.5",
    "gcd": lambda answer: f"{answer} buy at example.com",
}


@pytest.mark.parametrize("name", CARRIED)
def test_what_was_paid_is_worth_what_nothing_is(name: str) -> None:
    item, answer = question(name)
    laden = CARRIED[name](answer)
    assert laden != answer and item.score(answer) == 1.0
    assert item.score(laden) <= item.score("") and item.score(
        f"<answer>{laden}</answer>"
    ) <= item.score("")


def test_pages_of_white_space_around_an_answer_are_not_overlooked() -> None:
    entry: dict[str, Any] = {"answer": "7"}
    for text, reward in (
        ("7\n", 1.0),
        ("  7 \n", 1.0),
        ("7" + " \t" * 50, 0.0),
        ("\u2003\u2002 7", 0.0),
    ):
        said = bound.answer_of(text)
        assert scorers.score(scorers.SCORERS["gcd"], said, entry) == reward, text
        assert scorers.score(scorers.SCORERS["chain_sum"], said, entry) == reward, text


@pytest.mark.parametrize("part", range(4))
def test_a_slice_of_the_carriers_is_paid_at_no_place_of_any_data_set(part: int) -> None:
    names, cases = sorted(CATALOGUE)[part::4], 0
    for turn, name in enumerate(names):
        texts = dict(list(carriers.carriers().items())[turn % SLICE :: SLICE])
        tally = carried.sweep(name, texts, configs=1)
        assert tally.paid == {}, (name, tally.examples)
        assert tally.cases >= 8 * len(texts), name
        cases += tally.cases
    assert cases > 10_000
