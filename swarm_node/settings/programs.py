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
    """Prompts per round. Each prompt makes one local group. If this is the number of tasks, each
    task gets one prompt. If a defence layer needs to compare, some of these prompts are replaced by
    prompts of peers' groups. At least `local_groups` of your own always remain.
    """
    local_groups: Count = 8
    """Number of local groups in the training set of a round (I in the paper, which uses 4)."""
    external_groups: Count = 4
    """Number of external groups, those of peers, in the training set of a round (J in the paper).
    0: train alone.
    """
    sampler: Annotated[str, PlugIn("samplers")] = "uniform"
    """How the groups of a training set are chosen: a registered sampler, or FILE:CLASS.
    docs/how-to/sampler.md lists the samplers. uniform: skip uninformative groups, and choose from
    the others with equal probability, as in the paper.
    """


class TrainingConfig(Section):
    """The optimiser, the objective, and how an update is split into passes."""

    learning_rate: Annotated[float, Field(gt=0.0)] = 3e-4
    """Learning rate of AdamW. 3e-4 suits the starters, and 2e-4 suits LoRA adapters. To train all
    weights of a pre-trained model, start at 1e-6 to 1e-5.
    """
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.0
    """Decoupled weight decay of AdamW. 0 makes it plain Adam, as in the paper."""
    optimizer: Literal["auto", "adamw", "adamw_8bit"] = "auto"
    """adamw_8bit: AdamW whose state takes two bytes per parameter instead of eight; it needs the
    extra `memory` (bitsandbytes). auto: adamw, or adamw_8bit if only that fits into memory and the
    extra is installed.
    """
    adam_betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of AdamW's first and second moments."""
    max_grad_norm: Annotated[float, Field(gt=0.0)] = 1.0
    """If the norm of the gradient is larger than this, the gradient is scaled down to it."""
    epsilon: Annotated[float, Field(ge=0.0)] = 0.2
    """Lower clip of the probability ratio: 1 - epsilon."""
    epsilon_high: Annotated[float, Field(ge=0.0)] = 0.28
    """Upper clip of the probability ratio: 1 + epsilon_high."""
    objective: Annotated[str, PlugIn("objectives")] = "decoupled"
    """A registered objective, or FILE:FUNCTION. decoupled (AReaL): PPO clipped around the policy
    just before the update. Each token is weighted by how much that policy differs from the one that
    generated it (older weights, or another precision); a token that has become more than 5 times as
    probable is skipped. truncated: the same, with the weight capped at 2. clipped: PPO clipped
    around the policy that generated the token.
    """
    beta: Annotated[float, Field(ge=0.0)] = 0.0
    """Weight of the KL penalty towards the initial policy. With 0, as in the paper, no reference
    model is kept.
    """
    loss_type: Literal["grpo", "dapo", "dr_grpo"] = "grpo"
    """How the loss is normalised. grpo: the mean over completions of each completion's mean over
    its tokens. dapo: the mean over all tokens of the update. dr_grpo: the sum over tokens, divided
    by the number of completions times max_completion_length.
    """
    scale_rewards: Annotated[str, PlugIn("advantages")] = "group"
    """How the rewards of a group become advantages: a registered rule, or FILE:FUNCTION. group:
    divide by the sample standard deviation of the group. population: divide by the population
    standard deviation. none: leave advantages in units of reward.
    """
    only_differences: bool = False
    """Train only on what distinguishes the completions of a group: skip completions with an
    advantage of 0, and the tokens with which all completions of a group begin. The published recipe
    for Temporal Clue does this.
    """
    num_iterations: Positive = 1
    """Passes over the training set of a round. With more than one, the probability ratio moves away
    from 1, and clipping matters.
    """
    token_budget: Count = 0
    """Tokens, padding included, in one forward and backward pass; gradients accumulate over such
    micro-batches. 0: 16384 on a GPU. On a CPU 2048, or up to 4096 if a single group needs it; for
    adapters on a CPU with little memory as many as fit, at least 256.
    """


class DefenceConfig(Section):
    """Protection against external completions that are correct but poisoned.
    docs/results/poisoning.md measures every layer.
    """

    layers: Annotated[tuple[Annotated[str, PlugIn("defences")], ...], Alias("--defence")] = (
        "length",
        "ngrams",
        "rescue",
    )
    """Layers of the defence, in the order in which they work: registered names, or FILE:CLASS.
    length: drop completions that are much longer than local ones. ngrams: drop completions that
    contain strings which better external completions share and local ones lack. rescue: complete
    the prompt here as well, and keep only those external completions that score higher than the
    mean of the local ones; they join the local group.
    """


class AsynchronousConfig(Section):
    """Generate and train at the same time, in two processes. `swarm-node check` tells you whether
    this would help.
    """

    enabled: bool = False
    """Generate in a second process while this one trains. Needs two cores or two devices."""
    max_staleness: Count = 1
    """Allowed staleness: the number of updates between the weights that generate a completion and
    the weights that train on it. 0: the two processes take turns, which is exactly the synchronous
    loop.
    """


class NetworkConfig(Section):
    """How to find other nodes, and how much to do for them."""

    from_home: ClassVar[frozenset[str]] = frozenset({"suggested"})
    enabled: bool = True
    """Whether to connect to peers. Without a network, local groups take the place of external ones.
    """
    backend: Annotated[str, PlugIn("backends")] = "hivemind"
    """Library that carries the messages: hivemind, or libp2p, which needs the extra of that name.
    Nodes with different backends can be in one swarm.
    """
    p2pd: Program = ""
    """Path of another daemon for the backend hivemind: a statically linked p2pd that takes the same
    flags. Empty: the daemon that comes with hivemind.
    """
    peers: Annotated[tuple[Text, ...], Alias("--peers")] = ()
    """Bootstrap nodes as full multiaddrs, such as /ip4/1.2.3.4/tcp/31330/p2p/12D3KooW.... Empty:
    the peers that the node remembers from last time.
    """
    suggested: tuple[Text, ...] = ()
    """Bootstrap nodes that somebody else suggests, as a swarm manifest or an invite code does. They
    are dialled as rarely as addresses that peers announce, and never in a private network that this
    machine is not part of.
    """
    host: Listening = "0.0.0.0"  # noqa: S104 - others are meant to connect
    """Address to listen on. With 127.0.0.1 only this machine can reach the node."""
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """TCP port to listen on. 0: any free port."""
    announce: tuple[Text, ...] = ()
    """More addresses to announce, as multiaddrs: those that the node cannot find out by itself,
    such as that of a forwarded port.
    """
    exchange_seconds: Annotated[float, Field(gt=0.0, le=3600.0)] = 10.0
    """Seconds between two exchanges of announcements, each with another peer."""
    relay: bool = True
    """Let others reach this node through a relay if they cannot connect to it directly."""
    mdns: bool = True
    """Find nodes on the same local network without bootstrap nodes."""
    upload_limit: Positive = 1024
    """Kilobytes per second that all peers together can download from this node."""


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
    """How much of this machine the node can use, and when. The commands `swarm-node pause` and
    `resume` work in addition.
    """

    hours: Annotated[str, AfterValidator(_checked), Words()] = ""
    """Hours of the day, in local time, in which the node works, such as 22-7 or 9-12,14-18. It
    rests at other times. Empty: it always works.
    """
    battery: Literal["train", "pause"] = "train"
    """What a laptop does when it runs on battery. pause: stop training until it is plugged in."""
    traffic: Count = 0
    """Megabytes that the node can exchange with others in a calendar month, sent and received
    together. Once the limit is reached, the node trains alone until the next month. The traffic
    that keeps connections open is not counted; it stops as well. 0: no limit.
    """
    memory: Count = 0
    """Megabytes of memory that training can use on the device that trains: of the GPU or, on a CPU,
    of this machine (as the node plans it). The processes for the network and for scoring need
    memory in addition. 0: all that is free.
    """
    stop_seconds: Annotated[float, Field(gt=0.0)] = 9.0
    """Seconds that the node has to stop after SIGTERM or SIGHUP, saving included. If the current
    round does not finish in that time it is given up, and the node saves what it had learned before
    that round. Set this a little below the time after which your supervisor kills a process
    (docker: 10 s).
    """


class CheckpointConfig(Section):
    """When to save, and how much to keep."""

    minutes: Annotated[float, Field(gt=0.0)] = 10.0
    """Minutes between checkpoints, which is the most training that is lost if the machine fails.
    The first checkpoint is written after the first round, and another one whenever the node stops.
    """
    every: Count = 0
    """Rounds between checkpoints, in addition to those by time. 0: by time alone."""


class ValidationConfig(Section):
    """Held-out questions between rounds. Off by default, since generating answers takes time."""

    every: Count = 0
    """Rounds between validations. 0: no validation. The checkpoint with the highest reward is kept
    in the folder `best` of the home folder, next to the latest checkpoints.
    """
    questions: Positive = 64
    """Number of held-out questions in each validation, spread over the tasks. They are the same
    every time.
    """


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


class NodeConfig(LearningConfig, WithObservers):
    """A node that trains a model and shares with the swarm. The defaults are those for a starter. A
    `run` that is given no model trains smollm2-135m, and sets other values to suit it:
    docs/reference/options.md has both, and `swarm-node check` prints them.
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
    backend: Annotated[str, PlugIn("backends"), _as_in_run("backend")] = "hivemind"
    """Library that carries the messages."""
    swarm: SwarmName = "public"
    """Name of the swarm."""
    max_connections: Positive = 512
    """Largest number of peers that are connected at the same time."""
    upload_limit: Positive = 4096
    """Kilobytes per second that all peers together can download from this node."""


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
