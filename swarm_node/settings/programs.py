"""One configuration for each command that has one."""

from pathlib import Path
from typing import Annotated, Literal

import tyro
from pydantic import Field

from swarm_node.settings.environment import EnvironmentConfig
from swarm_node.settings.model import GenerationConfig, ModelConfig
from swarm_node.settings.network import NetworkConfig
from swarm_node.settings.sections import Count, PlugIn, Positive, Section
from swarm_node.settings.training import AsynchronousConfig, DefenceConfig, PoolConfig, RoundConfig, TrainingConfig


class TrackingConfig(Section):
    """Where the figures of every round go, beside events.jsonl."""

    to: tuple[Annotated[str, PlugIn("trackers")], ...] = ()
    """Trackers: registered names, or FILE:CLASS. csv writes rounds.csv into the folder of the run."""


class CheckpointConfig(Section):
    """When to save, and how much to keep."""

    every: Positive = 20
    """Rounds between checkpoints. One is always written when the node stops."""
    keep: Positive = 2
    """Checkpoints kept on disk."""


class ValidationConfig(Section):
    """Held-out questions between rounds. Off by default: it costs generation."""

    every: Count = 0
    """Rounds between validations; 0 turns them off. The checkpoint with the highest reward is kept in the folder
    `best` of the home, beside the last ones."""
    questions: Positive = 64
    """Held-out questions of each validation, over the tasks in turn; always the same ones."""
    tasks: tuple[str, ...] = ()
    """Tasks to validate on; empty takes those trained on."""
    puzzles: Path | None = None
    """Puzzle file of temporal_clue/published in validation, so that it is not the one trained on."""


class LearningConfig(Section):
    """What a node learns with and from; shared by one node and by a simulation of many."""

    model: ModelConfig = ModelConfig()
    generation: GenerationConfig = GenerationConfig()
    round: RoundConfig = RoundConfig()
    training: TrainingConfig = TrainingConfig()
    environment: EnvironmentConfig = EnvironmentConfig()
    pool: PoolConfig = PoolConfig()
    defence: DefenceConfig = DefenceConfig()
    asynchronous: AsynchronousConfig = AsynchronousConfig()
    tracking: TrackingConfig = TrackingConfig()
    swarm: Annotated[str, Field(pattern=r"^[A-Za-z0-9._+-]{1,64}$")] = "public"
    """Name of the swarm; messages of other swarms are refused."""
    seed: Count = 0
    """Seed of every random choice."""
    threads: Count = 0
    """CPU threads for tensor maths; 0 leaves the choice to torch for one node, and means 1 in a simulation."""


class SamplesConfig(Section):
    """Rollouts kept for looking at: at most one a second, in the files rollouts*.jsonl of the home."""

    enabled: bool = True
    """Keep samples. They hold text of strangers."""
    kilobytes: Annotated[int, Field(ge=2048)] = 4096
    """Kilobytes that the samples take on disk at most."""


class NodeConfig(LearningConfig):
    """One node."""

    home: Path = Path("~/.swarm-node")
    """Folder that holds identity, checkpoints and logs. Nothing is written anywhere else."""
    max_rounds: Count = 0
    """Stop after this many rounds in all, counting those before a resume; 0 goes on until interrupted."""
    checkpoint: CheckpointConfig = CheckpointConfig()
    validation: ValidationConfig = ValidationConfig()
    samples: SamplesConfig = SamplesConfig()
    page: str = ""
    """HOST:PORT of a page that shows this node in a browser, a process of its own; --page alone takes 127.0.0.1:8420.
    Empty: none."""
    page_names: tuple[str, ...] = ()
    """Host names by which that page is reached; numbers and localhost always work."""
    page_public: bool = False
    """Show the public view there at / without a token."""
    page_open_metrics: bool = False
    """Answer /metrics there without a token."""
    network: NetworkConfig = NetworkConfig()


class CheckConfig(NodeConfig):
    """What a configuration comes to on this machine."""

    all: bool = False
    """Show every option, not only those that differ from their defaults."""


class BootstrapConfig(Section):
    """A bootstrap and relay node: others find and reach each other by it."""

    home: Path = Path("~/.swarm-node")
    """Folder that holds identity and known peers."""
    port: Annotated[int, Field(ge=0, le=65535)] = 31330
    """TCP and UDP port to listen on; others have to be able to reach it. 0 takes a free one."""
    host: str = "0.0.0.0"  # noqa: S104 - others are meant to connect
    """Address to listen on."""
    announce: tuple[str, ...] = ()
    """Addresses to tell others, as multiaddrs, where the node cannot see them itself (a forwarded port)."""
    peers: tuple[str, ...] = ()
    """Other bootstrap nodes as full multiaddrs, so that they know of each other (repeat it, or give several)."""
    backend: Literal["hivemind", "libp2p"] = "hivemind"
    """Library that carries the messages."""
    swarm: Annotated[str, Field(pattern=r"^[A-Za-z0-9._+-]{1,64}$")] = "public"
    """Name of the swarm."""
    max_connections: Positive = 512
    """Peers connected at the same time."""
    upload_limit: Positive = 4096
    """Kilobytes per second that others may fetch from this node, all together."""
    page: str = ""
    """HOST:PORT of a page with the public view of the swarm, a process of its own; --page alone takes 127.0.0.1:8420.
    Empty: none."""
    page_names: tuple[str, ...] = ()
    """Host names by which that page is reached; numbers and localhost always work."""
    page_open_metrics: bool = False
    """Answer /metrics there without a token."""


class AskConfig(Section):
    """Which running node to ask."""

    home: Path = Path("~/.swarm-node")
    """Its home folder."""
    json_output: Annotated[bool, tyro.conf.arg(aliases=["--json"])] = False
    """Print one JSON object."""


class EvaluationConfig(Section):
    """Accuracy of a model on held-out questions."""

    model: ModelConfig = ModelConfig()
    generation: GenerationConfig = GenerationConfig()
    use: tuple[Annotated[str, PlugIn("environments")], ...] = ()
    """Environments from outside, as environment.use of `run`."""
    tasks: tuple[str, ...] = ()
    """Tasks as dataset/config. Empty: all tasks of the environments in use; where none is in `use`, the nine tasks the
    starters know."""
    questions: Positive = 100
    """Held-out questions per task."""
    puzzles: Path | None = None
    """JSON file of puzzles (prompt, solution) that the task temporal_clue/published asks, all of them once."""
    json_output: Annotated[bool, tyro.conf.arg(aliases=["--json"])] = False
    """Print one JSON object instead of the table."""
