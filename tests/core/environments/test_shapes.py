"""Files as people have them: what is read of each. `TABLE` is the corpus: a file of each kind, its
first question as a peer is asked it, and its reference answer, or why it is refused.
"""

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from swarm_node.common.errors import UserError
from swarm_node.environments.dataset.compile import compiled
from swarm_node.environments.dataset.environment import Facts
from swarm_node.environments.dataset.source import FileItem, Judge
from swarm_node.scoring.bound import Bounded
from swarm_node.settings.questions import DatasetConfig

OF_PARIS = "Capital of France?\nA. Rome\nB. Paris\nC. Bonn\nD. Oslo"
TEXTS = ["Rome", "Paris", "Bonn", "Oslo"]
ASK = {"question": "Capital of France?"}


class Shape(NamedTuple):
    """A kind of file."""

    name: str
    rows: Any  # objects, or the text of a CSV file
    reads: str  # as `task try` says it; or the beginning of the line that refuses the file
    prompt: str = ""
    answer: Any = ""
    flags: dict[str, Any] = {}  # noqa: RUF012


def padded(answers: list[Any], row: Any) -> list[Any]:
    """A row for each answer: how a file says which option is right, more than one row tells."""
    return [
        {key: value(answer, k) if callable(value) else value for key, value in row.items()}
        for k, answer in enumerate(answers)
    ]


def asked(answer: Any, k: int) -> str:
    return "Capital of France?" if not k else f"Question {k}?"


def given(answer: Any, k: int) -> Any:
    return answer


CHOICE = [
    Shape("MMLU", padded([1, 0, 3, 2], {"question": asked, "subject": "geography",
        "choices": TEXTS, "answer": given}),
        "question + choices -> answer (its position from 0), choice", OF_PARIS, "B"),
    Shape("ARC", padded(["B", "D"], {"id": "x", "question": asked,
        "choices": {"text": TEXTS, "label": ["A", "B", "C", "D"]}, "answerKey": given}),
        "question + choices -> answerKey (its label), choice", OF_PARIS, "B"),
    Shape("ARC with numbers as labels", padded(["2", "4"], {"question": asked,
        "choices": {"text": TEXTS, "label": ["1", "2", "3", "4"]}, "answerKey": given}),
        "question + choices -> answerKey (its label), choice", OF_PARIS, "B"),
    Shape("OpenBookQA", padded(["B"], {"question_stem": asked,
        "choices": {"text": TEXTS, "label": ["A", "B", "C", "D"]}, "answerKey": given}),
        "question_stem + choices -> answerKey (its label), choice", OF_PARIS, "B"),
    Shape("columns A to D of a spreadsheet",
        "question,A,B,C,D,answer\nCapital of France?,Rome,Paris,Bonn,Oslo,B\nb?,1,2,3,4,D\n",
        "question + A to D -> answer (its label), choice", OF_PARIS, "B"),
    Shape("columns A to D, the answer by its text",
        "question,A,B,C,D,answer\nCapital of France?,Rome,Paris,Bonn,Oslo,paris\nb?,1,2,3,4,4\n",
        "question + A to D -> answer (its text), choice", OF_PARIS, "B"),
    Shape("columns A to D, the answer by its position from 1",
        "Question,A,B,C,D,Answer\nCapital of France?,Rome,Paris,Bonn,Oslo,2\nb?,w,x,y,z,4\n",
        "Question + A to D -> Answer (its position from 1), choice", OF_PARIS, "B"),
    Shape("columns Option A to Option D",
        "Question,Option A,Option B,Option C,Option D,Correct,answer\n"
        "Capital of France?,Rome,Paris,Bonn,Oslo,x,(B)\n",
        "Question + Option A to Option D -> answer (its letter), choice", OF_PARIS, "B"),
    Shape("MedMCQA", padded([1, 0, 3], {"question": asked, "opa": "Rome", "opb": "Paris",
        "opc": "Bonn", "opd": "Oslo", "cop": given}),
        "question + opa to opd -> cop (its position from 0), choice", OF_PARIS, "B"),
    Shape("MedQA", padded(["Paris"], {"question": asked,
        "options": dict(zip("ABCD", TEXTS, strict=True)), "answer_idx": "B", "answer": given}),
        "question + options -> answer (its text), choice", OF_PARIS, "B"),
    Shape("MMLU-Pro", padded(["B"], {"question": asked, "options": TEXTS, "answer": given,
        "answer_index": 1}),
        "question + options -> answer (its letter), choice", OF_PARIS, "B"),
    Shape("AQuA", padded(["B"], {"question": asked, "rationale": "see",
        "options": [f"{a}){t}" for a, t in zip("ABCD", TEXTS, strict=True)], "correct": given}),
        "question + options -> correct (its letter), choice", OF_PARIS, "B"),
    Shape("RACE", padded(["B"], {"article": "A text.", "question": asked, "options": TEXTS,
        "answer": given}),
        "article + question + options -> answer (its letter), choice", f"A text.\n\n{OF_PARIS}",
        "B"),
    Shape("HellaSwag", padded(["1", "0", "3"], {"ctx": asked, "endings": TEXTS, "label": given}),
        "ctx + endings -> label (its position from 0), choice", OF_PARIS, "B"),
    Shape("PIQA", padded([1, 0], {"goal": asked, "sol1": "Rome", "sol2": "Paris",
        "label": given}),
        "goal + sol1 to sol2 -> label (its position from 0), choice",
        "Capital of France?\nA. Rome\nB. Paris", "B"),
    Shape("Winogrande", padded(["2", "1"], {"sentence": asked, "option1": "Rome",
        "option2": "Paris", "answer": given}),
        "sentence + option1 to option2 -> answer (its label), choice",
        "Capital of France?\nA. Rome\nB. Paris", "B"),
    Shape("Social IQa", padded(["2", "3", "1"], {"context": "Jo asks.", "question": asked,
        "answerA": "Rome", "answerB": "Paris", "answerC": "Bonn", "label": given}),
        "context + question + answerA to answerC -> label (its position from 1), choice",
        "Jo asks.\n\nCapital of France?\nA. Rome\nB. Paris\nC. Bonn", "B"),
    Shape("options as objects", padded(["b"], {"question": asked,
        "options": [{"id": i, "text": t} for i, t in zip("abcd", TEXTS, strict=True)],
        "answer": given}),
        "question + options -> answer (its label), choice", OF_PARIS, "B"),
    Shape("options as JSON in a CSV cell",
        'question,choices,answer\nCapital of France?,"[""Rome"",""Paris"",""Bonn"",""Oslo""]",1\n',
        "question + choices -> answer (its position from 0), choice", OF_PARIS, "B"),
    Shape("options that the prompt shows already", padded(["B"], {"question": OF_PARIS,
        "choices": TEXTS, "answer": given}),
        "question + choices -> answer (its letter), choice", OF_PARIS, "B"),
    Shape("a template with nested choices", padded(["B"], {"question": asked,
        "choices": {"text": TEXTS, "label": ["A", "B", "C", "D"]}, "answerKey": given}),
        "template + choices -> answerKey (its label), choice", OF_PARIS, "B",
        {"template": "{question}\n{choices.text}"}),
    Shape("a template with whole choices", padded(["B"], {"question": asked,
        "choices": {"text": TEXTS, "label": ["A", "B", "C", "D"]}, "answerKey": given}),
        "template + choices -> answerKey (its label), choice", OF_PARIS, "B",
        {"template": "{question}\n{choices}"}),
]  # fmt: skip
FRANCE = "Capital of France?"
OTHERS = [
    Shape("SQuAD", [{"id": "1", "title": "x", "context": "It is Paris.", **ASK,
        "answers": {"text": ["Paris", "Paris", "the city"], "answer_start": [6, 6, 1]}}],
        "context + question -> answers, exact", f"It is Paris.\n\n{FRANCE}",
        {"any of": ["Paris", "the city"]}),
    Shape("SQuAD with one text", [{"context": "It is Paris.", **ASK,
        "answers": {"text": ["Paris"], "answer_start": [6]}}],
        "context + question -> answers, exact", f"It is Paris.\n\n{FRANCE}", "Paris"),
    Shape("SQuAD 2 without an answer", [{"context": "x", **ASK,
        "answers": {"text": [], "answer_start": []}}], "no question in it: 1 rows: no answer"),
    Shape("TriviaQA", [{**ASK, "answer": {"value": "Paris", "aliases": ["Paris", "City of Paris"],
        "type": "WikipediaEntity", "normalized_value": "paris"}}],
        "question -> answer, exact", FRANCE, {"any of": ["Paris", "City of Paris"]}),
    Shape("Natural Questions", [{**ASK, "answer": ["Paris", "City of Light"]}],
        "question -> answer, exact", FRANCE, {"any of": ["Paris", "City of Light"]}),
    Shape("one answer in a list", [{**ASK, "answer": ["Paris"]}],
        "question -> answer, exact", FRANCE, "Paris"),
    Shape("verl", [{"data_source": "x", "prompt": [{"role": "user", "content": FRANCE}],
        "reward_model": {"style": "rule", "ground_truth": "Paris"}, "ability": "x"}],
        "prompt -> reward_model.ground_truth, exact", FRANCE, "Paris"),
    Shape("search questions of verl", [{"prompt": [{"role": "user", "content": FRANCE}],
        "reward_model": {"style": "rule", "ground_truth": {"target": ["Paris", "Lutetia"]}}}],
        "prompt -> reward_model.ground_truth, exact", FRANCE, {"any of": ["Paris", "Lutetia"]}),
    Shape("a part of an object", [{**ASK, "answer": {"text": "Paris", "score": 7}}],
        "question -> answer.text, exact", FRANCE, "Paris", {"answer": "answer.text"}),
    Shape("an object that is not known", [{**ASK, "answer": {"city": "Paris"}}],
        "no question in it: 1 rows: its answer is an object: name a part"),
    Shape("a list of numbers", [{**ASK, "answer": [1, 2]}],
        "no question in it: 1 rows: its answer is a list of several values: set"),
    Shape("objects compared as JSON", [{**ASK, "answer": {"city": "Paris"}}],
        "question -> answer, json", FRANCE, {"city": "Paris"}, {"verifier": "json"}),
    Shape("a list compared as JSON", [{**ASK, "answer": ["Paris"]}],
        "question -> answer, json", FRANCE, ["Paris"], {"verifier": "json"}),
    Shape("GSM8K", [{**ASK, "answer": "So.\n#### 7"}],
        "question -> answer, number after ####", FRANCE, "So.\n#### 7"),
    Shape("MATH", [{"problem": FRANCE, "solution": "So \\boxed{7}.", "level": "1"}],
        "problem -> solution, number in \\boxed{}", FRANCE, "So \\boxed{7}."),
    Shape("AIME", [{"Problem": FRANCE, "Answer": 7, "ID": "x"}],
        "Problem -> Answer, exact", FRANCE, 7),
    Shape("chats", [{"messages": [{"role": "user", "content": FRANCE},
        {"role": "assistant", "content": "Paris"}]}],
        "messages -> its last turn, exact", FRANCE, "Paris"),
    Shape("Alpaca", [{"instruction": "Translate.", "input": "Haus", "output": "house"}],
        "instruction + input -> output, exact", "Translate.\n\nHaus", "house"),
    Shape("Alpaca without input", [{"instruction": FRANCE, "input": "", "output": "Paris"}],
        "instruction + input -> output, exact", FRANCE, "Paris"),
    Shape("Dolly", [{"instruction": FRANCE, "context": "It is Paris.", "response": "Paris"}],
        "context + instruction -> response, exact", f"It is Paris.\n\n{FRANCE}", "Paris"),
    Shape("BoolQ", [{"passage": "It is.", "question": "is it?", "answer": True}],
        "passage + question -> answer, exact", "It is.\n\nis it?", True),
    Shape("SciQ", [{**ASK, "distractor1": "Rome", "correct_answer": "Paris"}],
        "question -> correct_answer, exact", FRANCE, "Paris"),
    Shape("prompt and completion", [{"prompt": FRANCE, "completion": "Paris"}],
        "prompt -> completion, exact", FRANCE, "Paris"),
    Shape("floats that are integers", [{**ASK, "answer": 39.0}, {"question": "b", "answer": 4.0}],
        "question -> answer, exact", FRANCE, 39),
    Shape("floats", [{**ASK, "answer": 39.0}, {"question": "b", "answer": 4.5}],
        "question -> answer, exact", FRANCE, 39.0),
    Shape("arithmetic with a column a and a column b",
        "question,a,b,answer\nCapital of France?,30,50,80\nx,7,9,16\n",
        "question -> answer, exact", FRANCE, "80"),
    Shape("numbers in a template", [{"a": 39.0, "b": 2, "answer": 41}],
        "template -> answer, exact", "39 + 2 = ?", 41, {"template": "{a} + {b} = ?"}),
    Shape("a nested question", [{"data": {"q": FRANCE}, "meta": {"right": "Paris"}}],
        "data.q -> meta.right, exact", FRANCE, "Paris",
        {"prompt": "data.q", "answer": "meta.right"}),
    Shape("preferences", [{"prompt": FRANCE, "chosen": "Paris", "rejected": "Rome"}],
        "no question in it: 1 rows: no answer; its columns are chosen, prompt, rejected"),
    Shape("ShareGPT", [{"conversations": [{"from": "human", "value": FRANCE},
        {"from": "gpt", "value": "Paris"}]}],
        "no question in it: 1 rows: no prompt; its columns are conversations"),
    Shape("plain text", [{"text": "Paris is nice."}],
        "no question in it: 1 rows: no prompt; its columns are text"),
    Shape("a spreadsheet with semicolons", "question;answer\nCapital of France?;Paris\n",
        "question -> answer, exact", FRANCE, "Paris"),
    Shape("a spreadsheet with decimal commas", "question;answer\nCapital of France?;3,5\n",
        "question -> answer, number", FRANCE, "3,5", {"verifier": "number"}),
    Shape("tabs", "question\tanswer\nCapital of France?\tParis, of course\n",
        "question -> answer, exact", FRANCE, "Paris, of course"),
    Shape("a CSV file with an index", ",question,answer\n0,Capital of France?,Paris\n",
        "question -> answer, exact", FRANCE, "Paris"),
    Shape("a CSV file without a header", "Capital of France?,Paris\nof Italy?,Rome\n",
        "no question in it: 1 rows: no prompt; its columns are Capital of France?, Paris"),
    Shape("headers in capitals", "QUESTION,ANSWER\nCapital of France?,Paris\n",
        "no question in it: 1 rows: no prompt"),
    Shape("MMLU with an answer out of reach", padded([1, 0, 3, 7], {"question": asked,
        "choices": TEXTS, "answer": given}),
        "question + choices -> answer (its position from 0), choice", OF_PARIS, "B"),
]  # fmt: skip
TABLE = [*CHOICE, *OTHERS]


def read_shape(folder: Path, shape: Shape) -> tuple[Facts, dict[str, Any]]:
    """The facts of a file of this shape, and its questions with their answers."""
    text = shape.rows
    file = folder / ("rows.csv" if isinstance(text, str) else "rows.jsonl")
    if not isinstance(text, str):
        text = "".join(json.dumps(row) + "\n" for row in shape.rows)
    file.write_text(text)
    config = DatasetConfig(file=str(file), held_out=0.0).model_copy(update=shape.flags)
    out = folder / "out.json"
    facts = Facts.model_validate(compiled(config, str(out)))
    return facts, dict(json.loads(out.read_text())["rows"]["train"])


@pytest.mark.parametrize("shape", TABLE, ids=lambda shape: shape.name)
def test_what_is_read_of_a_file_of_each_kind(tmp_path: Path, shape: Shape) -> None:
    if not shape.prompt:
        with pytest.raises(UserError) as error:
            read_shape(tmp_path, shape)
        assert str(error.value).startswith(shape.reads) and "\n" not in str(error.value)
        return
    facts, rows = read_shape(tmp_path, shape)
    first = next(text for _, text in facts.notes())
    assert first.startswith(f"reads {shape.reads}: ")
    assert shape.prompt in rows and rows[shape.prompt] == shape.answer
    assert type(rows[shape.prompt]) is type(shape.answer)


def test_the_corpus_holds_sixty_kinds_of_files() -> None:
    assert len({shape.name for shape in TABLE}) == len(TABLE) >= 60


@pytest.mark.parametrize(
    "flags",
    [{"template": "{question}", "verifier": "choice"}, {"verifier": "exact"}],
)
def test_options_that_no_prompt_shows_are_said(tmp_path: Path, flags: dict[str, Any]) -> None:
    facts, rows = read_shape(tmp_path, Shape("", CHOICE[0].rows, "", flags=flags))
    assert rows["Capital of France?"] == 1
    (warned,) = [text for warning, text in facts.notes() if warning and "options" in text]
    assert warned.startswith("4 questions have options in choices that no prompt shows")


def test_questions_that_differ_in_their_options_alone_are_two(tmp_path: Path) -> None:
    rows = [{**ASK, "choices": ["Rome", last], "answer": 1} for last in ("Paris", "the Seine")]
    facts, read = read_shape(tmp_path, Shape("", [*rows, rows[0]], ""))
    assert (len(read), facts.duplicates, facts.contradicting) == (2, 1, 0)


def test_the_order_of_rows_changes_nothing_of_what_is_read(tmp_path: Path) -> None:
    for shape in (shape for shape in TABLE if shape.prompt and not isinstance(shape.rows, str)):
        versions = {
            read_shape(tmp_path, shape._replace(rows=rows))[0].version
            for rows in (shape.rows, shape.rows[::-1])
        }
        assert len(versions) == 1, shape.name


def test_an_answer_that_is_none_of_the_options_is_left_out_by_its_line(tmp_path: Path) -> None:
    facts, _ = read_shape(tmp_path, TABLE[-1])
    assert facts.lines == {"its answer is none of its options": [4]}


def test_dates_and_decimals_of_typed_columns_are_read_as_people_write_them(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    columns = {
        "prompt": ["a", "b", "c", "d"],
        "when": [datetime.date(2020, 3, 5), None, None, None],
        "count": pyarrow.array([39, None, 4, 5], pyarrow.int64()).cast(pyarrow.float64()),
        "price": [Decimal("3.50"), Decimal("4.00"), None, None],
        "moment": [datetime.datetime(2020, 3, 5, 7, 30), datetime.datetime(2020, 3, 5), None, None],
        "gap": pyarrow.array([1.0, float("nan"), 2.0, float("nan")]),
        "label": pyarrow.array([b"x", b"\xff", None, None], pyarrow.binary()),
    }
    file = tmp_path / "x.parquet"
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(columns), file)

    def answers(column: str) -> list[Any]:
        config = DatasetConfig(file=str(file), answer=column, held_out=0.0)
        compiled(config, str(tmp_path / "out.json"))
        rows = json.loads((tmp_path / "out.json").read_text())["rows"]["train"]
        return [answer for _, answer in sorted(rows)]

    assert answers("when") == ["2020-03-05"]
    assert answers("price") == ["3.50", "4.00"]
    assert answers("moment") == ["2020-03-05T07:30:00", "2020-03-05"]
    assert answers("label") == ["x"]
    for column, whole in (("count", [39, 4, 5]), ("gap", [1, 2])):
        assert list(map(repr, answers(column))) == list(map(repr, whole))


def test_what_is_shown_of_an_answer_is_what_is_compared(tmp_path: Path) -> None:
    for verifier, answer, shown in (
        ("json", ["Paris"], '["Paris"]'),
        ("exact", ["Paris"], "Paris"),
        ("exact", ["Paris", "Lutetia"], "Paris | Lutetia"),
        ("number", 39.0, "39"),
        ("exact", True, "true"),
    ):
        shape = Shape("", [{**ASK, "answer": answer}], "", flags={"verifier": verifier})
        facts, _ = read_shape(tmp_path, shape)
        assert facts.examples == [("Capital of France?", shown)]
        shown_first = shown.partition(" | ")[0]
        item = FileItem("", read_shape(tmp_path, shape)[1][FRANCE], judge := Judge(facts.verifier))
        assert item.answer == shown_first and item.score(shown_first) == 1.0, judge


def test_any_answer_of_several_is_right_and_a_shot_shows_the_first() -> None:
    item = Bounded(FileItem("?", {"any of": ["Paris", "City of Light"]}, Judge({"name": "exact"})))
    texts = ["Paris", "City of Light", "Rome", "Paris City of Light"]
    assert list(map(item.score, texts)) == [1.0, 1.0, 0.0, 0.0]
