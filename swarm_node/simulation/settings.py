"""Many nodes in one experiment, with faults and hostile nodes."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from swarm_node.settings.programs import BACKENDS, DefenceConfig, LearningConfig
from swarm_node.settings.sections import Alias, Count, PlugIn, Positive, Section, Share, WithCommas


class FaultsConfig(Section):
    """What goes wrong in a simulated swarm."""

    loss: Share = 0.0
    """Probability that a message to one receiver is lost."""
    delay: Count = 0
    """Rounds between publishing and arrival."""
    die: tuple[str, ...] = ()
    """Nodes that die, as NODE@ROUND, e.g. 3@40."""
    join: tuple[str, ...] = ()
    """Nodes that join late, as NODE@ROUND."""
    slow: tuple[str, ...] = ()
    """Slow nodes, which take part in every k-th round only, as NODE@k."""


class AttackConfig(Section):
    """Hostile nodes of a simulation. They know every right answer and send only the attack."""

    kind: Annotated[
        Literal[
            "none", "stealth", "context", "equation", "length", "forge", "flood", "lies", "sybil"
        ],
        Alias("--attack"),
    ] = "none"
    """stealth: right completions with a sign that scores nothing; context: with a phrase that does
    not belong there; equation: with a wrong equation; length: with much white space; forge: texts
    that trick scorers; flood: stealth, ten times as many groups; lies: garbage, replays and
    messages that break a rule; sybil: stealth, new identities.
    """
    share: Share = 0.25
    """Share of the nodes that is hostile: the last ones."""
    payload: str = ""
    """Text of the payload. Empty: the default of the kind."""
    clean: Share = 0.0
    """Share of hostile groups without the payload, for an attacker that hides."""


class SimulationConfig(LearningConfig):
    """Many nodes in one experiment."""

    nodes: Annotated[int, Field(ge=1, le=1000)] = 8
    """Nodes of the swarm, each with its policy."""
    arms: tuple[str, ...] = ("8/0", "6/2", "4/4", "2/6")
    """Local/external groups per round. Behind it, as in 8/0:all, stands what is different: all:
    every node asks the tasks of all, alone as one node; dapo: a node alone asks on until so many
    groups are informative; lean: it generates only the local groups that it trains on; sft: it
    imitates right external completions.
    """
    rounds: Positive = 150
    """Rounds of every arm and seed."""
    seeds: Positive = 1
    """Repetitions of every arm, with seeds seed, seed+1, ..."""
    evaluate_every: Count = 0
    """Rounds between asking every learner held-out questions of all tasks of the swarm; also after
    the last round. 0: never. Takes time, and changes nothing else.
    """
    evaluate_questions: Positive = 8
    """Held-out questions of each task."""
    evaluate_samples: Positive = 4
    """Completions of each of them."""
    out: Path = Path("runs/simulation")
    """Report folder: report.json, report.csv, rewards.png, accuracy.png, manifest.json,
    events.jsonl.
    """
    resume: bool = False
    """Go on with an interrupted run in the same folder: finished arm/seed pairs are kept."""
    overwrite: bool = False
    """Replace an existing report folder."""
    workers: Count = 0
    """Processes that run arm/seed pairs side by side. 0: one per core."""
    faults: FaultsConfig = FaultsConfig()
    attack: AttackConfig = AttackConfig()
    defence: DefenceConfig = DefenceConfig(layers=())
    engine: Literal["memory", "process"] = "memory"
    """memory: all nodes of a cell in one process, deterministic. process: every node a real process
    with a real network, at its own pace.
    """
    node_backends: tuple[Annotated[str, PlugIn("backends", besides=BACKENDS)], ...] = ()
    """Network backends of nodes 0, 1, ... in turn, such as hivemind,libp2p; empty gives every node
    the default.
    """
    node_models: tuple[str, ...] = ()
    """Models of nodes 0, 1, ... in turn, for a heterogeneous swarm; empty gives every node
    model.name.
    """
    node_tasks: Annotated[tuple[str, ...], WithCommas()] = ()
    """Tasks of nodes 0, 1, ... in turn, separated by spaces, each a list with commas:
    gcd/easy,lcm/easy gcd/hard. Empty gives every node the same.
    """
    node_roles: tuple[Literal["learner", "contributor"], ...] = ()
    """Roles of nodes 0, 1, ... in turn. A contributor generates and never trains, as a model behind
    an API does; figures are of learners.
    """
