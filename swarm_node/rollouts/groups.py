"""The values of a round: groups of samples, then what the round trains on, then its report.

There is one `Group`, local or external. It is asked, with a prompt and no sample yet; completed,
with samples; scored, with a reward in each sample; and trained on. What is known of one completion
stands in its `Sample`, so that nothing has to be kept in step: to drop a completion is to drop a
sample.

Plain data, no torch.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, get_type_hints

from protocol.messages import Episode, PeerId, Question, RolloutGroup, Round, Turn

Counts = Mapping[str, int]  # reason -> groups
Seconds = Mapping[str, float]  # phase -> wall clock
Observations = tuple[tuple[str, ...], ...]  # what an environment says, by turn


@dataclass(frozen=True, slots=True)
class Skipped:
    """A question or group that could not be used. A value, not an exception: it is counted and the
    round goes on.
    """

    reason: str  # short and stable, e.g. "prompt too long", "scoring timeout": a key for counting


# Rewards of a group that lie within this of each other count as equal: the group teaches nothing.
# Advantages are divided by the deviation, so a hair's breadth would weigh as much as right and
# wrong. It is a hundred times the sixth digit, to which rewards are rounded, and it is what TRL
# adds to the deviation to damp such groups. Nothing on the wire depends on it: peers that draw the
# line elsewhere only train on other groups.
SAME_REWARD = 1e-4


def all_equal(rewards: Sequence[float]) -> bool:
    """Whether no reward of a group differs from another by more than `SAME_REWARD`."""
    return not rewards or max(rewards) - min(rewards) <= SAME_REWARD


# Reasons of skips that cost this node time, up to a limit
HUNG = frozenset(("scoring timeout", "scoring crashed"))
DIVERGED = "diverged"  # a group too few of whose episodes go here as their author told
# A group of which the defence used no completion: local ones did as well
NO_BETTER = "no better than local"


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one completion, as the policy generated them. They stay on this node."""

    ids: tuple[int, ...]  # includes the EOS token if the completion ended by itself
    log_probs: tuple[float, ...]  # of each id under the distribution it was sampled from
    # Of the weights that generated each id, counted in updates; empty: the present ones
    versions: tuple[int, ...] = ()
    # Whether the policy wrote each id; empty: all. An environment wrote the others
    mask: tuple[bool, ...] = ()

    @property
    def written_count(self) -> int:
        """How many tokens the policy wrote."""
        return sum(self.mask) if self.mask else len(self.ids)


@dataclass(frozen=True, slots=True)
class Played:
    """What this node's environment answers to the turns of an episode, played from its
    beginning.
    """

    # Of each turn: one per call, or at most one to a text; none at the end. Empty for a question of
    # one turn
    observations: Observations
    done: bool  # whether the environment ended the episode with the last turn
    score: float  # reward of the state as it is, in [0, 1]
    # Of opening, observations and end: protocol/README.md. Empty for a question of one turn
    trace: str


# Episodes of a question, as far as they are generated
ToPlay = tuple[Question, Sequence[Sequence[Turn]]]
Plays = tuple[Played | Skipped, ...] | Skipped
# Takes contexts (prompts, or ids of a prompt and all that followed), a group size and the name of a
# random stream: same name and weights, same turns. Returns a group of turns for each context.
Turns = Callable[[Sequence[str | Sequence[int]], int, str], list["Completions | Skipped"]]


@dataclass(frozen=True, slots=True)
class Sample:
    """One completion of a question, and all that this node knows of it.

    A sample is made with its episode, by this node's generator or from a message of a peer. It gets
    its reward when this node scores the group, because rewards never travel: SAPO shares decoded
    text, and each node scores it with its own reward model (arXiv 2509.08721, Methodology).

    Attributes:
        episode: what the policy wrote, turn by turn, as it stands on the wire. A completion of one
            turn is an episode of one turn.
        reward: in [0, 1], by this node's environment; None until the group is scored.
        tokens: as this node's policy generated them. None in an external sample: of a peer's
            completion only the text is known, and the policy that trains on it has a tokenizer of
            its own.
        observations: what this node's environment says to each turn of an episode, as in `Played`.
            Empty for a question of one turn.
    """

    episode: Episode
    reward: float | None = None
    tokens: Tokens | None = None
    observations: Observations = ()

    @property
    def external(self) -> bool:
        """Whether a peer wrote it."""
        return self.tokens is None

    @property
    def earned(self) -> float:
        """Its reward. ValueError where it has none yet."""
        if self.reward is None:
            raise ValueError("a sample that is not scored has no reward")
        return self.reward

    @property
    def free_texts(self) -> list[str]:
        """What the author of each turn writes freely: its text, and the names and arguments of its
        calls.
        """
        return [
            turn.text + "".join(call.name + call.arguments for call in turn.calls)
            for turn in self.episode.turns
        ]

    def rewarded(self, reward: float) -> "Sample":
        """This sample with its reward."""
        return replace(self, reward=reward)


@dataclass(frozen=True, slots=True)
class Completions:
    """What a generator writes behind one prompt: samples that are not scored yet, with their
    tokens.
    """

    prompt_ids: tuple[int, ...]  # what the completions follow
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A question and the samples of one author: the unit that GRPO compares and that SAPO shares.

    GRPO measures a sample by its group: its advantage is its reward less their mean, divided by
    their standard deviation (arXiv 2402.03300, section 4.1). So a group whose rewards are all equal
    teaches nothing, and SAPO drops it before it draws external groups (arXiv 2509.08721): see
    `informative`.

    The same class serves from question to gradient. A local group begins with its prompt, gets its
    samples from the generator and their rewards from the environment. An external group begins with
    the samples of a message, and gets prompt and rewards here. With the layer `rescue` a group may
    hold samples of both kinds: the question is the peer's, and the group carries the peer's name.

    Attributes:
        author: the peer whose round the question belongs to.
        round: of the author, by the author's count.
        question: the address from which every node rebuilds prompt and reference answer.
        samples: as a rule `generation.num_generations` of them; 2 to 64 in a message; none while
            the question is not completed.
        prompt: as this node shows the question to its model; empty until it is rebuilt.
        prompt_ids: of the prompt, as the generator read it; empty where no generator did, as in an
            external group.
        id: SHA-256 of the message that brought an external group, 32 bytes, as the network process
            computed it; empty for a local group.
        party: under which the author of an external group counts where places are shared out, as
            the network process found: the network of its addresses. Empty where it counts alone.
    """

    author: PeerId
    round: Round
    question: Question
    samples: tuple[Sample, ...] = ()
    prompt: str = ""
    prompt_ids: tuple[int, ...] = ()
    id: bytes = b""
    party: str = field(default="", compare=False)

    @classmethod
    def of_text(
        cls,
        author: PeerId,
        round: Round,
        question: Question,
        episodes: Iterable[Episode],
        id: bytes = b"",
        party: str = "",
    ) -> "Group":
        """A group of which only the text is known."""
        return cls(author, round, question, tuple(map(Sample, episodes)), id=id, party=party)

    @classmethod
    def received(cls, message: RolloutGroup, id: bytes, party: str = "") -> "Group":
        """The group of an admitted message with this id."""
        asked = message.author, Round(message.round), message.question
        return cls.of_text(*asked, message.episodes, id, party)

    def message(self) -> RolloutGroup:
        """The group as it travels: text alone."""
        return RolloutGroup(
            author=self.author, round=self.round, question=self.question, episodes=self.episodes
        )

    def scored(self, rewards: Sequence[float]) -> "Group":
        """This group with a reward for each sample, in their order. ValueError where there are more
        or fewer.
        """
        if len(rewards) != len(self.samples):
            raise ValueError(f"{len(rewards)} rewards for {len(self.samples)} samples")
        return replace(self, samples=tuple(map(Sample.rewarded, self.samples, rewards)))

    @property
    def rewards(self) -> tuple[float, ...]:
        """The reward of each sample. ValueError where the group is not scored."""
        return tuple(sample.earned for sample in self.samples)

    @property
    def informative(self) -> bool:
        """Whether any advantage is non-zero: rewards that count as equal give exactly zero."""
        return not all_equal(self.rewards)

    @property
    def from_others(self) -> bool:
        """Whether any sample is another node's. A group that answers a peer's question may have
        none.
        """
        return any(sample.external for sample in self.samples)

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """What the policy wrote in each sample."""
        return tuple(sample.episode for sample in self.samples)

    # How plug-ins of version 0.2 read a group, when an external, a generated and a scored one were
    # three classes of parallel tuples: docs/how-to/plugins.md

    @property
    def group(self) -> "Group":
        """This group: as `group.group.episodes`."""
        return self

    @property
    def tokens(self) -> tuple[Tokens | None, ...] | None:
        """The tokens of each sample; None where all are a peer's."""
        tokens = tuple(sample.tokens for sample in self.samples)
        return tokens if any(tokens) else None

    @property
    def observations(self) -> tuple[Observations, ...]:
        """The observations of each sample; empty for a question of one turn."""
        observations = tuple(sample.observations for sample in self.samples)
        return observations if any(observations) else ()


ExternalGroup = ScoredGroup = Group


@dataclass(frozen=True, slots=True)
class Refused:
    """An informative external group that the defence refused whole."""

    author: PeerId
    reason: str
    # For which the group was generated
    question: Question | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Generated:
    """What this node generated and scored in a round."""

    round: Round
    groups: list[Group]
    skipped: Counts
    seconds: Seconds
    # Local completions of questions of other nodes
    answers: list[Group] = field(default_factory=list)
    # The same behind the beginnings of right completions of those nodes
    guided: list[Group] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Selection:
    """What a round trains on."""

    generated: Generated
    local: list[Group]
    external: list[Group]
    refused: list[Refused]  # external groups, by the defence
    skipped: Counts  # groups left out in selecting, by reason
    seconds: Seconds  # of all phases so far
    # External groups that were scored, screened or not
    considered: list[Group] = field(default_factory=list)


Tasks = Mapping[str, Sequence[str]]  # data set -> config ids


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Environment name -> its version and tasks."""

    environments: Mapping[str, tuple[str, Tasks]] = field(default_factory=dict)
    # Name -> turns of its episodes, if more than 1
    several: Mapping[str, int] = field(default_factory=dict)

    def knows(self, question: Question) -> bool:
        """Whether this node can rebuild the question: same version, known data set and config
        id.
        """
        version, tasks = self.environments.get(question.environment, ("", {}))
        return question.version == version and question.config_id in tasks.get(question.dataset, ())

    def turns(self, question: Question) -> int:
        """How many turns an episode of this question has at most."""
        return self.several.get(question.environment, 1)

    @property
    def most_turns(self) -> int:
        """How many turns an episode of any question has at most."""
        return max(self.several.values(), default=1)


# None where a round has no such figure, for example because its groups were lost
Figure = float | None
# Of a round, keys of `RoundReport.seconds`
PHASES = ("generate", "score", "publish", "collect", "train")


@dataclass(frozen=True, slots=True)
class Metric:
    """What a reader of a figure needs to know, and how the figures of several nodes are
    combined.
    """

    unit: str
    meaning: str
    over: Literal["mean", "sum"] = "mean"  # nodes that have it
    # How the row `update` of the live view shows it, such as "entropy {:.2f} nats"; "" where it
    # does not. Other rows stand in telemetry/terminal.py
    shown: str = ""


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one call of `Trainer.update` did. Where no step was taken there is no loss, entropy and
    so on.
    """

    optimizer_steps: Annotated[int, Metric("steps", "optimiser steps done", over="sum")] = 0
    trained_tokens: Annotated[
        int,
        Metric(
            "tokens",
            "completion tokens that carried a gradient, each counted once per pass",
            over="sum",
        ),
    ] = 0
    trained_groups: Annotated[int, Metric("groups", "groups trained on", over="sum")] = 0
    loss: Annotated[Figure, Metric("", "loss, mean over optimiser steps")] = None
    grad_norm: Annotated[
        Figure,
        Metric(
            "",
            "norm of the gradient before clipping, mean over optimiser steps",
            shown="gradient {:.2g}",
        ),
    ] = None
    learning_rate: Annotated[
        Figure, Metric("", "learning rate of the last optimiser step", shown="rate {:.2g}")
    ] = None
    ratio_mean: Annotated[Figure, Metric("", "pi_theta / pi_old, mean over trained tokens")] = None
    clip_fraction: Annotated[
        Figure,
        Metric(
            "share",
            "trained tokens whose ratio left the clip range against the advantage",
            shown="clipped {:.1%}",
        ),
    ] = None
    entropy: Annotated[
        Figure,
        Metric(
            "nats per token", "entropy of the policy at trained tokens", shown="entropy {:.2f} nats"
        ),
    ] = None
    staleness: Annotated[
        Figure,
        Metric(
            "updates", "updates between generation and training, mean over local tokens trained on"
        ),
    ] = None
    mismatch_mean: Annotated[
        Figure,
        Metric(
            "nats",
            "|log-prob in training - in generation|, mean over local tokens of the present weights",
        ),
    ] = None
    mismatch_max: Annotated[
        Figure,
        Metric("nats", "largest difference of a log-prob in training from that in generation"),
    ] = None
    mismatch_kl: Annotated[
        Figure, Metric("nats per token", "K3 estimate of KL(generation || training)")
    ] = None
    halvings: Annotated[
        int,
        Metric(
            "times", "micro-batches were halved because the device ran out of memory", over="sum"
        ),
    ] = 0
    skipped: Mapping[str, int] = field(default_factory=dict)  # groups left out, by reason


@dataclass(frozen=True, slots=True)
class Overlap:
    """How generation and training of an asynchronous node went side by side."""

    wall: float  # seconds since the round before was done
    generating: float  # share of its time in which the generator process generated or scored
    training: float  # share of its time in which the trainer did not wait for the generator
    waiting: int  # rounds generated but not yet trained on when this one was trained on


@dataclass(frozen=True, slots=True)
class RoundReport:
    """One round of one node, as telemetry and the simulation see it."""

    peer_id: PeerId  # of this node
    round: Round  # from 0
    reward: Annotated[Figure, Metric("", "mean reward of local completions")]
    reward_by_task: Mapping[str, float]  # "dataset/config_id" -> mean reward
    rollouts: Annotated[
        int, Metric("completions", "completions generated by this node", over="sum")
    ]
    generated_tokens: Annotated[int, Metric("tokens", "tokens generated by this node", over="sum")]
    mean_length: Annotated[Figure, Metric("tokens", "mean length of a local completion")]
    ended_share: Annotated[Figure, Metric("share", "local completions that ended by themselves")]
    local_groups: Annotated[
        int, Metric("groups", "local groups trained on, before uninformative ones are dropped")
    ]
    local_informative: Annotated[
        int, Metric("groups", "local groups trained on that have a non-zero advantage")
    ]
    external_informative: Annotated[
        int, Metric("groups", "informative groups trained on that have completions of others")
    ]
    informative_share: Annotated[
        Figure, Metric("share", "local groups of the round that have a non-zero advantage")
    ]
    pool_size: Annotated[int, Metric("groups", "external groups that wait")]
    skipped: Mapping[str, int]  # questions and groups left out, by reason
    rejected: Mapping[str, int]  # messages refused so far, by reason
    step: StepReport  # what the update did
    seconds: Mapping[str, float]  # of wall clock by phase: see `PHASES`
    external_considered: Annotated[
        int, Metric("groups", "external groups that were scored, whatever became of them")
    ] = 0
    external_reward: Annotated[
        Figure, Metric("", "mean reward of the completions of external groups that were scored")
    ] = None
    # The same by author: how many were "scored", "informative", "refused" by the defence and
    # "trained" on
    external_by_peer: Mapping[PeerId, Mapping[str, int]] = field(default_factory=dict)
    # Of an asynchronous node, whose `seconds` do not add up to its wall time
    overlap: Overlap | None = None
    guided_informative: Annotated[
        int,
        Metric(
            "groups",
            "local groups trained on that continue the beginning of a peer's right completion",
        ),
    ] = 0


def _metrics(kind: type) -> dict[str, Metric]:
    hints = get_type_hints(kind, include_extras=True)
    return {
        name: mark
        for name, hint in hints.items()
        for mark in getattr(hint, "__metadata__", ())
        if isinstance(mark, Metric)
    }


METRICS: Mapping[str, Metric] = {**_metrics(RoundReport), **_metrics(StepReport)}


def figures(report: RoundReport) -> dict[str, Figure]:
    """Every metric of the round by its name."""
    return {
        name: getattr(report if hasattr(report, name) else report.step, name) for name in METRICS
    }


def combined(reports: Sequence[RoundReport]) -> dict[str, float]:
    """Every metric over several nodes; 0 where none of them has it."""
    rows = [figures(report) for report in reports]
    result: dict[str, float] = {}
    for name, about in METRICS.items():
        values = [value for row in rows if (value := row[name]) is not None]
        result[name] = sum(values) if about.over == "sum" else mean(values)
    return result


def mean(values: Sequence[float]) -> float:
    """The mean; 0 for no values, so that a round without nodes has reward 0."""
    return sum(values) / len(values) if values else 0.0
