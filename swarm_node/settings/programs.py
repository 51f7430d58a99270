"""One configuration for each command that has one, and the sections that it is made of."""

import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from swarm_node.settings.model import AnswerForm, EnvironmentConfig, GenerationConfig, ModelConfig
from swarm_node.settings.sections import (
    Alias,
    Count,
    Listening,
    PlugIn,
    Positive,
    Program,
    Section,
    SwarmName,
    Text,
    Words,
)

PAUSE_FILE = "paused"  # in the home: it works for a node that runs, and for one that starts later
VALIDATE_FILE = "validate"  # in the home: the node validates after this round, and removes the file
# Tokens. On a CPU larger micro-batches take more memory and hardly less time, but a group of up to
# 4096 is not cut: each piece would compute its prompt again. adapters: on a CPU, where memory is
# short
MICRO_BATCH = {"gpu": 16384, "cpu": 2048, "group": 4096, "adapters": 256}

SIZE = re.compile(r"^ *(\d+(?:\.\d+)?) ?([GM])i?B? *$", re.IGNORECASE)  # of memory

Span = tuple[int, int]  # minutes of the day


class RoundConfig(Section):
    """What a round is made of."""

    questions: Annotated[int, Field(ge=1, le=256)] = 9
    """Prompts per round; each makes a local group. One of each task if equal to the number of
    tasks. Where the defence compares, questions of peers take the places of some, but for as many
    as local_groups.
    """
    local_groups: Count = 8
    """Local groups in the training set of a round (I of the paper, 4 there)."""
    external_groups: Count = 4
    """External groups in the training set of a round (J of the paper). 0 trains alone."""
    sampler: Annotated[str, PlugIn("samplers")] = "uniform"
    """A registered sampler, or FILE:CLASS; docs/how-to/sampler.md lists them. uniform: drop
    uninformative groups, then uniform (the paper).
    """


class TrainingConfig(Section):
    """The optimiser, the objective, and how an update is cut into passes."""

    learning_rate: Annotated[float, Field(gt=0.0)] = 3e-4
    """Learning rate of AdamW. 3e-4 suits the starters; start at 1e-6 to 1e-5 for a pretrained
    model.
    """
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.0
    """Decoupled decay of AdamW; 0 makes it Adam, as in the paper."""
    optimizer: Literal["auto", "adamw", "adamw_8bit"] = "auto"
    """adamw_8bit: AdamW whose state takes two bytes a parameter instead of eight; needs the extra
    `memory` (bitsandbytes). auto: adamw, and adamw_8bit where only that fits into memory and the
    extra is installed.
    """
    adam_betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of AdamW's first and second moments."""
    max_grad_norm: Annotated[float, Field(gt=0.0)] = 1.0
    """Gradients are scaled down to this norm."""
    epsilon: Annotated[float, Field(ge=0.0)] = 0.2
    """Lower clip of the probability ratio: 1 - epsilon."""
    epsilon_high: Annotated[float, Field(ge=0.0)] = 0.28
    """Upper clip of the probability ratio: 1 + epsilon_high."""
    objective: Annotated[str, PlugIn("objectives")] = "decoupled"
    """A registered objective, or FILE:FUNCTION. decoupled (AReaL): PPO around the policy before the
    update, weighed by how the one that generated differs, older or of another precision; a token
    that has become more than 5 times as probable is left out. truncated: with a limit of 2, to
    which larger weights are clamped. clipped: PPO around the one that generated.
    """
    beta: Annotated[float, Field(ge=0.0)] = 0.0
    """Weight of the KL penalty to the initial policy; 0 (the paper) keeps no reference model."""
    loss_type: Literal["grpo", "dapo", "dr_grpo"] = "grpo"
    """Normalisation. grpo: mean of each completion's token mean; dapo: mean over all tokens of the
    update; dr_grpo: sum over tokens divided by completions x max_completion_length.
    """
    scale_rewards: Annotated[str, PlugIn("advantages")] = "group"
    """How the rewards of a group become advantages: a registered rule, or FILE:FUNCTION. group
    divides advantages by the group's standard deviation; none leaves them in units of reward;
    population divides by the population's standard deviation.
    """
    only_differences: bool = False
    """Train on what tells the completions of a group apart: leave out completions of advantage 0,
    and the tokens that all completions of a group begin with. The recipe published for Temporal
    Clue does.
    """
    num_iterations: Positive = 1
    """Passes over the training set of a round. With more than one the ratio leaves 1 and clipping
    matters.
    """
    token_budget: Count = 0
    """Tokens, padding included, of one forward and backward pass; gradients accumulate over such
    micro-batches. 0 takes 16384 on a GPU; on a CPU 2048, or up to 4096 for one group; for adapters
    there what little memory allows, at least 256.
    """


class DefenceConfig(Section):
    """Against external completions that are right and poisoned. docs/results/poisoning.md measures
    every layer.
    """

    layers: Annotated[tuple[Annotated[str, PlugIn("defences")], ...], Alias("--defence")] = (
        "length",
        "ngrams",
        "rescue",
    )
    """Layers, in their order: registered names, or FILE:CLASS. length: drop completions much longer
    than local ones. ngrams: drop completions with strings that better external completions share
    and local ones lack. rescue: complete the prompt here, too, and add external completions that
    score higher than the mean of the local ones, without the rest of the external group.
    """


class AsynchronousConfig(Section):
    """Generate and train at the same time, in two processes. `swarm-node check` says where it
    helps.
    """

    enabled: bool = False
    """Generate in a second process, beside training. Needs two cores or devices."""
    max_staleness: Count = 1
    """Staleness allowed: updates between the weights that generate a completion and those that
    train on it. 0 takes turns: exactly the synchronous loop.
    """


class NetworkConfig(Section):
    """How to find others, and how much to do for them."""

    from_home: ClassVar[frozenset[str]] = frozenset({"suggested"})
    enabled: bool = True
    """Whether to connect to peers. Without it, local groups take the place of external ones."""
    backend: Annotated[str, PlugIn("backends")] = "hivemind"
    """Library that carries the messages: hivemind, or libp2p, which needs the extra of that name.
    Nodes of both kinds form one swarm.
    """
    p2pd: Program = ""
    """Another daemon for the backend hivemind, as the path of a statically linked p2pd that takes
    the same flags. Empty: the one that comes with hivemind.
    """
    peers: Annotated[tuple[Text, ...], Alias("--peers")] = ()
    """Bootstrap nodes as full multiaddrs, /ip4/1.2.3.4/tcp/31330/p2p/12D3KooW.... Empty: those
    known from last time.
    """
    suggested: tuple[Text, ...] = ()
    """Bootstrap nodes that somebody else names, as a card or a code does: dialled as rarely as
    addresses that peers announce, and in no private network that this machine is not in.
    """
    host: Listening = "0.0.0.0"  # noqa: S104 - others are meant to connect
    """Address to listen on; 127.0.0.1 keeps the node to this machine."""
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """TCP port to listen on; 0 takes a free one."""
    announce: tuple[Text, ...] = ()
    """Addresses to announce, as multiaddrs, that the node cannot find out itself (a forwarded
    port).
    """
    exchange_seconds: Annotated[float, Field(gt=0.0, le=3600.0)] = 10.0
    """Seconds between two exchanges of announcements with another peer."""
    relay: bool = True
    """Be reached through a relay if no connection can come in directly."""
    mdns: bool = True
    """Find nodes on the same local network without bootstrap nodes."""
    upload_limit: Positive = 1024
    """Kilobytes per second that all peers together may fetch from this node."""


def spans_of(text: str) -> list[Span]:
    """ "22-7,12:30-13" as minutes of the day, from and to. ValueError for what is no such text."""
    return [_span(part) for part in text.replace(" ", "").split(",") if part]


def _span(part: str) -> Span:
    start, dash, end = part.partition("-")
    if not dash:
        raise ValueError("should be hours from and to, such as 22-7 or 12:30-14")
    return _minute(start), _minute(end)


def _minute(text: str) -> int:
    hour, _, minute = text.partition(":")
    if not hour.isascii() or not hour.isdigit() or not (minute or "0").isdigit():
        raise ValueError("should be hours from and to, such as 22-7 or 12:30-14")
    total = int(hour) * 60 + int(minute or 0)
    if int(minute or 0) > 59 or total > 24 * 60:
        raise ValueError("should be hours from 0 to 24, such as 22-7")
    return total % (24 * 60)


def _checked(text: str) -> str:
    spans_of(text)
    return text


class LimitsConfig(Section):
    """What a node may take of the machine it is a guest of, and when. `swarm-node pause` and
    `resume` come on top.
    """

    hours: Annotated[str, AfterValidator(_checked), Words()] = ""
    """Hours of the day, local time, in which it works, such as 22-7 or 9-12,14-18. Else it rests.
    Empty: all.
    """
    battery: Literal["train", "pause"] = "train"
    """On a laptop that runs on battery: pause stops until it is plugged in."""
    traffic: Count = 0
    """Megabytes exchanged with others in a calendar month, both ways; beyond it the node trains
    alone until the next. What keeps connections open is not counted, and ends with them. 0 sets no
    limit.
    """
    memory: Count = 0
    """Megabytes that training may take of the device that trains: of a GPU, or, by its plan, of
    this machine's memory. Network and scoring are processes of their own, and come on top. 0: all
    that is free.
    """
    stop_seconds: Annotated[float, Field(gt=0.0)] = 9.0
    """Seconds that a stop may take after SIGTERM or SIGHUP, saving included. A round that does not
    end in that time is given up, and the node saves what it had learned before that round. Set it a
    little below the time after which your supervisor kills; docker kills after 10 s.
    """


class CheckpointConfig(Section):
    """When to save, and how much to keep."""

    minutes: Annotated[float, Field(gt=0.0)] = 10.0
    """Minutes between checkpoints: so much is lost at most when the machine fails. The first one is
    written after the first round, and one is always written when the node stops.
    """
    every: Count = 0
    """Rounds between checkpoints, besides those by time. 0: by time alone."""


class ValidationConfig(Section):
    """Held-out questions between rounds. Off by default: it costs generation."""

    every: Count = 0
    """Rounds between validations; 0 turns them off. The checkpoint with the highest reward is kept
    in the folder `best` of the home, beside the last ones.
    """
    questions: Positive = 64
    """Held-out questions of each validation, over the tasks in turn; always the same ones."""


class WithQuestions(Section):
    """Base of a configuration that asks questions: the sections of environments serve it."""


class WithObservers(Section):
    """Base of a configuration of a process that goes on: the sections of what shows such processes
    serve it.
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


class NodeConfig(LearningConfig, WithObservers):
    """One node. The defaults are those for a starter. A `run` that is given no model trains
    smollm2-135m, and sets other values to suit it: docs/reference/options.md has both, and
    `swarm-node check` prints them.
    """

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
