"""Peers' episodes after this node has played them again: its own observations and rewards, or why there are none.

Nobody is charged where an episode goes otherwise here, since nobody knows whose environment is the odd one. But an
author of whose episodes half do costs time, so its groups of that task are left for a while; and where those of several
authors do, the odd one is this node's.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from protocol.limits import MIN_EPISODES
from protocol.messages import Episode, PeerId, Question, RolloutGroup
from swarm_node.common.lru import Lru
from swarm_node.rollouts.groups import DIVERGED, Played, Plays, ScoredGroup, Skipped, Tokens

LEFT = 3600.0  # seconds for which an author's groups of a task are left
JUDGED = 8  # episodes of an author and a task, before any are left
ODD = 3  # authors of whom a task is left: it is this node
KEPT = 1024  # authors and tasks

Task = tuple[str, str, str]  # environment, data set, config id


def replayed(
    group: RolloutGroup, prompt: str, plays: Plays, tokens: Sequence[Tokens] = (), prompt_ids: tuple[int, ...] = ()
) -> ScoredGroup | Skipped:
    """The group without the episodes that went otherwise, with this node's rewards and observations. `tokens`: of each
    episode, where this node generated them."""
    if isinstance(plays, Skipped):
        return plays
    pairs = enumerate(zip(group.episodes, plays, strict=True))
    kept = {place: each for place, (told, each) in pairs if isinstance(each, Played) and as_told(told, each)}
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
    """Whether it went here as it did where it was generated. One turn without calls has nothing to compare."""
    return episode.single or episode.trace == played.trace


class Divergence:
    """How many episodes of each author and task went otherwise here. Any thread may ask; one thread notes."""

    def __init__(self, clock: Callable[[], float], odd: Callable[[list[str]], object] = lambda tasks: None) -> None:
        """`clock`: seconds. `odd` is told the tasks of which this node's environment is the odd one, when they
        change."""
        self._clock, self._tell, self._told = clock, odd, list[str]()
        self._counts: Lru[tuple[PeerId, Task], tuple[int, int]] = Lru(KEPT)  # episodes, and those of them that diverged
        self._until: Lru[tuple[PeerId, Task], float] = Lru(KEPT)  # seconds

    def leaves(self, group: RolloutGroup) -> bool:
        """Whether groups of this author and task are left for now."""
        return self._until.get((group.author, _task(group.question)), 0.0) > self._clock()

    def note(self, group: RolloutGroup, result: ScoredGroup | Skipped) -> None:
        """What became of a group. Of one that diverged, none of its episodes counts."""
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
