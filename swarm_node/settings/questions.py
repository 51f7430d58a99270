"""What is asked, and how completions are scored: the sections of questions."""

import re
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo
from pydantic_core import PydanticCustomError

from swarm_node.settings.secret import UNSHOWN, Secret
from swarm_node.settings.sections import (
    Count,
    FileName,
    Grants,
    PlugIn,
    Program,
    Section,
    Text,
    json_object,
)

AnswerForm = Literal[
    "auto", "whole", "first_line", "tags", "boxed", "hashes", "last_number", "anywhere"
]
# How configurations call the sections of this module
QUESTION_SECTIONS = frozenset({"environment", "dataset", "taskset", "temporal_clue"})
VERIFIERS = ("auto", "exact", "number", "choice", "regex", "json", "math")


class EnvironmentConfig(Section):
    """Where prompts come from, and how completions are scored."""

    from_home: ClassVar[frozenset[str]] = frozenset(
        {"tasks", "at_once", "scoring", "answer", "shots", "system"}
    )
    use: tuple[Annotated[str, PlugIn("environments")], ...] = ()
    """Environments from outside: names that installed packages register, or FILE:CLASS for a file
    beside the configuration (my_task:WordReversal). Those that ship need not be named.
    """
    tasks: tuple[Text, ...] = ()
    """Tasks as dataset/config, e.g. chain_sum/easy or temporal_clue/tiny. Empty: the tasks of
    questions that you bring, such as those of a file, else all tasks of the environments in `use`;
    if `use` is empty too, the nine tasks of the starters.
    """
    at_once: Count = 0
    """So many of the tasks are asked at a time: the first of the list that do not stand at 0.9 on
    held-out questions, which needs validation. 0: all. An asynchronous node stays with those it
    began with.
    """
    scoring: Literal["exact", "graded"] = "exact"
    """exact: reward 1 for a right completion, else 0. graded: with the data set's own partial
    credit.
    """
    answer: AnswerForm = "auto"
    """Where a completion gives its answer; the prompt says so. auto: as the environment has it,
    mostly whole. whole: nothing but the answer. The others leave room for more, which is trained on
    unpaid: first_line, tags (<answer>), boxed (\\boxed{}), hashes (behind ####), last_number, and
    anywhere, where the task's verifier looks for the answer in all of the text. Thinking (<think>)
    is no part of an answer, except with whole and first_line, where it makes the answer wrong.
    """
    shots: Count = 0
    """Questions of the same task that stand with their answers before each question; never held-out
    ones. 0: as many as the task has by itself.
    """
    system: Text = ""
    """What the model is told before every prompt: the system turn of a chat template; for a model
    without one, a paragraph.
    """
    time_limit: Annotated[float, Field(gt=0.0), Grants("more time for a scorer")] = 5.0
    """Seconds that scoring one group may take. Then it is stopped and the group is skipped."""


class DatasetConfig(Section):
    """Questions from a file: task dataset/train. Peers train together that have the same rows,
    template and verifier.
    """

    from_home: ClassVar[frozenset[str]] = frozenset(
        {"prompt", "answer", "template", "tolerance", "form_weight", "held_out"}
    )

    file: FileName = ""
    """JSON Lines (.jsonl), an array of JSON (.json or .jsonl), CSV (.csv, .tsv), Parquet (.parquet,
    needs the extra data), or a Hugging Face data set as hf:NAME, hf:NAME:CONFIG or
    hf:NAME:CONFIG:SPLIT (needs the extra data).
    """
    prompt: Text = ""
    """Column of the question: text, or chat messages with role and content; `a.b` is a part of a
    column. Empty: the first there is of prompt, question, problem, messages and what known data
    sets have, with the context above it.
    """
    answer: Text = ""
    """Column of the reference answer, which the verifier compares with; `a.b` is a part of a
    column. Empty: the first there is of answer, solution and what known data sets have, else the
    last turn of the messages.
    """
    template: Text = ""
    """Text of a question with columns in braces, such as "{context}\\n\\n{question}", or parts of
    them as {choices.text}. Empty: the column `prompt`, with the options of the row below it.
    """
    verifier: Annotated[str, PlugIn("verifiers", besides=VERIFIERS)] = "auto"
    """auto: choice where the rows have options; where most answers end behind ####, as GSM8K's, or
    in \\boxed{}, as MATH's, these are compared by number or math, and a completion gives its own
    there; else exact. exact: same text but for white space. number: same value, whatever its
    separators; a unit counts where both have one, and several numbers are compared as a whole.
    choice: same letter. regex: the answer column is a pattern that the whole completion matches.
    json: equal values. math: equal by math-verify (needs the extra math). Or FILE:FUNCTION beside
    the configuration.
    """
    tolerance: Annotated[float, Field(ge=0.0)] = 0.0
    """number: how far off a right answer may be, as a share of it."""
    form_weight: Annotated[float, Field(ge=0.0, lt=0.5)] = 0.0
    """With environment.scoring graded: share of a reward for giving an answer where
    environment.answer says, and for being no longer than the longest reference answer, half each;
    from twice that length there is nothing.
    """
    salt: Secret = Secret("")
    """For private questions: a random text that the members of a swarm tell each other. Without it,
    who guesses the file can see in messages that it is the one.
    """
    held_out: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1
    """Share of the questions, chosen by their hash, that nobody trains on: `model eval` and
    validation ask them.
    """


def _handed(names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    """The same names. A wrong one is not shown, since it may be a secret itself."""
    if not all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) for name in names):
        raise PydanticCustomError(
            UNSHOWN, "must be names of environment variables, such as OPENAI_API_KEY, not values"
        )
    if names and not info.data.get("alone"):
        raise PydanticCustomError(
            UNSHOWN, "are only for a task set that is trained on alone: add --taskset.alone"
        )
    return names


class TasksetConfig(Section):
    """Questions of a task set of verifiers: task taskset/train. Single-turn ones, whose scores need
    nothing but the completion. Peers train together that have the same questions, code and version
    of verifiers.
    """

    from_home: ClassVar[frozenset[str]] = frozenset({"held_out"})

    name: Program = ""
    """An installed task set by its name, or FILE.py that exports one (needs the extra
    verifiers).
    """
    options: Annotated[str, AfterValidator(json_object), Grants("what a task set reads")] = ""
    """The task set's own options, as a JSON object: '{"split": "test"}'."""
    held_out: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1
    """Share of the questions, chosen by their hash, that nobody trains on: `model eval` and
    validation ask them.
    """
    alone: Annotated[bool, Grants("scores outside of the sandbox")] = False
    """Train alone on a task set that needs more, such as the network or another model. Its scores
    are computed outside the sandbox, nothing of it is published, and nothing of others is scored by
    it.
    """
    variables: Annotated[
        tuple[str, ...], AfterValidator(_handed), Grants("variables to hand on")
    ] = ()
    """With alone: names of environment variables that its processes get although they may hold
    secrets, such as OPENAI_API_KEY where another model scores. Never taken from a home.
    """


class TemporalClueConfig(Section):
    """Files of puzzles (prompt, solution) for the task temporal_clue/published."""

    puzzles: Path | None = None
    """JSON file of puzzles. `model eval` asks each of them once."""
    validation_puzzles: Path | None = None
    """JSON file of puzzles for validation, where that is to differ from what is trained on."""

    def in_validation(self) -> Self:
        """See Section."""
        return self.model_copy(update={"puzzles": self.validation_puzzles or self.puzzles})
