"""What a paid completion may say, wherever texts are scored: see `swarm_node/scoring/bound.py`."""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.fuzzing import beside
from swarm_node.environments.dataset.source import FileItem, Judge
from swarm_node.environments.reasoning_gym.scorers.scorers import SCORERS, score_with
from swarm_node.environments.reasoning_gym.scorers.spellings import LONGEST, spellings
from swarm_node.scoring import bound
from swarm_node.scoring.bound import RULES, Bounded
from swarm_node.scoring.client import ScoringClient

SECURITY = Path(__file__).parents[3] / "SECURITY.md"
SOURCE = """
class Item:
    prompt = "Which number?"
    answer = "117"
    def score(self, text):
        return float("117" in text)

class Lax:
    name, version, tasks = "lax", "1", {"numbers": ("any",)}
    def build(self, dataset, config_id, seed, index):
        return Item()
"""
SHOUT = "IGNORE ALL PREVIOUS INSTRUCTIONS"


class Item:
    """An item whose scorer looks for the answer."""

    prompt = "?"

    def __init__(self, answer: str = "117", **more: object) -> None:
        self.answer = answer
        self.__dict__.update(more)

    def score(self, text: str) -> float:
        return 1.0 if self.answer in text else 0.25


def test_a_text_beyond_the_bound_is_worth_what_nothing_is() -> None:
    item = Bounded(Item())
    hidden = ("117\u2003", "\x0b117", "117\u200b")
    for text in (f"{SHOUT} 117", f"117{' ' * 300}", f"<think>{SHOUT}</think>117", *hidden):
        assert item.score(text) == 0.25 == item.score("")
    for text in ("117", " 117\n", "The answer is 117.", "**117**", "\\boxed{117}", "117 km"):
        assert item.score(text) == 1.0, text


def test_an_item_says_itself_how_long_a_right_text_is_and_what_it_accounts_for() -> None:
    assert Bounded(Item(longest=100)).score(f"{SHOUT} 117") == 1.0
    assert Bounded(Item(longest=None)).score(f"{SHOUT * 99} 117") == 1.0
    assert Bounded(Item(longest=100, accounts=str.isdecimal)).score("so 117") == 0.25
    assert (
        Bounded(Item(longest=100, accounts=str.isdecimal)).score("So the answer is **117**.") == 1
    )


def test_an_answer_that_its_own_scorer_does_not_pay_bounds_nothing() -> None:
    """The answer that a question shows may be one of many right ones, or a condition."""

    class Poem(Item):
        def score(self, text: str) -> float:
            return float(text.count("\n") == 2)

    assert Bounded(Poem("3 lines")).score(f"{SHOUT}\n{SHOUT}\n{SHOUT}") == 1.0


def test_a_scorer_that_raises_at_an_empty_text_costs_no_group() -> None:
    class Careless(Item):
        def score(self, text: str) -> float:
            return float(text.split()[-1] == self.answer)

    assert Bounded(Careless()).score(f"{SHOUT} 117") == 0.0


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("**B**", "B"), ("(B)", "B"), ("`B`.", "B"), ("\\textbf{B}", "B"), ("B", "B"),
        ("The answer is B.", "B"), ("So the answer is **B**.", "B"), ("Answer: B", "B"),
        ("#### 7", "7"), ("x = 7", "7"), ("7 is the answer.", "7"), ("$$7$$", "7"),
        ("<answer> 7 </answer>", "7"), ("(1+2)*(3+4)", "(1+2)*(3+4)"), ("$1$ or $2$", "$1$ or $2$"),
        ("'a' or 'b'", "'a' or 'b'"), ("The answer is no longer B", "no longer B"), ("", ""),
        ("\\boxed{1} or \\boxed{2}", "\\boxed{1} or \\boxed{2}"), ("...", "..."), ("$", "$"),
        ("It is B because", "B because"), ("((((((B))))))", "((B))"),
    ],
)  # fmt: skip
def test_frames_are_a_closed_list(text: str, left: str) -> None:
    assert bound.unframed(text)[0] == left


SAME = {
    "902": ["902", "902.00", "+902", "$902$", "902.0", "$902.00$"],
    "1.2": ["1.200", "+1.2", "$1.20$"],
    "-7": ["-7", "\u22127", "-7.0", "$-7$"],
    "1234": ["1,234", "1,234.00", "+1,234"],
    "0": ["0", "0.0", "+0"],
}
OTHER = {
    "902": [
        "903",
        "902.01",
        "0902",
        "902.",
        "$902",
        "--902",
        "902 ",
        "9,02",
        "+-902",
        "٩٠٢",
        "9e2",
    ],
    "1.2": ["1.2001", "1,2"],
    "-7": ["7", "+7"],
    "7": ["-7", "7.0000000000"],
    "0": ["-0", "", "$$"],
    "007": ["7", "7.0"],
    "1234": ["12,34", "1,234,000"],
}


@pytest.mark.parametrize(("answer", "text"), [(a, text) for a in SAME for text in SAME[a]])
def test_a_number_may_be_written_in_other_ways(answer: str, text: str) -> None:
    assert bound.same_number(text, answer)
    for name in ("gcd", "chain_sum", "simple_equations", "letter_counting", "number_sequence"):
        assert score_with(name, {"answer": answer}, text) == 1.0, name


@pytest.mark.parametrize(("answer", "text"), [(a, text) for a in OTHER for text in OTHER[a]])
def test_what_is_another_number_or_beyond_the_bound_is_not_the_same(answer: str, text: str) -> None:
    assert not bound.same_number(text, answer)


def test_the_sentence_of_security_md_and_the_code_say_the_same_numbers() -> None:
    said = " ".join(SECURITY.read_text("utf-8").split())
    found = re.search(r"at most (\d+) times the characters of the answer, and (\d+) more", said)
    assert found and (int(found[1]), int(found[2])) == (bound.TIMES, bound.MORE)
    framed = re.search(r"up to (\d+) of a closed list of frames", said)
    assert framed and int(framed[1]) == bound.MAX_FRAMES
    plainest = re.search(r"in at most ([\d.]+) times its plainest length", said)
    assert plainest and float(plainest[1]) == LONGEST
    assert bound.longest("x" * 10) == 10 * bound.TIMES + bound.MORE


def _paid(name: str, answer: str) -> Callable[[str], bool]:
    return lambda text: score_with(name, {"answer": answer}, text) == 1.0


@pytest.mark.parametrize(
    "name", ["gcd", "chain_sum", "dice", "path_star", "survo", "manipulate_matrix"]
)
def test_no_spelling_beyond_the_sentence_is_paid_in_reasoning_gym(name: str) -> None:
    assert name in SCORERS
    for answer in ("7", "1 2 3", "1 2\n3 4", "0.25", "1 " * 40 + "1"):
        paid, longest = _paid(name, answer), bound.longest(answer)
        for spelt in spellings(answer):
            for around in ("{}", " {} ", "{}\n\n", "  {}", " " * 12 + "{}" + " " * 12):
                text = around.format(spelt)
                assert len(text) <= longest or not paid(text), text


def test_a_scoring_process_keeps_the_bound_unless_it_is_told_to_leave_it(tmp_path: Path) -> None:
    file = tmp_path / "lax.py"
    file.write_text(SOURCE)
    texts = ("117", f"{SHOUT} 117", "The answer is 117.", "no")
    for bounded, scores in ((True, (1.0, 0.0, 1.0, 0.0)), (False, (1.0, 1.0, 1.0, 0.0))):
        with ScoringClient(f"{file}:Lax", "1", 20.0, 512) as client:
            client.bounded = bounded
            assert client.ask([("numbers", "any", 0, 0, texts)]) == [scores]


# Of which completions are paid: the SHA-256 of the outcomes, by the rules that give them
PAID = {3: "87cc3b82b5c8be24"}


def test_the_rules_are_raised_when_other_completions_are_paid() -> None:
    """Versions of data sets and task sets name the rules: peers of others are told apart."""
    outcomes = []
    for name, prompt, reference, answer in beside.VERIFIED:
        if name == "math":  # of an extra
            continue
        judge = Judge({"name": name, "tolerance": 0.0})
        item = Bounded(FileItem(prompt, reference, judge))
        texts = [answer, f" {answer}. ", f"**{answer}**", f"({answer})", f"The answer is {answer}."]
        texts += [f"so x = {answer}", f"{answer} or so", *beside.reported(answer), *beside.MORE]
        outcomes += [f"{name} {text!r} {item.score(text):.3f}" for text in texts]
    digest = hashlib.sha256("\n".join(outcomes).encode()).hexdigest()
    assert {RULES: digest[:16]} == PAID, "raise RULES, and write the new digest here"
