"""The configuration of each command that has one, as a list of its sections and its own options.

What a section holds stands in the module of its topic. A configuration is an ordinary class: where
it names a section, an editor goes to it, and a type checker knows config.page.listen.
"""

import re
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from swarm_node.settings.card import JoiningConfig
from swarm_node.settings.configuration import Configuration
from swarm_node.settings.limits import LimitsConfig
from swarm_node.settings.model import Fp8Config, GenerationConfig, ModelConfig
from swarm_node.settings.network import NetworkConfig
from swarm_node.settings.page import ObservedConfig
from swarm_node.settings.questions import (
    AnswerForm,
    DatasetConfig,
    EnvironmentConfig,
    TasksetConfig,
    TemporalClueConfig,
)
from swarm_node.settings.sections import (
    Alias,
    Count,
    Listening,
    PlugIn,
    Positive,
    Section,
    SwarmName,
    Text,
    Words,
)
from swarm_node.settings.training import (
    AsynchronousConfig,
    CheckpointConfig,
    DefenceConfig,
    RoundConfig,
    TrainingConfig,
    ValidationConfig,
)
from swarm_node.settings.vllm import VllmConfig

SIZE = re.compile(r"^ *(\d+(?:\.\d+)?) ?([GM])i?B? *$", re.IGNORECASE)  # of memory


class WithQuestions(Configuration):
    """Base of a configuration that asks questions. A package's section of a new environment serves
    it.
    """


class WithObservers(Configuration):
    """Base of a configuration of a process that goes on. A package's section of what shows such
    processes serves it.
    """


class LearningConfig(WithQuestions):
    """What a node trains with and on. The same for one node and for a simulation of many."""

    model: ModelConfig = ModelConfig()
    generation: GenerationConfig = GenerationConfig()
    round: RoundConfig = RoundConfig()
    training: TrainingConfig = TrainingConfig()
    environment: EnvironmentConfig = EnvironmentConfig()
    defence: DefenceConfig = DefenceConfig()
    asynchronous: AsynchronousConfig = AsynchronousConfig()
    observers: tuple[Annotated[str, PlugIn("trackers", besides=("samples",))], ...] = ("samples",)
    """What listens to every round, beside events.jsonl. samples: rollouts to look at, in the home
    of a node; they hold text of strangers. And trackers: registered names, or FILE:CLASS.
    """
    swarm: SwarmName = "public"
    """Name of the swarm; messages of other swarms are refused."""
    seed: Count = 0
    """Seed of every random choice."""
    threads: Annotated[int, Field(ge=0, le=1024)] = 0
    """CPU threads for tensor maths. 0: torch chooses for one node; 1 in a simulation."""
    dataset: DatasetConfig = DatasetConfig()
    taskset: TasksetConfig = TasksetConfig()
    temporal_clue: TemporalClueConfig = TemporalClueConfig()
    fp8: Fp8Config = Fp8Config()
    vllm: VllmConfig = VllmConfig()


class NodeConfig(LearningConfig, WithObservers):
    """One node."""

    from_home: ClassVar[frozenset[str]] = frozenset({"swarm"})
    home: Path = Path("~/.swarm-node")
    """Folder for identity, checkpoints and logs. Elsewhere only the files and plug-ins that you
    name for it are noted, in your state folder (docs/reference/home.md).
    """
    max_rounds: Count = 0
    """Stop after this many rounds in all, counting those before a resume; 0 goes on until
    interrupted.
    """
    checkpoint: CheckpointConfig = CheckpointConfig()
    validation: ValidationConfig = ValidationConfig()
    network: NetworkConfig = NetworkConfig()
    limits: LimitsConfig = LimitsConfig()
    page: ObservedConfig = ObservedConfig()
    card: JoiningConfig = JoiningConfig()


def _size(text: str) -> str:
    if text and not SIZE.match(text):
        raise ValueError("should be a size, such as 8GB")
    return text


class CheckConfig(NodeConfig):
    """What a configuration means on this machine."""

    all: bool = False
    """Show every option, not only those that differ from their defaults."""
    memory: Annotated[str, AfterValidator(_size), Words()] = ""
    """Plan for a CUDA card with so much memory, such as 8GB, in place of this machine's devices.
    Loads no weights.
    """


class DoctorConfig(NodeConfig):
    """What keeps a node from training or sharing."""

    bundle: Path | None = None
    """File for a bug report: what was found, figures, options and versions, without keys, addresses
    and what peers sent. Read it before you send it.
    """


class ArchiveConfig(Section):
    """A backup of a home."""

    file: Path | None = None
    """The backup. It holds the private key of the node."""
    home: Path = Path("~/.swarm-node")
    """Folder of the node."""


def _as_in_run(name: str) -> Any:
    """Lets a flag be written as `run` has it, too: so advice that names it is right for both."""
    return Alias(f"--network.{name}")


class BootstrapConfig(WithObservers):
    """A bootstrap and relay node: other nodes find and reach each other through it."""

    from_home: ClassVar[frozenset[str]] = frozenset({"swarm", "suggested"})
    home: Path = Path("~/.swarm-node")
    """Folder that holds identity and known peers."""
    port: Annotated[int, Field(ge=0, le=65535), _as_in_run("port")] = 31330
    """TCP and UDP port to listen on. Other nodes must be able to reach it. 0 takes a free one."""
    host: Annotated[Listening, _as_in_run("host")] = "0.0.0.0"  # noqa: S104 - others are meant to connect
    """Address to listen on."""
    announce: Annotated[tuple[Text, ...], _as_in_run("announce")] = ()
    """Addresses to announce, as multiaddrs, that the node cannot find out itself (a forwarded
    port).
    """
    peers: Annotated[tuple[Text, ...], _as_in_run("peers")] = ()
    """Other bootstrap nodes as full multiaddrs, so that they know of each other (repeat it, or give
    several).
    """
    suggested: Annotated[tuple[Text, ...], _as_in_run("suggested")] = ()
    """Other bootstrap nodes that somebody else names, as a card does: dialled as rarely as
    addresses that peers announce.
    """
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
    page: ObservedConfig = ObservedConfig()
    card: JoiningConfig = JoiningConfig()


class AskConfig(Section):
    """Which running node to ask."""

    home: Path = Path("~/.swarm-node")
    """Its home folder."""
    json_output: Annotated[bool, Alias("--json")] = False
    """Print one JSON object."""


class StatusConfig(AskConfig):
    """How to ask it."""

    alive: bool = False
    """Exit code 0 when it answers, however it is."""


class EvaluationConfig(WithQuestions):
    """Accuracy of a model on held-out questions."""

    home: Path = Path("~/.swarm-node")
    """Home whose newest checkpoint is asked where no model is named."""
    model: ModelConfig = ModelConfig()
    generation: GenerationConfig = GenerationConfig()
    use: tuple[Annotated[str, PlugIn("environments")], ...] = ()
    """Environments from outside, as environment.use of `run`."""
    tasks: tuple[Text, ...] = ()
    """Tasks as dataset/config. Empty: all tasks of the environments in `use`; if `use` is empty
    too, the nine tasks of the starters.
    """
    system: Text = ""
    """What the model is told before every prompt, as environment.system of `run`."""
    answer: AnswerForm = "auto"
    """Where a completion gives its answer, as environment.answer of `run`."""
    shots: Count = 0
    """Questions with answers before each question, as environment.shots of `run`."""
    questions: Positive = 100
    """Held-out questions per task."""
    json_output: Annotated[bool, Alias("--json")] = False
    """Print one JSON object instead of the table."""
    dataset: DatasetConfig = DatasetConfig()
    taskset: TasksetConfig = TasksetConfig()
    temporal_clue: TemporalClueConfig = TemporalClueConfig()
    fp8: Fp8Config = Fp8Config()
