"""The section `taskset`: questions of a task set that was written for the library verifiers."""

from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from swarm_node.settings import WithQuestions
from swarm_node.settings.sections import Grants, Program, Section, json_object


class TasksetConfig(Section):
    """Questions of a task set of verifiers: task taskset/train. Single-turn ones, whose scores need
    nothing but the completion. Peers train together that have the same questions, code and version
    of verifiers.
    """

    serves: ClassVar[tuple[type[Section], ...]] = (WithQuestions,)
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
