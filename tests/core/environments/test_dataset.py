"""Questions from a file: what is read, what becomes of it, who scores it, and what bad files and
completions cost.
"""

import csv
import json
import random
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from protocol.messages import PeerId, Round
from swarm_node.commands.cli import dispatch
from swarm_node.common.errors import UserError
from swarm_node.environments.dataset import verifiers
from swarm_node.environments.dataset.compile import compiled
from swarm_node.environments.dataset.environment import KIND, Facts
from swarm_node.environments.dataset.environment import read as read_elsewhere
from swarm_node.environments.dataset.questions import filled, text_of
from swarm_node.environments.kinds import held_out
from swarm_node.environments.registry import build_environment, leaving, tasks_of, with_environment
from swarm_node.environments.split import place
from swarm_node.rollouts.groups import Skipped
from swarm_node.settings import LearningConfig, NodeConfig
from swarm_node.settings.questions import DatasetConfig
from swarm_node.settings.secret import Secret

ROWS = [{"prompt": f"{a} + {b} = ?", "answer": str(a + b)} for a in range(10) for b in range(10)]


def write(folder: Path, rows: Sequence[Any] = ROWS, name: str = "sums.jsonl") -> DatasetConfig:
    file = folder / name
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return DatasetConfig(file=str(file))


def read(config: DatasetConfig) -> Facts:
    """Reads in this process, which is quicker than in a process of its own."""
    return Facts.model_validate(compiled(config, ""))


def test_one_set_of_rows_has_one_version_in_whatever_format_and_order(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    config = write(tmp_path)
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "sums.parquet")
    with (tmp_path / "sums.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["answer", "prompt"])
        writer.writeheader()
        writer.writerows(random.Random(0).sample(ROWS, len(ROWS)))
    facts = [
        read(config.model_copy(update={"file": str(tmp_path / f"sums.{end}")}))
        for end in ("jsonl", "csv")
    ]
    facts.append(read(config.model_copy(update={"file": str(tmp_path / "sums.parquet")})))
    assert facts[0] == facts[1].model_copy(update={"examples": facts[0].examples}) == facts[2]
    assert facts[0].train + facts[0].held_out == 100 and 2 <= facts[0].held_out <= 25


@pytest.mark.slow
def test_a_data_set_of_the_hub_is_read_by_its_name(tmp_path: Path) -> None:
    """A folder stands for a repository: the library reads both in the same way, and the test needs
    no network.
    """
    pytest.importorskip("datasets")
    config = write(tmp_path, name="train.jsonl")
    assert (
        read(config.model_copy(update={"file": f"hf:{tmp_path}"})).version == read(config).version
    )
    with pytest.raises(UserError, match="data set hf:/nowhere/at/all cannot be loaded"):
        read(config.model_copy(update={"file": "hf:/nowhere/at/all"}))


def test_whatever_peers_must_agree_on_changes_the_version(tmp_path: Path) -> None:
    config = write(tmp_path).model_copy(update={"verifier": "number"})
    other = write(
        tmp_path, [*ROWS[:-1], {"prompt": "9 + 9 = ?", "answer": "19"}], "other.jsonl"
    ).file
    changes = {
        "file": other,
        "template": "So {prompt}",
        "verifier": "exact",
        "tolerance": 0.1,
        "held_out": 0.2,
    }
    changes |= {"form_weight": 0.1, "salt": Secret("told to members alone")}
    before = read(config).version
    for change in changes.items():
        assert read(config.model_copy(update=dict([change]))).version != before, change


def test_the_version_holds_the_file_of_a_function(tmp_path: Path) -> None:
    config, file = write(tmp_path), tmp_path / "my_verifier.py"
    file.write_text("def score(completion, answer):\n    return completion == answer\n")
    ours = config.model_copy(update={"verifier": f"{file}:score"})
    before = read(ours)
    assert read(ours).version == before.version
    file.write_text(file.read_text() + "# changed\n")
    assert read(ours).version != before.version
    with pytest.raises(UserError, match=r"nothing\.py cannot be read"):
        read(config.model_copy(update={"verifier": f"{tmp_path}/nothing:score"}))


def test_rows_that_are_no_use_are_left_out_and_counted(tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    lines = [
        *(json.dumps(row) for row in ROWS[:20]),
        json.dumps(ROWS[0]),
        '{"prompt": "' + "x" * 10_000_000 + '", "answer": "1"}',
        '{"prompt": "' + "x" * 20_000 + '", "answer": "1"}',
        '{"prompt": "x", "answer": "' + "1" * 20_000 + '"}',
        '{"prompt": "\\ud800", "answer": "1"}',
        '{"prompt": "x", "answer": NaN}',
        "[" * 100_000,
        '{"prompt": "x"}',
        '{"answer": "1"}',
        "",
        '{"prompt": "the last row", "answer": "1"}',
    ]
    file.write_text("\n".join(lines))
    facts = read(DatasetConfig(file=str(file)))
    assert facts.train + facts.held_out == 21 and facts.duplicates == 1
    once = (
        "row above 1 MB",
        "prompt above 16 KB",
        "answer above 16 KB",
        "no Unicode text",
        "no answer",
        "no prompt",
    )
    assert facts.left_out == {**dict.fromkeys(once, 1), "no JSON object": 2}
    assert (facts.lines["row above 1 MB"], facts.lines["no JSON object"]) == ([22], [26, 27])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("missing.jsonl", None, "does not exist"),
        ("questions.txt", "x", "ends in none of .jsonl, .csv, .tsv, .parquet"),
        ("empty.jsonl", "", "no question in it: no rows"),
        (
            "columns.jsonl",
            '{"ask": "1", "say": "2"}',
            "are ask, say; name those to use: --dataset.prompt COLUMN --dataset.a",
        ),
        (
            "near.csv",
            "questoin,answr\n1,2\n",
            "did you mean --dataset.prompt questoin --dataset.answer answr?",
        ),
        ("latin.csv", b"prompt,answer\n\xe9,1\n", "cannot be read"),
        ("broken.parquet", "PAR1 no", "is not a Parquet file"),
    ],
)
def test_a_file_that_will_not_do_is_one_line(
    tmp_path: Path, name: str, content: Any, said: str
) -> None:
    file = tmp_path / name
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=said) as error:
        read_elsewhere(DatasetConfig(file=str(file)))
    assert "\n" not in str(error.value) and name in str(error.value)


def test_templates_join_columns_and_messages_become_one_text() -> None:
    row = {"context": "It rains.", "question": "Dry?", "choices": ["yes", "no"], "n": 3}
    assert (
        filled("{context}\n\n{question}\n{choices} {n} {other}", row)
        == "It rains.\n\nDry?\nA. yes\nB. no 3 {other}"
    )
    assert filled("{missing}", row) == ""
    assert text_of([{"role": "user", "content": "Hi"}]) == "Hi"
    assert (
        text_of([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}])
        == "Be brief.\n\nHi"
    )
    turns = [{"role": role, "content": role[0]} for role in ("user", "assistant", "user")]
    assert text_of(turns) == "User: u\n\nAssistant: a\n\nUser: u"


def test_a_round_asks_no_question_twice_and_those_held_out_have_each_their_turn() -> None:
    for count in (1, 2, 7, 100, 256, 1000, 4096):
        asked = [place("train", 123456789, index, count) for index in range(min(count, 256))]
        assert len(set(asked)) == len(asked) and max(asked) < count
    pages = [place("held_out", page, index, 600) for page in range(3) for index in range(256)]
    assert sorted(set(pages)) == list(range(600))


SUMS = [{"question": f"{k} + 1?", "answer": f"One more.\n#### {k + 1:,}"} for k in range(990, 1050)]
CHATS = [
    [{"role": "user", "content": str(k)}, {"role": "assistant", "content": str(k + 1)}]
    for k in range(60)
]
BOXES = [f"So \\boxed{{{k}}}" for k in range(60)]
KNOWN = [
    (SUMS, "question -> answer, number after ####", "1000 + 1?", "One more.\n#### 1,001"),
    ([{"problem": f"{k}?", "solution": b} for k, b in enumerate(BOXES)], (
        "problem -> solution, "
        "number in \\boxed{}"
    ),
     "7?", BOXES[7]),
    ([{"Question": f"{k}?", "Answer": f"{k}."} for k in range(60)], "Question -> Answer, exact",
        "7?", "7."),
    ([{"messages": chat} for chat in CHATS], "messages -> its last turn, exact", "7", "8"),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "said", "prompt", "answer"), KNOWN)
def test_columns_and_forms_of_answers_are_recognised_and_said(
    tmp_path: Path, rows: Any, said: str, prompt: str, answer: str
) -> None:
    sides = tmp_path / "out.json"
    facts = Facts.model_validate(compiled(write(tmp_path, rows), str(sides)))
    assert list(facts.notes()) == [(False, f"reads {said}: 60 rows, {facts.held_out} held out")]
    kept = json.loads(sides.read_text())["rows"]
    assert [prompt, answer] in kept["train"] + kept["held_out"]


def test_rows_without_the_mark_of_most_answers_are_named_by_line(tmp_path: Path) -> None:
    facts = read(
        write(tmp_path, [*SUMS[:30], {"question": "x", "answer": "no mark"}, {"question": "y"}])
    )
    assert facts.left_out == {"no answer": 1, "no answer after ####": 1}
    assert "1 skipped, no answer after ####: line 31" in dict(facts.notes()).values()
    fractions = [
        {"problem": f"{k}?", "solution": f"\\boxed{{\\frac{{1}}{{{k}}}}}"} for k in range(2, 40)
    ]
    pytest.importorskip("math_verify")
    assert read(write(tmp_path, fractions)).verifier == {
        "name": "math",
        "tolerance": 0.0,
        "form": "boxed",
    }


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_csv_file_may_have_other_separators_and_lines_in_its_cells(
    tmp_path: Path, separator: str
) -> None:
    file = tmp_path / "x.csv"
    rows = [f'"{k}{separator}\n{k}"{separator}{k}\n' for k in range(3)]
    file.write_text(f'\n"question"{separator}answer\n{"".join(rows)}{separator}7\n')
    facts = read(DatasetConfig(file=str(file), held_out=0.0))
    assert sorted(facts.examples) == [(f"{k}{separator}\n{k}", str(k)) for k in range(3)]
    assert facts.lines == {"no prompt": [9]}
    assert [text[:22] for warning, text in facts.notes() if warning] == ["no question is held ou"]


RIGHT = [
    *[
        ("number", said, "Four.\n#### 7")
        for said in ("#### 7\nQuestion: 5", "7, so \\boxed{7} of 9", "<think>5</think> 7")
    ],
    *[("choice", said, "B") for said in ("\\boxed{B}", "<think>It is A.</think>\n\nB")],
    ("number", "3 of \\boxed{7} in 9", "It is \\boxed{7}, not 8"),
    *[
        ("number", said, "1234.5")
        for said in ("1234.5", "1,234.5", "1.234,5", "1 234.5", "1'234.5", "= 1234.50 km")
    ],
    *[
        ("number", said, "12 km")
        for said in ("12", "12 km", "12KM", "<answer>12 km</answer>", "so it is 12")
    ],
    *[("number", said, "50 %") for said in ("50%", "50")],
    *[("number", said, "#### 72") for said in ("72", "72.0", "7.2e1", "144/2")],
    *[("number", said, "\u22123") for said in ("-3", "\u22123")],
    *[
        ("choice", said, "B")
        for said in (
            "B",
            "b",
            "(B)",
            "B. Rome",
            "b) Rome",
            "The answer is B.",
            "It is (B)",
            "**B**",
            "\\textbf{B}",
            "B.",
            "B, Rome",
            "**B**. Rome",
            "**B. Rome**",
            "Option B",
            "**Answer:** B",
            "The answer is B because it is.",
            "The answer is **B**.",
            "$\\text{(B)}$",
        )
    ],
    *[("choice", "B", 1), ("regex", "abbb", "ab+"), ("exact", " New  York\n", "New York")],
    *[
        ("json", said, {"a": [1, True]})
        for said in ('{"a": [1.0, true]}', '```json\n{"a": [1, true]}\n```')
    ],
    *[
        ("exact", *pair)
        for pair in (
            ("cafe\u0301", "caf\u00e9"),
            ("caf\u00e9", "cafe\u0301"),
            ("AB 12", "\uff21\uff22 \uff11\uff12"),
            ("office", "o\ufb03ce"),
        )
    ],
    *[("number", said, "12:30") for said in ("12:30", "It is 12:30.")],
    *[("number", said, "7 apples") for said in ("7 is the answer", "7 apples", "7 apples.")],
    ("number", "3 hours 20 minutes", "3 hours 20 minutes"),
    *[("math", said, "1/2") for said in ("0.5", "\\boxed{\\frac{1}{2}}", "$\\frac{2}{4}$")],
]
WRONG = [
    *[
        ("number", said, "#### 7")
        for said in ("#### 5\nQuestion: 7", "<think>it is 7", "<think>7</think>8", "\\boxed{8} 7")
    ],
    *[("choice", "<think>It is B.", "B"), ("math", "<think>1/2", "1/2")],
    *[
        ("number", said, "1234.5")
        for said in ("1235", "", "none", "1234.5 1", "9" * 200, "1e9999", "1/0", "nan")
    ],
    *[("number", said, "12 km") for said in ("12 miles", "-12")],
    *[
        ("choice", said, "B")
        for said in (
            "A",
            "B or A",
            "",
            "Because",
            "BB",
            "C. B",
            "I think A or B",
            "A or B",
            "A, B",
            "B, A",
            "B and A",
            "A/B",
            "The answer is A or B.",
            "The answer is A. No, the answer is B.",
        )
    ],
    *[("choice", said, True) for said in ("B", "true")],
    *[("exact", *pair) for pair in (("x2", "x\u00b2"), ("cafe", "caf\u00e9"))],
    *[("number", said, "12:30") for said in ("10:30", "30", "12:31", "12.30")],
    *[("number", said, "7 apples") for said in ("7 pears", "8 apples")],
    *[("number", said, "3 hours 20 minutes") for said in ("20 minutes", "4 hours 20 minutes")],
    *[("regex", "abbbc", "ab+"), ("regex", "a" * 5000, "a+"), ("exact", "new york", "New York")],
    *[
        ("json", said, {"a": [1]})
        for said in ('{"a": [true]}', '{"a": ["1"]}', "{", "[" * 4000, "")
    ],
    *[("math", said, "1/2") for said in ("0.6", "", "\\frac", "x" * 5000)],
]


CASES = [(*case, 1.0) for case in RIGHT] + [(*case, 0.0) for case in WRONG]


@pytest.mark.parametrize(("name", "said", "answer", "score"), CASES)
def test_verifiers_score_what_is_right_and_nothing_else(
    name: str, said: str, answer: Any, score: float
) -> None:
    if name == "math":
        pytest.importorskip("math_verify")
    assert verifiers.load({"name": name, "tolerance": 0.0})(said, answer) == score


def test_a_number_may_be_off_by_the_tolerance() -> None:
    verify = verifiers.load({"name": "number", "tolerance": 0.01})
    assert [verify(said, "100") for said in ("99", "101", "98.9", "101.1")] == [1.0, 1.0, 0.0, 0.0]


def settings(config: DatasetConfig, time_limit: float = 60.0, **changes: Any) -> LearningConfig:
    sections = {
        "dataset": config.model_copy(update=changes),
        "environment": {"time_limit": time_limit},
    }
    return LearningConfig.model_validate(sections)


def test_with_the_network_off_a_node_says_that_questions_stay_on_this_machine(
    tmp_path: Path,
) -> None:
    def told(enabled: bool) -> str:
        given = {"dataset": write(tmp_path), "network": {"enabled": enabled}}
        return leaving(NodeConfig.model_validate(given))

    assert "sums.jsonl stay on this machine" in told(False)
    assert "sums.jsonl: they leave this machine" in told(True)


@pytest.mark.slow
def test_the_environment_asks_those_to_train_on_and_evaluates_those_held_out(
    tmp_path: Path,
) -> None:
    config = settings(write(tmp_path), verifier="number")
    assert tasks_of(config) == (
        "dataset/train",
    ) and "sums.jsonl: they leave this machine" in leaving(config)
    with closing(KIND.start(["dataset/train"], config)) as environment:
        asked = environment.sample(PeerId("peer"), Round(3), 32)
        prompts = environment.prompts(asked)
        assert len(set(prompts)) == 32
        rewards = environment.score(
            [(q, [str(eval(str(p)[:-3])), "x"]) for q, p in zip(asked, prompts, strict=True)]
        )
        assert rewards == [(1.0, 0.0)] * 32
        kept = held_out(environment, environment.count)
        assert {question.config_id for question in kept} == {"held_out"}
        assert len(set(environment.prompts(kept))) == len(kept) == environment.facts.held_out
        assert not set(environment.prompts(kept)) & set(prompts)
        assert all(environment.catalogue.knows(question) for question in asked)
        assert not any(environment.catalogue.knows(question) for question in kept), (
            "a peer's would be trained on"
        )


@pytest.mark.slow
def test_form_and_length_weigh_beside_the_answer_and_no_wrong_one_earns_more_than_a_right_one(
    tmp_path: Path,
) -> None:
    # 11 characters
    rows = [{"question": f"Question {k}", "answer": "1234\n#### 7"} for k in range(20)]
    config = settings(write(tmp_path, rows), form_weight=0.2)
    texts = ["#### 7", "#### 5", "7", "", "#### 7" + " " * 10, "#### 5" + "x" * 30]
    # 0.8 for the answer, 0.1 for its form, 0.1 for its length: 16 characters instead of 11 earn (22
    # - 16) / 11
    graded = (1.0, 0.2, 0.1, 0.1, 0.954545, 0.1)
    assert scored(with_environment(config, scoring="graded"), [texts]) == [graded]
    assert scored(config, [texts]) == [(1.0, 0.0, 0.0, 0.0, 1.0, 0.0)]


HOSTILE = """
def score(completion, answer):
    while completion == "hang":
        pass
    if completion == "raise":
        raise SystemExit
    return {"two": 2.0, "text": "1"}.get(completion, float(completion == answer))
"""


def scored(
    config: LearningConfig, completions: Sequence[Sequence[str]]
) -> list[tuple[float, ...] | Skipped]:
    with closing(build_environment(config)) as environment:
        asked = environment.sample(PeerId("peer"), Round(0), len(completions))
        return environment.score(list(zip(asked, completions, strict=True)))


@pytest.mark.slow
def test_a_verifier_that_never_returns_or_talks_nonsense_costs_its_group(tmp_path: Path) -> None:
    (tmp_path / "my_verifier.py").write_text(HOSTILE)
    config = settings(write(tmp_path), 4.0, verifier=f"{tmp_path}/my_verifier:score")
    said = scored(
        config, [["0", "x"], ["hang", "x"], ["raise", "x"], ["two"], ["text"], ["y", "x"]]
    )
    assert said[1:5] == [
        Skipped("scoring timeout"),
        Skipped("scorer raised"),
        *[Skipped("not a score")] * 2,
    ]
    assert said[5] == (0.0, 0.0) and isinstance(said[0], tuple)


@pytest.mark.slow
def test_a_pattern_that_backtracks_for_ever_costs_its_group(tmp_path: Path) -> None:
    rows = [{"prompt": f"Question {k}", "answer": "(a+)+b"} for k in range(20)]
    said = scored(
        settings(write(tmp_path, rows), 4.0, verifier="regex"),
        [["aab", "x"], ["a" * 64, "x"], ["b", "ab"]],
    )
    assert said == [(1.0, 0.0), Skipped("scoring timeout"), (0.0, 1.0)]


@pytest.mark.slow
def test_mathematics_is_compared_in_the_sandbox(tmp_path: Path) -> None:
    pytest.importorskip("math_verify")
    rows = [{"prompt": f"Question {k}", "answer": "\\frac{1}{2}"} for k in range(20)]
    said = scored(settings(write(tmp_path, rows), verifier="math"), [["0.5", "0.6"], ["2/4", "x"]])
    assert said == [(1.0, 0.0), (1.0, 0.0)]


def test_the_command_shows_what_peers_must_agree_on_and_what_leaves_the_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write(tmp_path, [*ROWS, {"prompt": "0 + 0 = ?", "answer": "0"}])
    dispatch(["task", "try", config.file, "--verifier", "number"])
    shown = capsys.readouterr().out
    dispatch(["task", "try", config.file, "--verifier", "number", "--json"])
    facts = Facts.model_validate_json(capsys.readouterr().out)
    assert "reads prompt -> answer, number: 100 rows" in shown and "\n1 rows occur twice" in shown
    assert f"same version: {facts.version}" in shown and "what leaves this machine" in shown
    with pytest.raises(UserError, match="did you mean 'number'"):
        dispatch(["task", "try", config.file, "--verifier", "nmber"])


def test_held_out_questions_much_like_one_to_train_on_are_counted(tmp_path: Path) -> None:
    long = "Anna has {} apples and gives two of them to each of her friends"
    rows = [{"prompt": long.format(k), "answer": "1"} for k in range(60)]
    assert read(write(tmp_path, rows)).leaking == read(write(tmp_path, rows)).held_out > 0
    assert read(write(tmp_path)).leaking == 0
