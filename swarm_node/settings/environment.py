"""The options of environments."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from swarm_node.settings.dataset import DatasetConfig
from swarm_node.settings.sections import PlugIn, Section
from swarm_node.settings.taskset import TasksetConfig


class EnvironmentConfig(Section):
    """Where prompts come from, and how completions are scored."""

    use: tuple[Annotated[str, PlugIn("environments")], ...] = ()
    """Environments from outside: names that installed packages register, or FILE:CLASS for a file beside the
    configuration (my_task:WordReversal). Those that ship need not be named."""
    tasks: tuple[str, ...] = ()
    """Tasks as dataset/config, e.g. chain_sum/easy or temporal_clue/tiny. Empty: dataset/train where `dataset.file` is
    set, taskset/train where `taskset.name` is, else all tasks of the environments in `use`; if `use` is empty too, the
    nine tasks of the starters."""
    puzzles: Path | None = None
    """JSON file of puzzles (prompt, solution) for the task temporal_clue/published."""
    dataset: DatasetConfig = DatasetConfig()
    taskset: TasksetConfig = TasksetConfig()
    scoring: Literal["exact", "graded"] = "exact"
    """exact: reward 1 for a right completion, else 0. graded: with the data set's own partial credit."""
    system: str = ""
    """What the model is told before every prompt, e.g. to give the answer in <answer> tags: the system turn of a chat
    template; for a model without one, a paragraph."""
    time_limit: Annotated[float, Field(gt=0.0)] = 5.0
    """Seconds that scoring one group may take. Then it is stopped and the group is skipped."""
