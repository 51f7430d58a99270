"""What is asked, and how completions are scored: the sections of questions."""

import re
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo
from pydantic_core import PydanticCustomError

from protocol.limits import MAX_TURNS
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
        {"tasks", "at_once", "choose", "scoring", "answer", "shots", "system"}
    )
    use: tuple[Annotated[str, PlugIn("environments")], ...] = ()
    """Environments from elsewhere: names that installed packages register, or FILE:CLASS for a file
    next to the configuration, such as my_task:WordReversal. The environments of this program need
    not be named.
    """
    tasks: tuple[Text, ...] = ()
    """Tasks to train on, as dataset/config, such as chain_sum/easy or temporal_clue/tiny. Empty:
    the tasks of questions that you bring, such as those of a file, otherwise all tasks of the
    environments in `use`. If `use` is empty too: the nine tasks of the starters.
    """
    at_once: Count = 0
    """Number of tasks to train on at the same time. The node works through the list, and moves on
    from a task when it gets 90 % of the held-out questions right (this needs `validation.every`).
    0: all tasks at once. An asynchronous node stays with the tasks it started with. With `choose`:
    the largest number of tasks that are practised at the same time, and 0 stands for 10.
    """
    choose: bool = False
    """Let the node choose among the tasks by what its model can do. It asks each task two
    questions, practises those that it gets right sometimes and not always, drops what is learned or
    too hard, and comes back to it later. Without it, the node takes the tasks as they are listed. A
    simulation and a contributor always do that.
    """
    scoring: Literal["exact", "graded"] = "exact"
    """exact: the reward is 1 for a correct completion, otherwise 0. graded: the data set's own
    partial credit counts as well.
    """
    answer: AnswerForm = "auto"
    """Where in a completion the answer is; the prompt tells the model. auto: what the environment
    prefers, which is whole for most. whole: the completion is the answer and nothing else. The
    other forms allow text around the answer, such as reasoning. That text is trained on, but it
    earns no reward by itself: first_line, tags (<answer>), boxed (\\boxed{}), hashes (after ####),
    last_number, and anywhere, where the task's verifier looks for the answer in the whole text.
    Thinking (<think>) is not part of an answer, except with whole and first_line, where it makes
    the answer wrong.
    """
    shots: Count = 0
    """Number of few-shot examples: questions of the same task, with their answers, that come before
    each question. Held-out questions are never used for this. 0: as many as the task has by itself.
    """
    system: Text = ""
    """What the model is told before every prompt: the system turn of a chat template or, for a
    model without a template, a paragraph of its own.
    """
    time_limit: Annotated[float, Field(gt=0.0), Grants("more time for a scorer")] = 5.0
    """Seconds that scoring one group may take. After that scoring is stopped, and the group is
    skipped.
    """


class DatasetConfig(Section):
    """Questions from a file: task dataset/train. Peers can share only if they have the same rows,
    template and verifier.
    """

    from_home: ClassVar[frozenset[str]] = frozenset(
        {"prompt", "answer", "template", "tolerance", "form_weight", "held_out"}
    )

    file: FileName = ""
    """JSON Lines (.jsonl), a JSON array (.json or .jsonl), CSV (.csv, .tsv), Parquet (.parquet,
    needs the extra data), or a Hugging Face data set as hf:NAME, hf:NAME:CONFIG or
    hf:NAME:CONFIG:SPLIT (needs the extra data).
    """
    prompt: Text = ""
    """Column with the question: text, or chat messages with role and content. `a.b` is a part of a
    column. Empty: the first column found among prompt, question, problem, messages and the names
    that well-known data sets use, with the context above it.
    """
    answer: Text = ""
    """Column with the reference answer, with which the verifier compares. `a.b` is a part of a
    column. Empty: the first column found among answer, solution and the names that well-known data
    sets use, otherwise the last turn of the messages.
    """
    template: Text = ""
    """Text of a question, with columns in braces, such as "{context}\\n\\n{question}", or parts of
    columns, such as {choices.text}. Empty: the column `prompt`, followed by the options of the row
    if it has any.
    """
    verifier: Annotated[str, PlugIn("verifiers", besides=VERIFIERS)] = "auto"
    """How an answer is compared with the reference answer. auto: choice if the rows have options;
    number or math if most reference answers end after ####, as in GSM8K, or in \\boxed{}, as in
    MATH, and completions then give their answer in the same place; otherwise exact. exact: same
    text, apart from white space. number: same value, whatever its separators; units are compared if
    both have one, and several numbers are compared as a whole. choice: same letter. regex: the
    answer column is a pattern that the whole completion must match. json: equal values. math: equal
    according to math-verify (needs the extra math). Or FILE:FUNCTION next to the configuration.
    """
    tolerance: Annotated[float, Field(ge=0.0)] = 0.0
    """For the verifier number: how far a correct answer may be from the reference answer, as a
    share of it.
    """
    form_weight: Annotated[float, Field(ge=0.0, lt=0.5)] = 0.0
    """Share of the reward that is given for form instead of correctness. Half of it is for putting
    the answer where `environment.answer` says, half for being no longer than the longest reference
    answer (falling to zero at twice that length). Only with `environment.scoring` graded.
    """
    salt: Secret = Secret("")
    """For private questions: a random text that the members of a swarm tell each other. Without it,
    anybody who has the same file can recognise in your messages that you use it.
    """
    held_out: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1
    """Share of the questions, chosen by their hash, that no node trains on. `model eval` and
    validation use them.
    """


def _handed(names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    """Returns these names. A wrong name is not shown, since it may be a secret itself."""
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
    """Questions of a task set of the library `verifiers`: task taskset/train. Its scores have to
    need nothing but the completion, or the turns of an episode with tools or a conversation. Peers
    can share only if they have the same questions, code and version of `verifiers`.
    """

    from_home: ClassVar[frozenset[str]] = frozenset({"held_out"})

    name: Program = ""
    """Name of an installed task set, or FILE.py that exports one (needs the extra verifiers)."""
    options: Annotated[str, AfterValidator(json_object), Grants("what a task set reads")] = ""
    """The task set's own options, as a JSON object, such as '{"split": "test"}'."""
    held_out: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1
    """Share of the questions, chosen by their hash, that no node trains on. `model eval` and
    validation use them.
    """
    turns: Annotated[int, Field(ge=2, le=MAX_TURNS)] = 6
    """Most turns of an episode, in a task set with tools or a conversation. Peers can share only
    with the same number.
    """
    alone: Annotated[bool, Grants("scores outside of the sandbox")] = False
    """Train alone, on a task set whose scores need more than the completion, such as the network or
    another model. The scores are computed outside the sandbox, your completions are not published,
    and no completions of peers are scored with it.
    """
    variables: Annotated[
        tuple[str, ...], AfterValidator(_handed), Grants("variables to hand on")
    ] = ()
    """With alone: names of environment variables that the processes of the task set can read
    although they may contain secrets, such as OPENAI_API_KEY if another model scores. Never taken
    from a home folder.
    """


class TemporalClueConfig(Section):
    """Files of puzzles (prompt, solution) for the task temporal_clue/published."""

    puzzles: Path | None = None
    """JSON file of puzzles. `model eval` uses each of them once."""
    validation_puzzles: Path | None = None
    """JSON file of puzzles for validation, if that should use other puzzles than training."""

    def in_validation(self) -> Self:
        """See Section."""
        return self.model_copy(update={"puzzles": self.validation_puzzles or self.puzzles})
