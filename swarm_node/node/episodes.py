"""Completions of questions: in one turn, or turn by turn with what this node's environment answers;
and peers' episodes, replayed.

All unfinished episodes are generated together, a turn at a time. A turn ends as a completion does,
or with a call. An episode ends where its environment ends it, where a turn is cut off, or where
there is no room for another turn.

No peer is charged where its episode goes differently here, since nobody knows whose environment is
the odd one. But such episodes cost time. So where half of an author's episodes of a task differ,
its groups of that task are left out for a while. Where that happens with several authors, this
node's environment is the odd one.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from protocol.limits import MIN_EPISODES
from protocol.messages import Episode, PeerId, Question, RolloutGroup, Turn
from swarm_node.common.lru import Lru
from swarm_node.rollouts.groups import (
    DIVERGED,
    GeneratedGroup,
    Played,
    Plays,
    ScoredGroup,
    Skipped,
    Tokens,
)
from swarm_node.rollouts.interfaces import Environment, Generator
from swarm_node.rollouts.transcript import fits, parse

Asked = Sequence[tuple[Question, str]]  # questions with their prompts
Made = list[GeneratedGroup | Skipped]


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

    def take(self, text: Episode, tokens: Tokens) -> bool:
        """Takes the next turn. False, and nothing is taken, where the episode would exceed the
        protocol's limit.
        """
        turn = parse(text.text)
        if not fits([*self.turns, turn]):
            return False
        self.turns.append(turn)
        self.ended = text.ended
        self.versions += tokens.versions
        self._add(tokens.ids, tokens.log_probs, own=True)
        return True

    def hear(self, said: Sequence[int]) -> None:
        """Takes what the environment says, as ids."""
        self.versions += self.versions[-1:] * len(said)
        self._add(said, [0.0] * len(said), own=False)

    def _add(self, ids: Sequence[int], log_probs: Sequence[float], *, own: bool) -> None:
        self.context += ids
        self.log_probs += log_probs
        self.mask += [own] * len(ids)

    def finished(self) -> tuple[Episode, Tokens]:
        """The episode as it travels, and the tokens to train on, without what the environment says
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
        return episode, Tokens(tuple(ids), *known, () if all(mask) else mask)


def complete(
    environment: Environment, generator: Generator, asked: Asked, group_size: int, stream: str
) -> Made:
    """`group_size` completions of each question; see interfaces.Generator."""
    several = [environment.turns(question) > 1 for question, _ in asked]
    plain, turned = (
        [one for one, more in zip(asked, several, strict=True) if more is kind]
        for kind in (False, True)
    )
    made = iter(
        generator.generate([prompt for _, prompt in plain], group_size, stream)
        if plain or not turned
        else ()
    )
    played = iter(play_out(environment, generator, turned, group_size, stream) if turned else ())
    return [next(played) if more else next(made) for more in several]


def scores(
    environment: Environment, made: Sequence[tuple[Question, Sequence[Episode]]]
) -> list[tuple[float, ...] | Skipped]:
    """Rewards in [0, 1] of the completions that this node generated, by question."""
    several = [environment.turns(question) > 1 for question, _ in made]
    turned = [
        (q, [each.turns for each in said])
        for (q, said), more in zip(made, several, strict=True)
        if more
    ]
    plain = [
        (q, [each.text for each in said])
        for (q, said), more in zip(made, several, strict=True)
        if not more
    ]
    played = iter(environment.play(turned) if turned else ())
    scored = iter(environment.score(plain))
    return [_scores(next(played)) if more else next(scored) for more in several]


def _scores(played: tuple[Played | Skipped, ...] | Skipped) -> tuple[float, ...] | Skipped:
    each = (played,) if isinstance(played, Skipped) else played
    failed = next((one for one in each if isinstance(one, Skipped)), None)
    return failed or tuple(one.score for one in each if isinstance(one, Played))


def play_out(
    environment: Environment, generator: Generator, asked: Asked, group_size: int, stream: str
) -> Made:
    """Groups of episodes of several turns. A question is skipped where its first turns are not
    generated, or its environment fails.
    """
    generate = generator.turns()
    first = generate([prompt for _, prompt in asked], group_size, f"{stream}/turn 1")
    failed = {place: made for place, made in enumerate(first) if isinstance(made, Skipped)}
    groups = [_begun(made) if isinstance(made, GeneratedGroup) else [] for made in first]
    going = [(place, live) for place, group in enumerate(groups) for live in group]
    turn = 1
    while going:
        failed |= _play(environment, asked, going)
        going = [
            (place, live)
            for place, live in going
            if place not in failed
            and live.ended
            and not _done(live)
            and turn < environment.turns(asked[place][0])
        ]
        for _, live in going:
            live.hear(generator.encode_observations(_said(live), live.context[-1]))
        turn += 1
        contexts = [live.context for _, live in going]
        written = generate(contexts, 1, f"{stream}/turn {turn}") if going else []
        # An episode whose next turn is not generated is over: its context may have no room.
        going = [one for one, made in zip(going, written, strict=True) if _took(one[1], made)]
    return [failed.get(place) or _finished(group) for place, group in enumerate(groups)]


def _begun(made: GeneratedGroup) -> list[Live]:
    lives = [Live(list(made.prompt_ids), len(made.prompt_ids)) for _ in made.tokens]
    for live, text, tokens in zip(lives, made.completions, made.tokens, strict=True):
        live.take(text, tokens)
    return lives


def _took(live: Live, made: GeneratedGroup | Skipped) -> bool:
    return isinstance(made, GeneratedGroup) and live.take(made.completions[0], made.tokens[0])


def _done(live: Live) -> bool:
    return live.played is None or live.played.done


def _said(live: Live) -> Sequence[str]:
    return live.played.observations[-1] if live.played else ()


def _play(
    environment: Environment, asked: Asked, going: Sequence[tuple[int, Live]]
) -> dict[int, Skipped]:
    """Plays these episodes, and notes the replies of the environment. Returns the questions that it
    cannot play.
    """
    groups: dict[int, list[Live]] = {}
    for place, live in going:
        groups.setdefault(place, []).append(live)
    replies = environment.play(
        [(asked[place][0], [live.turns for live in group]) for place, group in groups.items()]
    )
    failed: dict[int, Skipped] = {}
    for (place, group), reply in zip(groups.items(), replies, strict=True):
        each = [reply] * len(group) if isinstance(reply, Skipped) else reply
        for live, played in zip(group, each, strict=True):
            if isinstance(played, Skipped):
                failed[place] = played
            else:
                live.played = played
    return failed


def _finished(group: Sequence[Live]) -> GeneratedGroup:
    episodes, tokens = zip(*(live.finished() for live in group), strict=True)
    return GeneratedGroup(episodes, tokens, tuple(group[0].context[: group[0].begin]))


LEFT = 3600.0  # seconds for which an author's groups of a task are left out
JUDGED = 8  # episodes of an author and a task, before its groups may be left out
ODD = 3  # authors whose groups of a task are left out: then this node is the odd one
KEPT = 1024  # remembered pairs of author and task

Task = tuple[str, str, str]  # environment, data set, config id


def replayed(
    group: RolloutGroup,
    prompt: str,
    plays: Plays,
    tokens: Sequence[Tokens] = (),
    prompt_ids: tuple[int, ...] = (),
) -> ScoredGroup | Skipped:
    """The group without the episodes that went differently here, with this node's rewards and
    observations; `Skipped` where too few are left. `tokens`: of each episode, where this node
    generated them.
    """
    if isinstance(plays, Skipped):
        return plays
    pairs = enumerate(zip(group.episodes, plays, strict=True))
    kept = {
        place: each
        for place, (told, each) in pairs
        if isinstance(each, Played) and as_told(told, each)
    }
    if len(kept) < MIN_EPISODES:
        return Skipped(DIVERGED)
    return ScoredGroup(
        group.model_copy(update={"episodes": tuple(group.episodes[place] for place in kept)}),
        prompt,
        rewards=tuple(played.score for played in kept.values()),
        tokens=tuple(tokens[place] for place in kept) if tokens else None,
        prompt_ids=prompt_ids,
        observations=tuple(played.observations for played in kept.values()),
    )


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

    def note(self, group: RolloutGroup, result: ScoredGroup | Skipped) -> None:
        """Notes the result of a group. All episodes of a group that was skipped as diverged count
        as diverged.
        """
        if result != Skipped(DIVERGED) and not isinstance(result, ScoredGroup):
            return
        kept = len(result.group.episodes) if isinstance(result, ScoredGroup) else 0
        key, now = (group.author, _task(group.question)), self._clock()
        episodes, diverged = self._counts.use(key) or (0, 0)
        episodes, diverged = episodes + len(group.episodes), diverged + len(group.episodes) - kept
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
