"""One configuration for each command that has one."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from swarm_node.settings.environment import AnswerForm, EnvironmentConfig
from swarm_node.settings.guest import LimitsConfig
from swarm_node.settings.model import GenerationConfig, ModelConfig
from swarm_node.settings.network import NetworkConfig
from swarm_node.settings.sections import Alias, Count, PlugIn, Positive, Section, SwarmName
from swarm_node.settings.training import AsynchronousConfig, DefenceConfig, RoundConfig, TrainingConfig


class CheckpointConfig(Section):
    """When to save, and how much to keep."""

    every: Positive = 20
    """Rounds between checkpoints. One is always written when the node stops."""


class ValidationConfig(Section):
    """Held-out questions between rounds. Off by default: it costs generation."""

    every: Count = 0
    """Rounds between validations; 0 turns them off. The checkpoint with the highest reward is kept in the folder
    `best` of the home, beside the last ones."""
    questions: Positive = 64
    """Held-out questions of each validation, over the tasks in turn; always the same ones."""


class LearningConfig(Section):
    """What a node trains with and on. The same for one node and for a simulation of many."""

    model: ModelConfig = ModelConfig()
    generation: GenerationConfig = GenerationConfig()
    round: RoundConfig = RoundConfig()
    training: TrainingConfig = TrainingConfig()
    environment: EnvironmentConfig = EnvironmentConfig()
    defence: DefenceConfig = DefenceConfig()
    asynchronous: AsynchronousConfig = AsynchronousConfig()
    observers: tuple[Annotated[str, PlugIn("trackers", besides=("samples",))], ...] = ("samples",)
    """What listens to every round, beside events.jsonl. samples: rollouts to look at, in the home of a node; they hold
    text of strangers. And trackers: registered names, or FILE:CLASS; csv writes rounds.csv into the folder of the
    run."""
    swarm: SwarmName = "public"
    """Name of the swarm; messages of other swarms are refused."""
    seed: Count = 0
    """Seed of every random choice."""
    threads: Count = 0
    """CPU threads for tensor maths. 0: torch chooses for one node; 1 in a simulation."""


class NodeConfig(LearningConfig):
    """One node."""

    home: Path = Path("~/.swarm-node")
    """Folder for identity, checkpoints and logs. Nothing is written elsewhere."""
    max_rounds: Count = 0
    """Stop after this many rounds in all, counting those before a resume; 0 goes on until interrupted."""
    checkpoint: CheckpointConfig = CheckpointConfig()
    validation: ValidationConfig = ValidationConfig()
    network: NetworkConfig = NetworkConfig()
    limits: LimitsConfig = LimitsConfig()


class CheckConfig(NodeConfig):
    """What a configuration means on this machine."""

    all: bool = False
    """Show every option, not only those that differ from their defaults."""
    memory: str = ""
    """Plan for a CUDA card with so much memory, such as 8GB, in place of this machine's devices. Loads no weights."""


class DoctorConfig(NodeConfig):
    """What keeps a node from training or sharing."""

    bundle: Path | None = None
    """File for a bug report: what was found, figures, options and versions, without keys, addresses and what
    peers sent. Read it before you send it."""


class ArchiveConfig(Section):
    """A backup of a home."""

    file: Path | None = None
    """The backup: a tar file. It holds the private key of the node."""
    home: Path = Path("~/.swarm-node")
    """Folder of the node."""


def _as_in_run(name: str) -> Any:
    """The flag may be written as `run` has it, too: so advice that names it is right for both."""
    return Alias(f"--network.{name}")


class BootstrapConfig(Section):
    """A bootstrap and relay node: other nodes find and reach each other through it."""

    home: Path = Path("~/.swarm-node")
    """Folder that holds identity and known peers."""
    port: Annotated[int, Field(ge=0, le=65535), _as_in_run("port")] = 31330
    """TCP and UDP port to listen on. Other nodes must be able to reach it. 0 takes a free one."""
    host: Annotated[str, _as_in_run("host")] = "0.0.0.0"  # noqa: S104 - others are meant to connect
    """Address to listen on."""
    announce: Annotated[tuple[str, ...], _as_in_run("announce")] = ()
    """Addresses to announce, as multiaddrs, that the node cannot find out itself (a forwarded port)."""
    peers: Annotated[tuple[str, ...], _as_in_run("peers")] = ()
    """Other bootstrap nodes as full multiaddrs, so that they know of each other (repeat it, or give several)."""
    mdns: Annotated[bool, _as_in_run("mdns")] = True
    """Be found by nodes on the same local network."""
    backend: Annotated[str, PlugIn("backends"), _as_in_run("backend")] = "hivemind"
    """Library that carries the messages."""
    swarm: SwarmName = "public"
    """Name of the swarm."""
    max_connections: Positive = 512
    """Peers connected at the same time."""
    upload_limit: Positive = 4096
    """Kilobytes per second that all peers together may fetch from this node."""


class AskConfig(Section):
    """Which running node to ask."""

    home: Path = Path("~/.swarm-node")
    """Its home folder."""
    json_output: Annotated[bool, Alias("--json")] = False
    """Print one JSON object."""


class SolveConfig(Section):
    """The solution of a puzzle: ours by its address, others' from their text."""

    what: str = ""
    """temporal_clue/tiny, small, medium, large or full; or a JSON file of puzzles."""
    seed: Count = 0
    """Of the address, where it is one."""
    index: Count = 0
    """Of the address, or the place in the file, from 0."""


class EvaluationConfig(Section):
    """Accuracy of a model on held-out questions."""

    home: Path = Path("~/.swarm-node")
    """Home whose newest checkpoint is asked where no model is named."""
    model: ModelConfig = ModelConfig()
    generation: GenerationConfig = GenerationConfig()
    use: tuple[Annotated[str, PlugIn("environments")], ...] = ()
    """Environments from outside, as environment.use of `run`."""
    tasks: tuple[str, ...] = ()
    """Tasks as dataset/config. Empty: all tasks of the environments in `use`; if `use` is empty too, the nine tasks of
    the starters."""
    system: str = ""
    """What the model is told before every prompt, as environment.system of `run`."""
    answer: AnswerForm = "auto"
    """Where a completion gives its answer, as environment.answer of `run`."""
    shots: Count = 0
    """Questions with answers before each question, as environment.shots of `run`."""
    questions: Positive = 100
    """Held-out questions per task."""
    json_output: Annotated[bool, Alias("--json")] = False
    """Print one JSON object instead of the table."""
