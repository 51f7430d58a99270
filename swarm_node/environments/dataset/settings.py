"""The section `dataset`: questions of the user's own, from a file."""

from typing import Annotated, ClassVar

from pydantic import Field

from swarm_node.settings import WithQuestions
from swarm_node.settings.secret import Secret
from swarm_node.settings.sections import FileName, PlugIn, Section, Text

VERIFIERS = ("auto", "exact", "number", "choice", "regex", "json", "math")


class DatasetConfig(Section):
    """Questions from a file: task dataset/train. Peers can share only if they have the same rows,
    template and verifier.
    """

    serves: ClassVar[tuple[type[Section], ...]] = (WithQuestions,)
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
