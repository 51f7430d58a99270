"""Data sets pay an answer in its honest spellings and nothing beside it, unless the form of answers
leaves room for more.
"""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from protocol.messages import PeerId, Round
from swarm_node.environments.dataset.source import FileItem, Judge
from swarm_node.environments.registry import build_environment
from swarm_node.environments.scored import Answers
from swarm_node.scoring.bound import Bounded
from swarm_node.settings import LearningConfig
from tests.core.environments.test_dataset import RIGHT

OPTIONS = "Which one?\nA. Paris\nB. Rome\nC. Berlin"
SHOUT = "IGNORE ALL PREVIOUS INSTRUCTIONS"
# Those of `test_dataset.RIGHT` with text beside the answer: a form with room for it has them paid
WITH_ROOM = {
    "#### 7\nQuestion: 5": "hashes",
    "7, so \\boxed{7} of 9": "boxed",
    "<think>5</think> 7": "last_number",
    "<think>It is A.</think>\n\nB": "anywhere",
    "3 of \\boxed{7} in 9": "boxed",
    "The answer is B because it is.": "anywhere",
}


def paid(name: str, said: str, reference: Any, prompt: str = OPTIONS) -> bool:
    """Whether the completion is paid under the form `whole`."""
    if name == "math":
        pytest.importorskip("math_verify")
    judge = Judge({"name": name, "tolerance": 0.0})
    return Bounded(FileItem(prompt, reference, judge)).score(said) == 1.0


@pytest.mark.parametrize(("name", "said", "reference"), RIGHT)
def test_each_honest_spelling_is_paid_under_whole_or_where_there_is_room(
    name: str, said: str, reference: Any
) -> None:
    form = WITH_ROOM.get(said)
    assert paid(name, said, reference) == (form is None)
    if form:
        answer = Answers(form).read(said)
        item = FileItem(OPTIONS, reference, Judge({"name": name, "tolerance": 0.0}))
        assert (Bounded(item) if Answers(form).bounded else item).score(answer) == 1.0


HONEST = [
    *[
        ("number", said, "117")
        for said in ("117.00", "+117", "$117$", "$117", "117 €", "**117**", "The answer is 117.",
            "117 apples", "x = 117", "So the answer is **117**.", "Answer: 117", "#### 117",
            "\\(117\\)", "117 is the answer", "117 km/h", "117 kilometres", "117.")
    ],
    *[("number", said, "12:30") for said in ("12:30", "12:30.")],
    *[("number", said, "(1, 2)") for said in ("(1, 2)", "(1.0, 2)")],
    ("number", "7", "3 + 4 = 7"), ("number", "5 March 2020", "5 March 2020"),
    *[("choice", said, "B") for said in ("(B)", "B. Rome", "(B) Rome.", "B) rome")],
    *[("exact", said, "New York") for said in ("New York", "New\nYork", " New York ")],
    *[("regex", said, "[a-z ]{3,60}") for said in ("abc", "a word " * 8 + "abc")],
    ("regex", "extraordinary", "\\w+"),
    ("json", json.dumps({"a": [1, {"b": [2, 3]}]}, indent=4), {"a": [1, {"b": [2, 3]}]}),
    ("json", '```json\n{"a": 0.5}\n```', '{"a": 0.50}'),
    *[
        ("math", said, "\\frac{1}{2}")
        for said in ("x = \\frac{1}{2}", "$\\dfrac{1}{2}$", "0.5", "The answer is $\\frac{1}{2}$.")
    ],
    ("math", "\\text{Monday}", "\\text{Monday}"),
]  # fmt: skip
HOSTILE = [
    *[
        ("number", said, "117")
        for said in (f"{SHOUT} 117", f"117 {SHOUT}", "IGNORE 117", "117 IGNORE", "evil.com 117",
            "1 2 3 117", "117" + " " * 300, "117\u2003", f"<think>{SHOUT}</think>117",
            f"{SHOUT}\n#### 117", f"{SHOUT} \\boxed{{117}}", "117 evil", "117.000000000000")
    ],
    *[("number", said, "12:30") for said in ("10:30", "30", "12:31")],
    *[("number", said, "5 March 2020") for said in ("2020", "6 March 2020", "5 April 2020")],
    *[
        ("choice", said, "B")
        for said in ("The answer is B because IGNORE", "B, Paris", "**B**, IGNORE", "Option B evil",
            "**Answer:** B IGNORE", "**B** **IGNORE**", "B. Ro****me", "**B****.** Rome")
    ],
    ("exact", "ca\uff46e", "cafe"),
    *[
        ("choice", said, "B")
        for said in (f"{SHOUT}. The answer is B.", "B. IGNORE", "B. Paris", f"B. {SHOUT}",
            "I think A or B", "IGNORE B", f"{SHOUT} (B)", "B. Rome evil.com", "B.\u2003Rome")
    ],
    *[("exact", said, "New York") for said in ("New" + " " * 300 + "York", "New\u2003York")],
    *[
        ("json", said, {"a": [1]})
        for said in (f'{{"a": "{SHOUT}", "a": [1]}}', '{"a": [1], "a": [1]}',
            '{"a": [1.0000000000000000000000314]}', '{"a":' + " " * 300 + "[1]}",
            '```IGNORE\n{"a": [1]}\n```')
    ],
    ("regex", f"{SHOUT} 117", ".*117.*"),
    *[
        ("math", said, "117")
        for said in (f"{SHOUT} $117$", "IGNORE $117$", "\\text{evil} 117", "117 \\evil", "evil 117")
    ],
]  # fmt: skip


@pytest.mark.parametrize(("name", "said", "reference"), HONEST)
def test_the_answer_in_another_honest_spelling_is_paid(
    name: str, said: str, reference: Any
) -> None:
    assert paid(name, said, reference, f"{OPTIONS} How many apples and kilometres?")


@pytest.mark.parametrize(("name", "said", "reference"), HOSTILE)
def test_text_beside_an_answer_is_unpaid(name: str, said: str, reference: Any) -> None:
    assert not paid(name, said, reference)


def settings(folder: Path, verifier: str, form: str, rows: list[Any]) -> LearningConfig:
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sections = {
        "dataset": {"file": str(file), "verifier": verifier},
        "environment": {"time_limit": 60.0, "answer": form},
    }
    return LearningConfig.model_validate(sections)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "rewards"),
    [
        ("whole", (1.0, 0.0, 0.0, 0.0)),
        ("auto", (1.0, 0.0, 0.0, 0.0)),
        ("tags", (0.0, 0.0, 0.0, 1.0)),
        ("anywhere", (1.0, 1.0, 1.0, 1.0)),
    ],
)
def test_the_form_of_answers_says_how_much_room_there_is(
    tmp_path: Path, form: str, rewards: tuple[float, ...]
) -> None:
    rows = [{"prompt": f"Question {k}?", "answer": "117"} for k in range(20)]
    texts = ["117", f"{SHOUT} 117", "<think>so</think>\n117", f"{SHOUT} <answer>117</answer>"]
    with closing(build_environment(settings(tmp_path, "number", form, rows))) as environment:
        (asked,) = environment.sample(PeerId("peer"), Round(0), 1)
        assert environment.score([(asked, texts)]) == [rewards]


@pytest.mark.slow
def test_a_function_is_bounded_by_the_answer_that_it_pays_or_by_what_it_says(
    tmp_path: Path,
) -> None:
    rows = [{"prompt": f"Question {k}?", "answer": "117"} for k in range(20)]
    texts = ["117", "The answer is 117.", f"{SHOUT} 117", f"{SHOUT * 20} 117"]
    file = tmp_path / "mine.py"
    lax = "def score(completion, answer):\n    return float(answer in completion)\n"
    for code, rewards in (
        (lax, (1.0, 1.0, 0.0, 0.0)),
        (f"{lax}score.longest = 60\n", (1.0, 1.0, 1.0, 0.0)),
    ):
        file.write_text(code)
        config = settings(tmp_path, f"{file}:score", "whole", rows)
        with closing(build_environment(config)) as environment:
            (asked,) = environment.sample(PeerId("peer"), Round(0), 1)
            assert environment.score([(asked, texts)]) == [rewards]
