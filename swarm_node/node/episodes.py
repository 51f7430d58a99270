"""Episodes: written turn by turn with what this node's environment answers, and played again for
their rewards, those of this node and those of peers alike.

All unfinished episodes are generated together, a turn at a time. A turn ends as a completion does,
or with a call. An episode ends where its environment ends it, where a turn is cut off, or where
there is no room for another turn.

A completion that answers at one go is an episode of one turn. Only `complete` tells it apart: all
such completions of a round are written at once, and nothing has to answer them.

No peer is charged where its episode goes differently here, since nobody knows whose environment is
the odd one. But such episodes cost time. So where half of an author's episodes of a task differ,
its groups of that task are left out for a while. Where that happens with several authors, this
node's environment is the odd one.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from protocol.limits import MIN_EPISODES
from protocol.messages import Episode, PeerId, Question, Turn
from swarm_node.common.batched import paired, routed
from swarm_node.common.lru import Lru
from swarm_node.rollouts.groups import (
    DIVERGED,
    Completions,
    Group,
    Played,
    Plays,
    Sample,
    Skipped,
    Tokens,
    ToPlay,
    Turns,
)
from swarm_node.rollouts.interfaces import Environment, Generator
from swarm_node.rollouts.transcript import fits, parse


@dataclass
class Live:
    """An episode while it is played."""

    context: list[int]  # ids of the prompt, and of all that followed
    begin: int  # number of ids of the prompt
    turns: list[Turn] = field(default_factory=list)
    ended: bool = True  # whether the policy itself ended the last turn
    # This and the next two: for each id after the prompt
    log_probs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    mask: list[bool] = field(default_factory=list)
    played: Played | None = None

    def take(self, sample: Sample) -> bool:
        """Takes the next turn. False, and nothing is taken, where the episode would exceed the
        protocol's limit.
        """
        assert sample.tokens is not None
        turn = parse(sample.episode.text)
        if not fits([*self.turns, turn]):
            return False
        self.turns.append(turn)
        self.ended = sample.episode.ended
        self.versions += sample.tokens.versions
        self._add(sample.tokens.ids, sample.tokens.log_probs, own=True)
        return True

    @property
    def goes_on(self) -> bool:
        """Whether neither the policy nor the environment has ended it."""
        return self.ended and self.played is not None and not self.played.done

    @property
    def observations(self) -> Sequence[str]:
        """What the environment says to the last turn."""
        return self.played.observations[-1] if self.played else ()

    def hear(self, said: Sequence[int]) -> None:
        """Takes what the environment says, as ids."""
        self.versions += self.versions[-1:] * len(said)
        self._add(said, [0.0] * len(said), own=False)

    def _add(self, ids: Sequence[int], log_probs: Sequence[float], *, own: bool) -> None:
        self.context += ids
        self.log_probs += log_probs
        self.mask += [own] * len(ids)

    def finished(self) -> Sample:
        """The episode as it travels, with the tokens to train on, without what the environment says
        to the last turn.
        """
        assert self.played is not None
        single = len(self.turns) == 1 and not self.turns[0].calls
        episode = Episode(
            ended=self.ended, trace="" if single else self.played.trace, turns=tuple(self.turns)
        )
        end = len(self.mask) - self.mask[::-1].index(True)
        ids, mask = self.context[self.begin : self.begin + end], tuple(self.mask[:end])
        known = tuple(self.log_probs[:end]), tuple(self.versions[:end])
        return Sample(episode, tokens=Tokens(tuple(ids), *known, () if all(mask) else mask))


@dataclass
class LiveGroup:
    """A group while its episodes are played."""

    group: Group  # without samples
    prompt_ids: tuple[int, ...] = ()
    episodes: list[Live] = field(default_factory=list)
    going: list[Live] = field(default_factory=list)  # those of them whose last turn is not played
    failed: Skipped | None = None

    def begin(self, first: Completions | Skipped) -> None:
        """Takes the first turn of each episode."""
        if isinstance(first, Skipped):
            self.failed = first
            return
        self.prompt_ids = first.prompt_ids
        for sample in first.samples:
            live = Live(list(first.prompt_ids), len(first.prompt_ids))
            live.take(sample)
            self.episodes.append(live)
        self.going = list(self.episodes)

    def hear(self, plays: Plays) -> None:
        """Takes the environment's replies to the episodes that are going. One that it cannot play
        fails the group.
        """
        if isinstance(plays, Skipped):
            self.failed = plays
            return
        for live, played in paired(self.going, plays):
            if isinstance(played, Skipped):
                self.failed = played
            else:
                live.played = played

    def finished(self) -> Group | Skipped:
        """The group with its samples."""
        if self.failed is not None:
            return self.failed
        samples = tuple(live.finished() for live in self.episodes)
        return replace(self.group, samples=samples, prompt_ids=self.prompt_ids)


def complete(
    environment: Environment,
    generator: Generator,
    groups: Sequence[Group],
    group_size: int,
    stream: str,
) -> list[Group | Skipped]:
    """The groups, which have a prompt and no sample yet, with `group_size` samples each; see
    interfaces.Generator.
    """

    catalogue = environment.catalogue

    def has_several(group: Group) -> bool:
        return catalogue.turns(group.question) > 1

    def at_once(groups: Sequence[Group]) -> list[Group | Skipped]:
        write = generator.open(goes_on=False)
        made = write([group.prompt for group in groups], group_size, stream)
        return [_completed(group, completions) for group, completions in paired(groups, made)]

    def turn_by_turn(groups: Sequence[Group]) -> list[Group | Skipped]:
        return play_out(environment, generator, groups, group_size, stream)

    return routed(groups, has_several, {False: at_once, True: turn_by_turn})


def _completed(group: Group, made: Completions | Skipped) -> Group | Skipped:
    if isinstance(made, Skipped):
        return made
    return replace(group, samples=made.samples, prompt_ids=made.prompt_ids)


def onward(
    results: Sequence[Group | Skipped], stage: Callable[[list[Group]], list[Group | Skipped]]
) -> list[Group | Skipped]:
    """The results of the next stage of these groups; what was skipped before stays skipped."""

    def is_skipped(result: Group | Skipped) -> bool:
        return isinstance(result, Skipped)

    def next_stage(going: Sequence[Group | Skipped]) -> list[Group | Skipped]:
        return stage([result for result in going if isinstance(result, Group)])

    return routed(results, is_skipped, {True: list, False: next_stage})


def scores(environment: Environment, groups: Sequence[Group]) -> list[Group | Skipped]:
    """Groups that this node completed to measure itself, with rewards in [0, 1]. One sample that
    cannot be played skips its group; `score_groups`, for groups to train on, leaves such a sample
    out.
    """
    return [_with_scores(group, plays) for group, plays in plays_of(environment, groups)]


def plays_of(environment: Environment, groups: Sequence[Group]) -> list[tuple[Group, Plays]]:
    """Each group with what the environment answers to its episodes."""
    to_play: list[ToPlay] = [
        (group.question, [episode.turns for episode in group.episodes]) for group in groups
    ]
    return paired(groups, environment.play(to_play))


def _with_scores(group: Group, plays: Plays) -> Group | Skipped:
    if isinstance(plays, Skipped):
        return plays
    rewards: list[float] = []
    for played in plays:
        if isinstance(played, Skipped):
            return played
        rewards.append(played.score)
    return group.scored(rewards)


def play_out(
    environment: Environment,
    generator: Generator,
    groups: Sequence[Group],
    group_size: int,
    stream: str,
) -> list[Group | Skipped]:
    """Groups of episodes of several turns. A question is skipped where its first turns are not
    generated, or its environment fails.
    """
    generate = generator.open(goes_on=True)
    turns_of = environment.catalogue.turns
    first = generate([group.prompt for group in groups], group_size, f"{stream}/turn 1")
    live_groups = [LiveGroup(group) for group in groups]
    for live_group, made in paired(live_groups, first):
        live_group.begin(made)
    turn = 1
    while playing := [live_group for live_group in live_groups if live_group.going]:
        _play(environment, playing)
        for live_group in playing:
            most = 0 if live_group.failed else turns_of(live_group.group.question)
            live_group.going = [live for live in live_group.going if live.goes_on and turn < most]
        turn += 1
        _next_turn(generator, generate, playing, f"{stream}/turn {turn}")
    return [live_group.finished() for live_group in live_groups]


def _play(environment: Environment, groups: Sequence[LiveGroup]) -> None:
    """Plays the episodes that are going, and notes the replies of the environment."""
    replies = environment.play(
        [(live.group.question, [each.turns for each in live.going]) for live in groups]
    )
    for live_group, plays in paired(groups, replies):
        live_group.hear(plays)


def _next_turn(
    generator: Generator, generate: Turns, groups: Sequence[LiveGroup], stream: str
) -> None:
    """The next turn of the episodes that are going. One whose next turn is not generated is over:
    its context may have no room.
    """
    going = [live for group in groups for live in group.going]
    for live in going:
        live.hear(generator.encode_observations(live.observations, live.context[-1]))
    made = generate([live.context for live in going], 1, stream) if going else []
    over = {id(live) for live, completions in paired(going, made) if not _took(live, completions)}
    for group in groups:
        group.going = [live for live in group.going if id(live) not in over]


def _took(live: Live, made: Completions | Skipped) -> bool:
    if isinstance(made, Skipped):
        return False
    (sample,) = made.samples
    return live.take(sample)


LEFT = 3600.0  # seconds for which an author's groups of a task are left out
JUDGED = 8  # episodes of an author and a task, before its groups may be left out
ODD = 3  # authors whose groups of a task are left out: then this node is the odd one
KEPT = 4096  # remembered pairs of author and task, whatever the turns of its episodes

Task = tuple[str, str, str]  # environment, data set, config id


def replayed(group: Group, plays: Plays) -> Group | Skipped:
    """The group without the samples that went differently here, with this node's rewards and
    observations; `Skipped` where too few are left.
    """
    if isinstance(plays, Skipped):
        return plays
    samples = tuple(
        replace(sample, reward=played.score, observations=played.observations)
        for sample, played in paired(group.samples, plays)
        if isinstance(played, Played) and as_told(sample.episode, played)
    )
    if len(samples) < min(MIN_EPISODES, len(group.samples)):
        return Skipped(DIVERGED)
    return replace(group, samples=samples)


def as_told(episode: Episode, played: Played) -> bool:
    """Whether the episode went here as its author told. One turn without calls has nothing to
    compare.
    """
    return episode.single or episode.trace == played.trace


class Divergence:
    """How many episodes of each author and task went differently here. Any thread may ask; one
    thread notes.
    """

    def __init__(
        self, clock: Callable[[], float], odd: Callable[[list[str]], object] = lambda tasks: None
    ) -> None:
        """`clock`: seconds. `odd` is told all tasks on which this node's environment is the odd
        one, when they change.
        """
        self._clock, self._tell, self._told = clock, odd, list[str]()
        # Episodes, and those of them that diverged
        self._counts: Lru[tuple[PeerId, Task], tuple[int, int]] = Lru(KEPT)
        self._until: Lru[tuple[PeerId, Task], float] = Lru(KEPT)  # seconds

    def leaves(self, author: PeerId, question: Question) -> bool:
        """Whether groups of this author and task are left out for now."""
        return self._until.get((author, _task(question)), 0.0) > self._clock()

    def note(self, group: Group, result: Group | Skipped) -> None:
        """Notes the result of a group. All episodes of a group that was skipped as diverged count
        as diverged.
        """
        if result != Skipped(DIVERGED) and not isinstance(result, Group):
            return
        kept = len(result.samples) if isinstance(result, Group) else 0
        key, now = (group.author, _task(group.question)), self._clock()
        episodes, diverged = self._counts.use(key) or (0, 0)
        episodes += len(group.samples)
        diverged += len(group.samples) - kept
        self._counts[key] = episodes, diverged
        if episodes >= JUDGED and 2 * diverged >= episodes:
            self._until[key], self._counts[key] = now + LEFT, (0, 0)
        authors = Counter(task for (_, task), until in self._until.items() if until > now)
        odd = sorted("/".join(task[1:]) for task, count in authors.items() if count >= ODD)
        if odd != self._told:
            self._told = odd
            self._tell(odd)


def _task(question: Question) -> Task:
    return question.environment, question.dataset, question.config_id
