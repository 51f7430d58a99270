"""The section `dataset`: questions of the user's own, from a file."""

from typing import Annotated, ClassVar

from pydantic import Field

from swarm_node.settings import WithQuestions
from swarm_node.settings.secret import Secret
from swarm_node.settings.sections import FileName, PlugIn, Section, Text

VERIFIERS = ("auto", "exact", "number", "choice", "regex", "json", "math")


class DatasetConfig(Section):
    """Questions from a file: task dataset/train. Peers train together that have the same rows,
    template and verifier.
    """

    serves: ClassVar[tuple[type[Section], ...]] = (WithQuestions,)
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
