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
    """Questions of a task set of the library `verifiers`: task taskset/train. It has to be
    single-turn, with scores that need nothing but the completion. Peers can share only if they have
    the same questions, code and version of `verifiers`.
    """

    serves: ClassVar[tuple[type[Section], ...]] = (WithQuestions,)
    from_home: ClassVar[frozenset[str]] = frozenset({"held_out"})

    name: Program = ""
    """Name of an installed task set, or FILE.py that exports one (needs the extra verifiers)."""
    options: Annotated[str, AfterValidator(json_object), Grants("what a task set reads")] = ""
    """The task set's own options, as a JSON object, such as '{"split": "test"}'."""
    held_out: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1
    """Share of the questions, chosen by their hash, that no node trains on. `model eval` and
    validation use them.
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
