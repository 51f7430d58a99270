"""Where an answer stands in a completion, and how a prompt shows it. Completions are hostile
text.
"""

import time
from collections import Counter

import pytest

from protocol.messages import PeerId, Round
from swarm_node.environments.registry import build_environment, right_answer
from swarm_node.environments.scored import FORMS, Answers
from swarm_node.settings import EnvironmentConfig, LearningConfig

READ = {  # by form: completions, and what is read of them
    "whole": [("7", "7"), (" <answer>7</answer>", " <answer>7</answer>"),
        ("<think>no</think>7", "<think>no</think>7")],
    "first_line": [("7\nfree text", "7"), ("\n7", "7"), ("\n\n7", ""),
        ("<think>no</think>7", "<think>no</think>7")],
    "tags": [
        ("so <answer> 7 </answer>, surely", " 7 "),
        ("<answer>6</answer> or <answer>7</answer>", "7"), ("<answer>7</answer> or <answer>8", ""),
        ("<answer><answer>7</answer></answer>", "7"), ("7</answer>", ""), ("7", ""),
        ("<think><answer>7</answer></think>no", ""),
        ("<think>6</think><answer>7</answer><think>8", "7"),
    ],
    "boxed": [
        (r"it is \boxed{\frac{1}{2}}.", r"\frac{1}{2}"), (r"\boxed{6} and \boxed{7}", "7"),
        (r"\boxed{\boxed{7}}", "7"), (r"\boxed{7", ""), (r"{7}", ""),
    ],
    "hashes": [("6 + 1\n#### 7\nmore", " 7"), ("#### 6 #### 7", " 7"), ("7", "")],
    "last_number": [
        ("The final answer is 7.", "7"), ("12 - 5 = 7, not 8", "8"), ("12-5", "5"),
        ("x = -1,234.50 m", "-1,234.50"), ("it is 3/4", "3/4"), ("none", ""), ("7</think>", ""),
        ("<think>let me see, 7", ""), ("<think>6</think>7", "7"), ("٣", ""),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("form", "completion", "answer"), [(form, *row) for form, rows in READ.items() for row in rows]
)
def test_an_answer_is_read_where_its_form_has_it(form: str, completion: str, answer: str) -> None:
    assert Answers(form).read(completion) == answer


@pytest.mark.parametrize("form", [name for name, each in FORMS.items() if each.written != "{}"])
def test_a_shot_shows_what_its_form_reads(form: str) -> None:
    shown = Answers(form).prompt("", [("what?", "{7} %s")]).removeprefix("what? ")
    assert Answers(form).read(shown).strip() == "{7} %s"
    assert FORMS[form].sentence in Answers(form).prompt("what?", [])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "piece",
    ["<answer>", "</answer>", "<think>", "</think>", "\\boxed{", "{", "####", "1,111", "1/"],
)
def test_reading_takes_time_in_proportion_to_the_text(form: str, piece: str) -> None:
    """The text has 4 MB: a time that grows as its square would be hours."""
    text = piece * (4_000_000 // len(piece))
    began = time.process_time()
    Answers(form).read(text)
    assert time.process_time() - began < 20


def ask(task: str, shots: int = 0, answer: str = "auto"):
    tasks = EnvironmentConfig(tasks=(task,), shots=shots, answer=answer)
    environment = build_environment(LearningConfig(environment=tasks))
    questions = [
        q for now in range(3) for q in environment.sample(PeerId("somebody"), Round(now), 8)
    ]
    return environment, questions


def test_shots_stand_before_a_question_and_never_show_it() -> None:
    bare, questions = ask("chain_sum/tiny")
    shown, _ = ask("chain_sum/tiny", 3, "tags")
    try:
        asked, prompts = bare.prompts(questions), shown.prompts(questions)
        for question, prompt in zip(asked, prompts, strict=True):
            *shots, last = str(prompt).splitlines()
            assert last == question
            assert len(shots) == 3 and all(shot.endswith("</answer>") for shot in shots)
            assert not any(shot.startswith(str(question)) for shot in shots)
        ((_, common),) = Counter(str(prompt).rpartition("\n")[0] for prompt in prompts).most_common(
            1
        )
        assert common > len(prompts) // 2
    finally:
        bare.close()
        shown.close()


def test_nodes_with_other_shots_and_forms_score_each_others_groups() -> None:
    strict, questions = ask("chain_sum/tiny")
    loose, _ = ask("chain_sum/tiny", 2, "last_number")
    try:
        key = right_answer(LearningConfig(), questions[0])
        texts = [key, f"The final answer is {key}.", "no"]
        assert strict.score([(questions[0], texts)]) == [(1.0, 0.0, 0.0)]
        assert loose.score([(questions[0], texts)]) == [(1.0, 1.0, 0.0)]
    finally:
        strict.close()
        loose.close()
