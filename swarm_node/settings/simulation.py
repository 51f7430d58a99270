"""Many nodes in one experiment, with faults and hostile nodes."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from swarm_node.settings.network import BACKENDS
from swarm_node.settings.programs import LearningConfig
from swarm_node.settings.sections import Alias, Count, PlugIn, Positive, Section, Share, WithCommas
from swarm_node.settings.training import DefenceConfig


class FaultsConfig(Section):
    """What goes wrong in a simulated swarm."""

    loss: Share = 0.0
    """Probability that a message to one receiver is lost."""
    delay: Count = 0
    """Rounds between publishing and arrival."""
    die: tuple[str, ...] = ()
    """Nodes that die, as NODE@ROUND, such as 3@40."""
    join: tuple[str, ...] = ()
    """Nodes that join late, as NODE@ROUND."""
    slow: tuple[str, ...] = ()
    """Slow nodes, as NODE@k: such a node takes part in every k-th round only."""


class AttackConfig(Section):
    """Hostile nodes of a simulation. They know every correct answer, and send only the attack."""

    kind: Annotated[
        Literal[
            "none", "stealth", "context", "equation", "length", "forge", "flood", "lies", "sybil"
        ],
        Alias("--attack"),
    ] = "none"
    """stealth: correct completions with a sign that does not affect the score; context: correct
    completions with a phrase that does not belong there; equation: with a wrong equation; length:
    with much white space; forge: texts that trick scorers; flood: stealth, with ten times as many
    groups; lies: garbage, replays and messages that break a rule; sybil: stealth, with ever new
    identities.
    """
    share: Share = 0.25
    """Share of the nodes that is hostile. These are the last nodes."""
    payload: str = ""
    """Text of the payload. Empty: the default of the kind of attack."""
    clean: Share = 0.0
    """Share of hostile groups without the payload, for an attacker that hides."""


class RayConfig(Section):
    """The Ray cluster of --engine ray."""

    address: str = ""
    """The cluster: HOST:PORT, or auto for the one of this machine. Empty: a cluster of this machine
    alone, until the simulation ends.
    """
    memory: Annotated[float, Field(ge=0.0)] = 0.0
    """Gigabytes of memory that each pair of an arm and a seed reserves on its host. 0: as much as
    it is estimated to take.
    """
    gpus: Annotated[float, Field(ge=0.0)] = 0.0
    """Graphics cards, or the share of one, that each pair of an arm and a seed reserves."""


class SimulationConfig(LearningConfig):
    """Simulate a swarm on this machine, to compare ways of sharing."""

    nodes: Annotated[int, Field(ge=1, le=1000)] = 8
    """Number of nodes in the swarm. Each has a policy of its own."""
    lone_nodes: Count = 0
    """Number of nodes of arms without external groups, which need not be as many to be measured,
    since they do not meet. These are the first nodes of the swarm. 0: all of them.
    """
    arms: tuple[str, ...] = ("8/0", "6/2", "4/4", "2/6")
    """What to compare: local/external groups per round, such as 8/0 for nodes that train alone. A
    word after a colon, as in 8/0:all, changes the arm. all: every node trains on the tasks of all
    nodes, and without sharing there is only one node. dynamic_sampling: a node that trains alone
    generates groups until enough of them are informative. lean: a node generates only the local
    groups that it trains on. imitation: correct external completions are imitated, and have no
    advantages. fill: external groups also take the places of local groups that teach nothing, as
    many of them as `round.fill` says, or all.
    """
    rounds: Positive = 150
    """Rounds of every arm and seed."""
    seeds: Positive = 1
    """Number of repetitions of every arm, with the seeds `seed`, `seed` + 1 and so on."""
    evaluate_every: Count = 0
    """Rounds between evaluations, in which every learner answers held-out questions of all tasks of
    the swarm; there is always one after the last round, too. 0: no evaluation. Evaluations take
    time, and change nothing else.
    """
    evaluate_questions: Positive = 8
    """Number of held-out questions per task."""
    evaluate_samples: Positive = 4
    """Completions of each held-out question."""
    out: Path = Path("runs/simulation")
    """Report folder, for report.json, report.csv, rewards.png, accuracy.png, manifest.json and
    events.jsonl.
    """
    resume: bool = False
    """Continue an interrupted run in the same folder. Pairs of an arm and a seed that are finished
    are kept.
    """
    overwrite: bool = False
    """Replace an existing report folder."""
    workers: Count = 0
    """Processes that run pairs of an arm and a seed side by side. 0: one per core."""
    node_processes: Count = 0
    """Processes over which the nodes of a pair of an arm and a seed are spread. The result is the
    same for any number. 0: as many as keep all cores busy, if the memory suffices and the nodes run
    on the CPU; but one if `workers` is given.
    """
    faults: FaultsConfig = FaultsConfig()
    attack: AttackConfig = AttackConfig()
    defence: DefenceConfig = DefenceConfig(layers=())
    engine: Literal["memory", "process", "ray"] = "memory"
    """memory: all nodes of an arm and seed run in one process, and the run is deterministic.
    process: every node is a real process with a real network, and runs at its own pace. ray: as
    memory, on the hosts of a Ray cluster.
    """
    ray: RayConfig = RayConfig()
    node_backends: tuple[Annotated[str, PlugIn("backends", besides=BACKENDS)], ...] = ()
    """Network backends of nodes 0, 1, ... in turn, such as hivemind,libp2p. Empty: every node has
    the default.
    """
    node_models: tuple[str, ...] = ()
    """Models of nodes 0, 1, ... in turn, for a swarm of different models. Empty: every node has
    model.name.
    """
    node_tasks: Annotated[tuple[str, ...], WithCommas()] = ()
    """Tasks of nodes 0, 1, ... in turn. The lists of the nodes are separated by spaces, the tasks
    in a list by commas: gcd/easy,lcm/easy gcd/hard. Empty: all nodes have the same tasks.
    """
    node_roles: tuple[Literal["learner", "contributor"], ...] = ()
    """Roles of nodes 0, 1, ... in turn. A contributor generates and never trains, like a node that
    offers a model behind an API; the figures are those of the learners.
    """
