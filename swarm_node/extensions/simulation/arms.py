"""What is compared: arms (local/external groups per round, and how), each repeated with several seeds. Pure data."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from swarm_node.common.errors import UserError
from swarm_node.environments.registry import with_environment
from swarm_node.extensions.simulation.events import CellRound
from swarm_node.extensions.simulation.node_options import all_tasks
from swarm_node.extensions.simulation.settings import SimulationConfig

WAYS = {  # what may stand behind an arm
    "all": "every node asks the tasks of all; alone it is one node",
    "dapo": "a node alone asks more, until so many groups are informative",
    "lean": "a node generates no more groups than the local ones that it trains on",
    "sft": "right external completions are imitated, and have no advantages",
}


@dataclass(frozen=True, slots=True)
class Arm:
    """I local and J external groups in the training set of every round."""

    local: int
    external: int
    ways: tuple[str, ...] = ()  # of WAYS

    def __str__(self) -> str:
        return ":".join([f"{self.local}/{self.external}", *self.ways])


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
    match = re.fullmatch(r"\s*(\d{1,3})/(\d{1,3})((?::\w+)*)\s*", text, re.ASCII)
    if match is None:
        raise UserError(f"arm {text!r} is not I/J: local and external groups, up to 999 each, such as 4/4 or 8/0:all")
    arm = Arm(int(match[1]), int(match[2]), tuple(sorted(set(match[3].split(":")[1:]))))
    if unknown := [way for way in arm.ways if way not in WAYS]:
        raise UserError(f"arm {text!r}: there is no {unknown[0]!r}, only {', '.join(WAYS)}")
    if "dapo" in arm.ways and arm.external:
        raise UserError(f"arm {text!r}: dapo is for a node alone, such as 8/0:dapo")
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
    arm, ways, training = cell.arm, cell.arm.ways, config.training
    mix = config.round.model_copy(update={"local_groups": arm.local, "external_groups": arm.external})
    if "dapo" in ways:
        mix = mix.model_copy(update={"sampler": "informative"})
    if "lean" in ways:
        mix = mix.model_copy(update={"questions": min(mix.questions, arm.local)})
    if "sft" in ways:
        training = training.model_copy(update={"objective": "imitating"})
    whole = {"arms": (str(arm),), "seed": cell.seed, "threads": config.threads or 1}
    own = config.model_copy(update={"round": mix, "training": training, **whole})
    if "all" not in ways:
        return own
    nodes = own.nodes if cell.arm.external else 1
    return with_environment(own, tasks=all_tasks(own)).model_copy(update={"node_tasks": (), "nodes": nodes})
