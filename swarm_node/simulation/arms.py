"""What a simulation compares: arms (local/external groups per round, and how), each repeated with
several seeds; and how the nodes of an arm differ. Pure data.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, cycle, islice

from protocol.identity import Identity
from swarm_node.common.errors import UserError
from swarm_node.environments.registry import tasks_of, with_environment
from swarm_node.settings.simulation import FaultsConfig, SimulationConfig
from swarm_node.telemetry.simulated import CellRound


def identity(seed: int, node: int) -> Identity:
    """A node's identity, from seed and index alone: with one seed, all arms and engines ask the
    same questions.
    """
    return Identity.from_seed_bytes(hashlib.sha256(f"{seed}/{node}".encode()).digest())


def node_config(config: SimulationConfig, node: int) -> SimulationConfig:
    """The configuration of one node. A list shorter than the swarm starts again from its first
    entry.
    """
    model, environment = config.model, config.environment
    if models := config.node_models:
        model = model.model_copy(update={"name": models[node % len(models)]})
    if config.node_tasks:
        tasks = split_tasks(config.node_tasks[node % len(config.node_tasks)])
        environment = environment.model_copy(update={"tasks": tasks})
    return config.model_copy(update={"model": model, "environment": environment})


def split_tasks(text: str) -> tuple[str, ...]:
    """The tasks of one node from a comma-separated list. UserError if it is empty."""
    tasks = tuple(part.strip() for part in text.split(",") if part.strip())
    if not tasks:
        raise UserError(
            f"--node-tasks {text!r} names no task; an entry is a list such as 'gcd/easy,lcm/easy'"
        )
    return tasks


def local_tasks(config: SimulationConfig, node: int) -> tuple[str, ...]:
    """The tasks that this node practises."""
    return tasks_of(node_config(config, node))


def all_tasks(config: SimulationConfig) -> tuple[str, ...]:
    """The tasks that at least one node practises, in order."""
    of_nodes = (local_tasks(config, node) for node in range(config.nodes))
    return tuple(dict.fromkeys(chain.from_iterable(of_nodes)))


def contributors(config: SimulationConfig) -> frozenset[int]:
    """Nodes that generate and never train. UserError where no node would train."""
    roles_in_turn = islice(cycle(config.node_roles), config.nodes)
    found = frozenset(node for node, role in enumerate(roles_in_turn) if role == "contributor")
    if len(found) == config.nodes:
        raise UserError(
            "--node-roles leaves no learner: name one, as in --node-roles learner contributor"
        )
    return found


def check_lone_nodes(config: SimulationConfig) -> None:
    """UserError where arms without external groups cannot have `lone_nodes` nodes."""
    if not config.lone_nodes:
        return
    lists = (config.node_tasks, config.node_models, config.node_roles)
    turns = max(map(len, lists))
    if min(config.lone_nodes, config.nodes) < min(turns, config.nodes):
        raise UserError(
            f"--lone-nodes {config.lone_nodes} leaves out some of the {turns} kinds of nodes: give "
            f"{turns} or more"
        )
    if config.attack.kind != "none" or config.faults != FaultsConfig():
        raise UserError(
            "--lone-nodes is for a swarm without faults and attacks, which hit only some nodes: "
            "leave it off"
        )


def node_names(config: SimulationConfig) -> list[str]:
    """A short name for each node, from what distinguishes it."""
    names = []
    for node in range(config.nodes):
        own = node_config(config, node)
        parts = [str(node)]
        if config.node_models:
            parts.append(own.model.name)
        if config.node_tasks:
            parts.append(",".join(own.environment.tasks))
        if config.node_roles:
            parts.append(config.node_roles[node % len(config.node_roles)])
        names.append(" ".join(parts))
    return names


WAYS = {  # what may follow the groups of an arm
    "all": "every node trains on the tasks of all nodes; without sharing there is only one node",
    "dynamic_sampling": "a node alone generates groups until enough of them are informative",
    "fill": "external groups also take the places of local groups that teach nothing",
    "imitation": "correct external completions are imitated, and have no advantages",
    "lean": "a node generates no more groups than the local ones that it trains on",
}
# What tables and figures call a way that has another name there
IN_WORDS = {"all": "all tasks", "dynamic_sampling": "dynamic sampling"}
# Names that ways had before: commands, reports and finished cells of that time have them
EARLIER = {"dapo": "dynamic_sampling", "sft": "imitation"}


@dataclass(frozen=True, slots=True)
class Arm:
    """I local and J external groups in the training set of every round. A way may be given by its
    earlier name, too.
    """

    local: int
    external: int
    ways: tuple[str, ...] = ()  # of WAYS, in alphabetical order

    def __post_init__(self) -> None:
        ways = {EARLIER.get(way, way) for way in self.ways}
        object.__setattr__(self, "ways", tuple(sorted(ways)))

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

    @property
    def file_stems(self) -> tuple[str, ...]:
        """Names that the file of this cell can have: its own, and with earlier names of ways."""
        earlier = self.file_stem
        for old, new in EARLIER.items():
            earlier = earlier.replace(new, old)
        return tuple(dict.fromkeys((self.file_stem, earlier)))


@dataclass(frozen=True, slots=True)
class FinishedCell:
    """What is kept of a finished cell."""

    cell: Cell
    rounds: tuple[CellRound, ...]
    peak_mb: float  # memory of its worker and what that started; differs between machines


def parse_arm(text: str) -> Arm:
    """ "4/4" as an arm. UserError if it is not an arm."""
    match = re.fullmatch(r"\s*(\d{1,3})/(\d{1,3})((?::\w+)*)\s*", text, re.ASCII)
    if match is None:
        raise UserError(
            f"arm {text!r} is not I/J: local and external groups, up to 999 each, such as 4/4 or "
            "8/0:all"
        )
    _, *ways = match[3].split(":")
    arm = Arm(int(match[1]), int(match[2]), tuple(ways))
    if unknown := [way for way in arm.ways if way not in WAYS]:
        raise UserError(f"arm {text!r}: there is no {unknown[0]!r}, only {', '.join(WAYS)}")
    if "dynamic_sampling" in arm.ways and arm.external:
        raise UserError(
            f"arm {text!r}: dynamic_sampling needs an arm without external groups, such as "
            "8/0:dynamic_sampling"
        )
    if "fill" in arm.ways and not (arm.local and arm.external):
        raise UserError(f"arm {text!r}: fill needs local and external groups, such as 4/4:fill")
    if arm.local + arm.external == 0:
        raise UserError(
            f"arm {text!r} trains on nothing: local and external groups are both 0; make one of "
            "them larger"
        )
    return arm


def words_of(name: str) -> str:
    """The name of an arm as tables and figures show it: 8/0, dynamic sampling for
    8/0:dynamic_sampling. Earlier names are shown as the present ones.
    """
    groups, *ways = name.split(":")
    present = [EARLIER.get(way, way) for way in ways]
    return ", ".join([groups, *(IN_WORDS.get(way, way) for way in present)])


def parse_arms(texts: Sequence[str]) -> list[Arm]:
    """Arms in the given order. UserError if there is none, or one twice."""
    arms = [parse_arm(text) for text in texts]
    if not arms:
        raise UserError("no arms: give at least one, such as --arms 8/0,4/4")
    for index, arm in enumerate(arms):
        if arm in arms[:index]:
            raise UserError(
                f"arm {arm} is given twice: remove one, and use --seeds to repeat an arm"
            )
    return arms


def all_cells(config: SimulationConfig) -> list[Cell]:
    """All cells, seed by seed, so that the cells finished so far can be compared."""
    arms = parse_arms(config.arms)
    seeds = range(config.seed, config.seed + config.seeds)
    return [Cell(arm, seed) for seed in seeds for arm in arms]


def cell_config(config: SimulationConfig, cell: Cell) -> SimulationConfig:
    """The configuration of one cell: its arm only, its seed, and one thread unless configured."""
    arm, ways, training = cell.arm, cell.arm.ways, config.training
    mix = config.round.model_copy(
        update={"local_groups": arm.local, "external_groups": arm.external}
    )
    if "dynamic_sampling" in ways:
        mix = mix.model_copy(update={"sampler": "informative"})
    if "fill" in ways:
        mix = mix.model_copy(update={"fill": mix.fill or arm.local})
    if "lean" in ways:
        mix = mix.model_copy(update={"questions": min(mix.questions, arm.local)})
    if "imitation" in ways:
        training = training.model_copy(update={"objective": "imitating"})
    whole = {"arms": (str(arm),), "seed": cell.seed, "threads": config.threads or 1}
    own = config.model_copy(update={"round": mix, "training": training, **whole})
    if "all" in ways:
        own = with_environment(own, tasks=all_tasks(own)).model_copy(update={"node_tasks": ()})
    return own.model_copy(update={"nodes": nodes_of(config, arm)})


def nodes_of(config: SimulationConfig, arm: Arm) -> int:
    """The number of nodes of an arm. Nodes that train alone need not be as many as the swarm has,
    and where all of them would practise the same tasks, there is one.
    """
    if arm.external:
        return config.nodes
    return 1 if "all" in arm.ways else min(config.lone_nodes or config.nodes, config.nodes)
