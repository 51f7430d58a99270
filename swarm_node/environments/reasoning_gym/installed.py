"""Which questions of reasoning-gym can be made on this machine: all where the extra gym is
installed, else those of the starters. Imports little, since scoring processes import it.
"""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from swarm_node.common.errors import UserError
from swarm_node.environments.reasoning_gym.catalogue import STARTER, STARTER_TASKS, TASKS

SOURCE = "swarm_node.environments.reasoning_gym.source"
STARTER_SOURCE = "swarm_node.environments.reasoning_gym.starter"


def is_installed() -> bool:
    """Whether the library is there: the extra gym brings it."""
    return find_spec("reasoning_gym") is not None


def source() -> str:
    """The module that makes questions here: with the library all, without it the starters'."""
    return SOURCE if is_installed() else STARTER_SOURCE


def answerable() -> Mapping[str, tuple[str, ...]]:
    """The tasks whose questions can be made here."""
    return TASKS if is_installed() else dict.fromkeys(STARTER, ("tiny",))


def check_answerable(tasks: Sequence[str]) -> None:
    """Raises UserError for a task that needs the library where it is not installed."""
    known = answerable()
    for task in tasks:
        dataset, _, config_id = task.partition("/")
        if config_id not in known.get(dataset, ()):
            raise UserError(
                f"task {task} needs reasoning-gym, which is not installed: pip install "
                "'textswarm[gym]', which needs a C compiler, or name other tasks, such as "
                f"{STARTER_TASKS[0]}"
            )
