"""The gate: it takes bytes from anybody and returns a rollout group that this node may hold, or one
reason why not.

Checked: form, signature, address, sizes. Not checked here: whether a completion is right (scoring),
how often a peer sends (rate limits), whether the same bytes came before (the network remembers
that), whether a text is safe to show (the code that shows it escapes it). Never raises, whatever
the bytes.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from protocol import codec, limits
from protocol.addressing import question_seed
from protocol.messages import NAME_PATTERN, PeerId, Question, Reason, Rejected, RolloutGroup, Round


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    """What this node admits. Its limits may be narrower than those of the protocol, never wider."""

    swarm: str
    local_id: PeerId
    # Whether this node's environment can rebuild the question; must not raise
    knows: Callable[[Question], bool]
    # Whether another digest is known here
    differs: Callable[[Question], bool] = lambda question: False
    # Most turns played here; 1: plain completions only
    turns: Callable[[Question], int] = lambda question: 1
    max_episodes: int = limits.MAX_EPISODES  # per group
    max_episode_chars: int = limits.MAX_EPISODE_CHARS

    def __post_init__(self) -> None:
        # A NUL in the name would make bytes signed for one swarm valid in another.
        if len(self.swarm) > limits.MAX_NAME_CHARS or not re.fullmatch(NAME_PATTERN, self.swarm):
            raise ValueError(
                f"swarm name {self.swarm!r}: 1 to {limits.MAX_NAME_CHARS} of A-Z a-z 0-9 . _ + -"
            )


def admit(data: bytes, rules: AdmissionRules) -> RolloutGroup | Rejected:
    """The group in a sealed message, if admitted. Cheap checks first, nothing semantic before the
    signature.
    """
    group = authenticate(data, rules.swarm)
    return group if isinstance(group, Rejected) else review(group, rules)


def authenticate(data: bytes, swarm: str) -> RolloutGroup | Rejected:
    """First half of `admit`, the costly one: the group in these bytes, signed by the author it
    names.

    A pure function of its arguments, the same for every receiver.
    """
    group = codec.peek(data, RolloutGroup)
    if isinstance(group, Rejected):
        return group
    reason = codec.objection(data, group, swarm)
    return Rejected(reason) if reason else group


def review(group: RolloutGroup, rules: AdmissionRules) -> RolloutGroup | Rejected:
    """Second half of `admit`: whether this receiver wants an authentic group."""
    reason = next(_objections(group, rules), None)
    return Rejected(reason) if reason else group


def _objections(group: RolloutGroup, rules: AdmissionRules) -> Iterator[Reason]:
    """Why this receiver does not want the group. Whoever takes only the first reason pays for no
    check behind it.
    """
    question = group.question
    if group.author == rules.local_id:
        yield Reason.LOCAL_MESSAGE
    if question.seed != question_seed(rules.swarm, group.author, Round(group.round)):
        yield Reason.WRONG_SEED
    if len(group.episodes) > rules.max_episodes:
        yield Reason.TOO_MANY_EPISODES
    if any(episode.chars > rules.max_episode_chars for episode in group.episodes):
        yield Reason.EPISODE_TOO_LONG
    if not _replayable(group, rules.turns(question)):
        yield Reason.SEVERAL_TURNS
    if not rules.knows(question):
        yield Reason.UNKNOWN_QUESTION
    if rules.differs(question):
        yield Reason.OTHER_ENVIRONMENT


def _replayable(group: RolloutGroup, turns: int) -> bool:
    """Whether each episode is a plain completion, or has no more turns than the receiver plays
    (`turns`, above 1).
    """
    return all(episode.single or 1 < turns >= len(episode.turns) for episode in group.episodes)
