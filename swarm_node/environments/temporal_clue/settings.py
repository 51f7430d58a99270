"""The section `temporal_clue`: files of puzzles for the task temporal_clue/published."""

from pathlib import Path
from typing import ClassVar, Self

from swarm_node.settings import WithQuestions
from swarm_node.settings.sections import Section


class TemporalClueConfig(Section):
    """Files of puzzles (prompt, solution) for the task temporal_clue/published."""

    serves: ClassVar[tuple[type[Section], ...]] = (WithQuestions,)

    puzzles: Path | None = None
    """JSON file of puzzles. `model eval` uses each of them once."""
    validation_puzzles: Path | None = None
    """JSON file of puzzles for validation, if that should use other puzzles than training."""

    def in_validation(self) -> Self:
        """See Section."""
        return self.model_copy(update={"puzzles": self.validation_puzzles or self.puzzles})
