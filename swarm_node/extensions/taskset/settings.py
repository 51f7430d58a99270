"""The section `taskset`: questions of a task set that was written for the library verifiers."""

import json
from typing import Annotated, Any, ClassVar

from pydantic import Field, field_validator

from swarm_node.settings import WithQuestions
from swarm_node.settings.sections import Section


class TasksetConfig(Section):
    """Questions of a task set of verifiers: task taskset/train. Single-turn ones, whose scores need nothing but the
    completion. Peers train together that have the same questions, code and version of verifiers."""

    serves: ClassVar[tuple[type[Section], ...]] = (WithQuestions,)

    name: str = ""
    """An installed task set by its name, or FILE.py that exports one (needs the extra verifiers)."""
    options: str = ""
    """The task set's own options, as a JSON object: '{"split": "test"}'."""
    held_out: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1
    """Share of the questions, chosen by their hash, that nobody trains on: `model eval` and validation ask them."""
    alone: bool = False
    """Train alone on a task set that needs more, such as the network or another model. Its scores are computed outside
    the sandbox, nothing of it is published, and nothing of others is scored by it."""

    @field_validator("options")
    @classmethod
    def _object(cls, text: str) -> str:
        try:
            found: Any = json.loads(text or "{}")
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ValueError('should be a JSON object, such as \'{"split": "test"}\'')
        return text
