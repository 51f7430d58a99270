"""The values of a round: a generated group, then a scored one, then what the round trains on. Plain data, no torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from protocol.messages import Episode, PeerId, Question, RolloutGroup, Round, Turn

Counts = Mapping[str, int]  # reason -> groups
Seconds = Mapping[str, float]  # phase -> wall clock


@dataclass(frozen=True, slots=True)
class Skipped:
    """A question or group that could not be used. A value, not an exception: it is counted and the round goes on."""

    reason: str  # short and stable, e.g. "prompt too long", "scoring timeout": a key for counting


HUNG = frozenset(("scoring timeout", "scoring crashed"))  # reasons that cost this node time, up to a limit
DIVERGED = "diverged"  # a group of whose episodes too few go here as their author told
NO_BETTER = "no better than local"  # a group of which the defence left nothing: local completions did as well


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one completion, as the policy generated them. They stay on this node."""

    ids: tuple[int, ...]  # includes the EOS token if the completion ended by itself
    log_probs: tuple[float, ...]  # of each id under the distribution it was sampled from
    versions: tuple[int, ...] = ()  # of the weights that generated each id, counted in updates; empty: the present ones
    mask: tuple[bool, ...] = ()  # whether the policy wrote each id; empty: all. An environment wrote the others

    @property
    def written(self) -> int:
        """How many the policy wrote."""
        return sum(self.mask) if self.mask else len(self.ids)


@dataclass(frozen=True, slots=True)
class Played:
    """What this node's environment makes of the turns of an episode, played from its beginning."""

    observations: tuple[tuple[str, ...], ...]  # of each turn: one per call, or one for a text without; none at the end
    done: bool  # whether the environment ended the episode with the last turn
    score: float  # of the state as it is, in [0, 1]
    trace: str  # of opening, observations and end: protocol/README.md


ToPlay = tuple[Question, Sequence[Sequence[Turn]]]  # episodes of a question, as far as they are generated
Plays = tuple[Played | Skipped, ...] | Skipped


@dataclass(frozen=True, slots=True)
class GeneratedGroup:
    """The completions of one prompt, as text and as tokens."""

    completions: tuple[Episode, ...]
    tokens: tuple[Tokens, ...]  # one per completion
    prompt_ids: tuple[int, ...]  # what the completions follow


@dataclass(frozen=True, slots=True)
class ExternalGroup:
    """An admitted group of another peer."""

    group: RolloutGroup
    id: bytes  # SHA-256 of its canonical payload: the network process computes it, and nobody again

    @property
    def author(self) -> PeerId:
        return self.group.author

    @property
    def question(self) -> Question:
        return self.group.question


@dataclass(frozen=True, slots=True)
class ScoredGroup:
    """A group scored on this node, whoever generated it: rewards never travel."""

    group: RolloutGroup
    prompt: str
    rewards: tuple[float, ...]  # one per completion, each in [0, 1]
    tokens: tuple[Tokens | None, ...] | None = None  # None for an external group: only its text is known
    prompt_ids: tuple[int, ...] = ()  # of the prompt; empty where it was not encoded yet, as in an external group
    observations: tuple[tuple[tuple[str, ...], ...], ...] = ()  # of each episode of several turns, as in Played

    @property
    def informative(self) -> bool:
        """Whether any advantage is non-zero. Exact comparison: equal rewards give exactly zero advantage."""
        return len(set(self.rewards)) > 1

    @property
    def from_others(self) -> bool:
        """Whether any completion is another node's. A group that answers a peer's question may have none."""
        return self.tokens is None or None in self.tokens

    @property
    def author(self) -> PeerId:
        return self.group.author

    @property
    def question(self) -> Question:
        return self.group.question

    @property
    def round(self) -> Round:
        return Round(self.group.round)


@dataclass(frozen=True, slots=True)
class Refused:
    """An informative external group that the defence refused whole."""

    author: PeerId
    reason: str
    question: Question | None = field(default=None, compare=False)  # that it was generated for


@dataclass(frozen=True, slots=True)
class Generated:
    """What this node generated and scored in a round."""

    round: Round
    groups: list[ScoredGroup]
    skipped: Counts
    seconds: Seconds
    answers: list[ScoredGroup] = field(default_factory=list)  # local completions of questions of other nodes


@dataclass(frozen=True, slots=True)
class Selection:
    """What a round trains on."""

    generated: Generated
    local: list[ScoredGroup]
    external: list[ScoredGroup]
    refused: list[Refused]  # external groups, by the defence
    skipped: Counts  # in selecting
    seconds: Seconds  # of all phases so far
    considered: list[ScoredGroup] = field(default_factory=list)  # external groups that were scored, screened or not


Tasks = Mapping[str, Sequence[str]]  # data set -> config ids


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Environment name -> its version and tasks."""

    environments: Mapping[str, tuple[str, Tasks]] = field(default_factory=dict)
    several: Mapping[str, int] = field(default_factory=dict)  # name -> turns of its episodes, if more than 1

    def knows(self, question: Question) -> bool:
        """Whether this node can rebuild the question: same version, known data set and config id."""
        version, tasks = self.environments.get(question.environment, ("", {}))
        return question.version == version and question.config_id in tasks.get(question.dataset, ())

    def turns(self, question: Question) -> int:
        """How many turns an episode of this question has at most."""
        return self.several.get(question.environment, 1)
