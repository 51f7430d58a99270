"""What is compared: arms (local/external groups per round), each repeated with several seeds. Pure data."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from swarm_node.common.errors import UserError
from swarm_node.environments.registry import with_environment
from swarm_node.extensions.simulation.events import CellRound
from swarm_node.extensions.simulation.node_options import all_tasks
from swarm_node.extensions.simulation.settings import SimulationConfig


@dataclass(frozen=True, slots=True)
class Arm:
    """I local and J external groups in the training set of every round."""

    local: int
    external: int
    generalist: bool = False  # every node asks all tasks of the swarm; alone one such node is enough

    def __str__(self) -> str:
        return f"{self.local}/{self.external}" + (":all" if self.generalist else "")


@dataclass(frozen=True, slots=True)
class Cell:
    """One repetition of one arm: the unit that runs, fails and is resumed as a whole."""

    arm: Arm
    seed: int

    def __str__(self) -> str:
        return f"{self.arm} seed {self.seed}"

    @property
    def file_stem(self) -> str:
        return f"{self.arm}-{self.seed}".replace("/", "_").replace(":", "_")


@dataclass(frozen=True, slots=True)
class Record:
    """What is kept of a finished cell."""

    cell: Cell
    rounds: tuple[CellRound, ...]
    peak_mb: float  # memory of its worker and what that started; differs between machines


def parse_arm(text: str) -> Arm:
    """ "4/4" as an arm. UserError if it is not an arm."""
    match = re.fullmatch(r"\s*(\d{1,3})/(\d{1,3})(:all)?\s*", text, re.ASCII)
    if match is None:
        raise UserError(f"arm {text!r} is not I/J: local and external groups, up to 999 each, such as 4/4 or 8/0:all")
    arm = Arm(int(match[1]), int(match[2]), bool(match[3]))
    if arm.local + arm.external == 0:
        raise UserError(f"arm {text!r} trains on nothing: local and external groups are both 0")
    return arm


def parse_arms(texts: Sequence[str]) -> list[Arm]:
    """Arms in the given order. UserError if there is none, or one twice."""
    arms = [parse_arm(text) for text in texts]
    if not arms:
        raise UserError("no arms: give at least one, such as --arms 8/0,4/4")
    for index, arm in enumerate(arms):
        if arm in arms[:index]:
            raise UserError(f"arm {arm} is given twice")
    return arms


def all_cells(config: SimulationConfig) -> list[Cell]:
    """All cells, seed by seed, so that the cells finished so far can be compared."""
    arms = parse_arms(config.arms)
    return [Cell(arm, config.seed + repetition) for repetition in range(config.seeds) for arm in arms]


def cell_config(config: SimulationConfig, cell: Cell) -> SimulationConfig:
    """The configuration of one cell: its arm only, its seed, and one thread unless configured."""
    arm = {"local_groups": cell.arm.local, "external_groups": cell.arm.external}
    mix = config.round.model_copy(update=arm)
    own = config.model_copy(update={"round": mix, "seed": cell.seed, "threads": config.threads or 1})
    if not cell.arm.generalist:
        return own
    nodes = own.nodes if cell.arm.external else 1
    return with_environment(own, tasks=all_tasks(own)).model_copy(update={"node_tasks": (), "nodes": nodes})
