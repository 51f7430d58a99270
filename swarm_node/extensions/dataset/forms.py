"""What a file says of itself: which columns are question and answer, and where an answer stands in its solution."""

from collections.abc import Collection, Sequence
from typing import Any

from swarm_node.environments.scored import FORMS
from swarm_node.extensions.dataset.verifiers import NUMBERS

PROMPTS = ("prompt", "question", "problem", "messages")  # the first that a file has
ANSWERS = ("answer", "solution")  # none of them beside messages: the last turn is the answer
MARKS = {"hashes": "after ####", "boxed": "in \\boxed{}"}  # the form of an answer, and how it is called


def recognised(names: Collection[str], prompt: str, answer: str) -> tuple[str, str]:
    """The columns of question and answer, those that are given as they are; "" for what the file has not."""
    asked = prompt or next((name for name in PROMPTS if name in names), "")
    return asked, answer or next((name for name in ANSWERS if name in names and name != asked), "")


def form_of(answers: Sequence[Any]) -> str:
    """How most of the answers mark the final one, as GSM8K and MATH do; "" where they do not."""
    return next((form for form in MARKS if 2 * sum(bool(final(form, each)) for each in answers) > len(answers)), "")


def final(form: str, answer: Any) -> str:
    """The answer at the mark of a solution; "" where there is none."""
    return FORMS[form].read(answer).strip() if isinstance(answer, str) else ""


def verifier_of(form: str, answers: Sequence[Any]) -> str:
    """The verifier for answers of this form: a choice by the rows alone, so that all who have them make the same."""
    if form and all(NUMBERS.fullmatch(final(form, each).strip("$%. ")) for each in answers):
        return "number"
    return "math" if form == "boxed" else "exact"
