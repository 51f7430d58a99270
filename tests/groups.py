"""Questions and rollout groups as peers send them, and as a node has them."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from protocol import codec
from protocol.addressing import question_seed
from protocol.messages import Episode, PeerId, Question, RolloutGroup, Round
from swarm_node.rollouts.groups import (
    Completions,
    Group,
    Observations,
    Played,
    Plays,
    Sample,
    Skipped,
    Tokens,
    ToPlay,
)

SWARM = "test"
KIND = {
    "environment": "reasoning_gym",
    "version": "0.1.25",
    "dataset": "chain_sum",
    "config_id": "easy",
}
DIGEST = "A" * 11


def question(author: PeerId, round: int = 0, index: int = 0, **fields: object) -> Question:
    """An admissible question; `fields` change it."""
    admissible = {
        **KIND,
        "digest": DIGEST,
        "seed": question_seed(SWARM, author, Round(round)),
        "index": index,
    }
    return Question.model_validate({**admissible, **fields})


def external(of: RolloutGroup | Group) -> Group:
    """The group after admission."""
    message = of.message() if isinstance(of, Group) else of
    return Group.received(message, codec.content_hash(codec.encode(message)))


def scored(
    of: RolloutGroup | Group,
    prompt: str,
    rewards: Sequence[float],
    tokens: Sequence[Tokens | None] | None = None,
    prompt_ids: tuple[int, ...] = (),
    observations: Sequence[Observations] = (),
) -> Group:
    """The group with these rewards. Without `tokens` it is as received from a peer: text only."""
    parts = zip(
        of.episodes,
        rewards,
        tokens or [None] * len(rewards),
        observations or [()] * len(rewards),
        strict=True,
    )
    samples = tuple(Sample(*part) for part in parts)
    return Group(of.author, Round(of.round), of.question, samples, prompt, prompt_ids)


def lifted(
    score: Callable[[Sequence[tuple[Question, Sequence[str]]]], list[tuple[float, ...] | Skipped]],
    asked: Sequence[ToPlay],
) -> list[Plays]:
    """What an environment of questions of one turn plays, where `score` gives rewards to texts."""
    scores = score([(question, [turns[0].text for turns in played]) for question, played in asked])
    return [
        rewards
        if isinstance(rewards, Skipped)
        else tuple(Played((), True, reward, "") for reward in rewards)
        for rewards in scores
    ]


def tokens_of(of: Group | Completions) -> list[Tokens]:
    """The tokens of each sample, which this node generated."""
    return [sample.tokens for sample in of.samples if sample.tokens is not None]


def episodes_of(of: Group | Completions) -> list[Episode]:
    return [sample.episode for sample in of.samples]


def group(
    author: PeerId,
    round: int = 0,
    index: int = 0,
    texts: Sequence[str] = ("4", "five"),
    ended: Sequence[bool] | None = None,
    **fields: object,
) -> RolloutGroup:
    """A group whose completions have all ended by default; `fields` are those of the question."""
    flags = [True] * len(texts) if ended is None else ended
    completions = tuple(
        Episode.of(text=text, ended=end) for text, end in zip(texts, flags, strict=True)
    )
    asked = question(author, round, index, **fields)
    return Group.of_text(author, Round(round), asked, completions).message()


def with_tokens(of: Group, tokens: Sequence[Tokens | None]) -> Group:
    """The group with other tokens of its samples."""
    samples = zip(of.samples, tokens, strict=True)
    return replace(of, samples=tuple(replace(sample, tokens=own) for sample, own in samples))
