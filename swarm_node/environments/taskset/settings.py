"""The section `taskset`: questions of a task set that was written for the library verifiers."""

import re
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, ValidationInfo
from pydantic_core import PydanticCustomError

from swarm_node.settings import WithQuestions
from swarm_node.settings.secret import UNSHOWN
from swarm_node.settings.sections import Grants, Program, Section, json_object


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
    variables: Annotated[
        tuple[str, ...], AfterValidator(_handed), Grants("variables to hand on")
    ] = ()
    """With alone: names of environment variables that its processes get although they may hold
    secrets, such as OPENAI_API_KEY where another model scores. Never taken from a home.
    """
