"""The section `dataset`: questions of the user's own, from a file."""

from typing import Annotated, ClassVar

from pydantic import Field

from swarm_node.settings import WithQuestions
from swarm_node.settings.sections import PlugIn, Section

VERIFIERS = ("exact", "number", "choice", "regex", "json", "math")


class DatasetConfig(Section):
    """Questions from a file: task dataset/train. Peers train together that have the same rows, template and
    verifier."""

    serves: ClassVar[tuple[type[Section], ...]] = (WithQuestions,)

    file: str = ""
    """JSON Lines (.jsonl), CSV (.csv), Parquet (.parquet, needs the extra data), or a Hugging Face data set as
    hf:NAME, hf:NAME:CONFIG or hf:NAME:CONFIG:SPLIT (needs the extra data)."""
    prompt: str = "prompt"
    """Column of the question: text, or chat messages with role and content."""
    answer: str = "answer"
    """Column of the reference answer, which the verifier compares with."""
    template: str = ""
    """Text of a question with columns in braces, such as "{context}\\n\\n{question}". Empty: the column `prompt`."""
    verifier: Annotated[str, PlugIn("verifiers", besides=VERIFIERS)] = "exact"
    """exact: same text but for white space. number: same value, whatever its separators; a unit counts where both have
    one. choice: same letter. regex: the answer column is a pattern that the whole completion matches. json: equal
    values. math: equal by math-verify (needs the extra math). Or FILE:FUNCTION beside the configuration."""
    tolerance: Annotated[float, Field(ge=0.0)] = 0.0
    """number: how far off a right answer may be, as a share of it."""
    held_out: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1
    """Share of the questions, chosen by their hash, that nobody trains on: `model eval` and validation ask them."""
