"""Where prompts come from and how completions are scored."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from swarm_node.settings.dataset import DatasetConfig
from swarm_node.settings.sections import PlugIn, Positive, Section


class EnvironmentConfig(Section):
    """Where prompts come from, and how completions are scored."""

    use: tuple[Annotated[str, PlugIn("environments")], ...] = ()
    """Environments from outside: names that installed packages register, or FILE:CLASS for a file beside the
    configuration (my_task:WordReversal). Those that ship need not be named."""
    tasks: tuple[str, ...] = ()
    """Tasks as dataset/config, e.g. chain_sum/easy or temporal_clue/tiny. Empty: dataset/train where
    `dataset.file` is set, else all tasks of the environments in use; where none is in `use`, the nine tasks the
    starters know."""
    puzzles: Path | None = None
    """JSON file of puzzles (prompt, solution) that the task temporal_clue/published asks."""
    dataset: DatasetConfig = DatasetConfig()
    scoring: Literal["exact", "graded"] = "exact"
    """exact: 1 for a right completion, else 0; graded: the data set's own partial credit."""
    instruction: str = ""
    """A paragraph put after every question, e.g. to ask a chat model for the answer in <answer> tags."""
    time_limit: Annotated[float, Field(gt=0.0)] = 5.0
    """Seconds that scoring one group may take. After that it is stopped and the group skipped."""
    scoring_processes: Positive = 1
    """Processes that score groups side by side. For verifiers that cost time; those of reasoning-gym do not."""
    memory_limit: Positive = 1024
    """Megabytes that a scoring process may use."""
