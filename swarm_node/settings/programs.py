"""The configuration of each command that has one, as a list of its sections and its own options.

What a section holds stands in the module of its topic. A configuration is an ordinary class: where
it names a section, an editor goes to it, and a type checker knows config.page.listen.
"""

import re
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from swarm_node.settings.configuration import Configuration
from swarm_node.settings.limits import LimitsConfig
from swarm_node.settings.manifest import JoiningConfig
from swarm_node.settings.model import Fp8Config, GenerationConfig, ModelConfig
from swarm_node.settings.network import BACKENDS, NetworkConfig
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
    """Base of a configuration of a process that continues. A package's section of what shows such
    processes serves it.
    """


class LearningConfig(WithQuestions):
    """What a node trains with and on. One node and a simulation of many nodes have the same
    options.
    """

    model: ModelConfig = ModelConfig()
    generation: GenerationConfig = GenerationConfig()
    round: RoundConfig = RoundConfig()
    training: TrainingConfig = TrainingConfig()
    environment: EnvironmentConfig = EnvironmentConfig()
    defence: DefenceConfig = DefenceConfig()
    asynchronous: AsynchronousConfig = AsynchronousConfig()
    observers: tuple[Annotated[str, PlugIn("trackers", besides=("samples",))], ...] = ("samples",)
    """What receives every round, in addition to events.jsonl. samples: rollouts to look at, kept in
    the home folder of the node; they contain text of strangers. You can add trackers: registered
    names, or FILE:CLASS.
    """
    swarm: SwarmName = "public"
    """Name of the swarm. Messages of other swarms are refused."""
    seed: Count = 0
    """Seed of every random choice."""
    threads: Annotated[int, Field(ge=0, le=1024)] = 0
    """CPU threads for tensor maths. 0: torch decides for a single node; a simulation uses 1."""
    dataset: DatasetConfig = DatasetConfig()
    taskset: TasksetConfig = TasksetConfig()
    temporal_clue: TemporalClueConfig = TemporalClueConfig()
    fp8: Fp8Config = Fp8Config()
    vllm: VllmConfig = VllmConfig()


class NodeConfig(LearningConfig, WithObservers):
    """A node that trains a model and shares with the swarm. The defaults are those for a starter. A
    `run` that is given no model trains smollm2-135m, and sets other values to suit it:
    docs/reference/options.md has both, and `swarm-node check` prints them. On a GPU it may train
    a larger model: docs/results/first_model.md.
    """

    from_home: ClassVar[frozenset[str]] = frozenset({"swarm"})
    home: Path = Path("~/.swarm-node")
    """Home folder of the node, for its identity, checkpoints and logs. Two things are kept outside
    of it: the names of files and plug-ins that you give for this home, in your state folder, and
    what is downloaded, in your cache folder (docs/reference/home.md).
    """
    max_rounds: Count = 0
    """Stop after this many rounds in total, including those before a resume. 0: continue until
    interrupted.
    """
    checkpoint: CheckpointConfig = CheckpointConfig()
    validation: ValidationConfig = ValidationConfig()
    network: NetworkConfig = NetworkConfig()
    limits: LimitsConfig = LimitsConfig()
    page: ObservedConfig = ObservedConfig()
    manifest: JoiningConfig = JoiningConfig()


def _size(text: str) -> str:
    if text and not SIZE.match(text):
        raise ValueError("should be a size, such as 8GB")
    return text


class CheckConfig(NodeConfig):
    """What a configuration will do on this machine."""

    all: bool = False
    """Show every option, not only those that differ from their defaults."""
    memory: Annotated[str, AfterValidator(_size), Words()] = ""
    """Plan for a CUDA GPU with this much memory, such as 8GB, instead of this machine's devices. No
    weights are loaded.
    """


class DoctorConfig(NodeConfig):
    """Find out why a node cannot train or connect."""

    bundle: Path | None = None
    """Write a file for a bug report: what doctor found, figures, options and versions, but no keys,
    no addresses, and nothing that peers sent. Read the file before you send it.
    """


class ArchiveConfig(Section):
    """A backup of a home folder."""

    file: Path | None = None
    """The backup file. It contains the private key of the node."""
    home: Path = Path("~/.swarm-node")
    """Home folder of the node."""


def _as_in_run(name: str) -> Any:
    """Lets a flag be written as `run` has it, too: so advice that names it is right for both."""
    return Alias(f"--network.{name}")


class BootstrapConfig(WithObservers):
    """A bootstrap and relay node: an entry point through which other nodes find and reach each
    other. It trains nothing.
    """

    from_home: ClassVar[frozenset[str]] = frozenset({"swarm", "suggested"})
    home: Path = Path("~/.swarm-node")
    """Home folder, for the identity and the known peers."""
    port: Annotated[int, Field(ge=0, le=65535), _as_in_run("port")] = 31330
    """TCP and UDP port to listen on. Other nodes must be able to reach it. 0: any free port."""
    host: Annotated[Listening, _as_in_run("host")] = "0.0.0.0"  # noqa: S104 - others are meant to connect
    """Address to listen on."""
    announce: Annotated[tuple[Text, ...], _as_in_run("announce")] = ()
    """More addresses to announce, as multiaddrs: those that the node cannot find out by itself,
    such as that of a forwarded port.
    """
    peers: Annotated[tuple[Text, ...], _as_in_run("peers")] = ()
    """Other bootstrap nodes as full multiaddrs, so that they know each other. Repeat the flag, or
    give several addresses.
    """
    suggested: Annotated[tuple[Text, ...], _as_in_run("suggested")] = ()
    """Other bootstrap nodes that somebody else suggests, as a swarm manifest does. They are dialled
    as rarely as addresses that peers announce.
    """
    mdns: Annotated[bool, _as_in_run("mdns")] = True
    """Let nodes on the same local network find this one."""
    backend: Annotated[str, PlugIn("backends", besides=BACKENDS), _as_in_run("backend")] = (
        "hivemind"
    )
    """Library that carries the messages."""
    swarm: SwarmName = "public"
    """Name of the swarm."""
    max_connections: Positive = 512
    """Largest number of peers that are connected at the same time."""
    upload_limit: Positive = 4096
    """Kilobytes per second that all peers together can download from this node."""
    page: ObservedConfig = ObservedConfig()
    manifest: JoiningConfig = JoiningConfig()


class AskConfig(Section):
    """Which running node to ask."""

    home: Path = Path("~/.swarm-node")
    """Home folder of the node."""
    json_output: Annotated[bool, Alias("--json")] = False
    """Print one JSON object."""


class StatusConfig(AskConfig):
    """Which running node to ask, and what the exit code means."""

    alive: bool = False
    """Exit with code 0 whenever the node answers, even if it is not healthy."""


class EvaluationConfig(WithQuestions):
    """Accuracy of a model on held-out questions."""

    home: Path = Path("~/.swarm-node")
    """Home folder whose newest checkpoint is evaluated if no model is named."""
    model: ModelConfig = ModelConfig()
    generation: GenerationConfig = GenerationConfig()
    use: tuple[Annotated[str, PlugIn("environments")], ...] = ()
    """Environments from elsewhere, like environment.use of `run`."""
    tasks: tuple[Text, ...] = ()
    """Tasks as dataset/config. Empty: all tasks of the environments in `use`. If `use` is empty
    too: the nine tasks of the starters.
    """
    system: Text = ""
    """What the model is told before every prompt, like environment.system of `run`."""
    answer: AnswerForm = "auto"
    """Where in a completion the answer is, like environment.answer of `run`."""
    shots: Count = 0
    """Number of few-shot examples before each question, like environment.shots of `run`."""
    questions: Positive = 100
    """Number of held-out questions per task."""
    json_output: Annotated[bool, Alias("--json")] = False
    """Print one JSON object instead of the table."""
    dataset: DatasetConfig = DatasetConfig()
    taskset: TasksetConfig = TasksetConfig()
    temporal_clue: TemporalClueConfig = TemporalClueConfig()
    fp8: Fp8Config = Fp8Config()
