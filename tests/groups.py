"""Questions and rollout groups as peers send them."""

from collections.abc import Sequence

from protocol import codec
from protocol.addressing import question_seed
from protocol.messages import Episode, PeerId, Question, RolloutGroup, Round
from swarm_node.rollouts.groups import ExternalGroup

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


def external(of: RolloutGroup) -> ExternalGroup:
    """The group after admission."""
    return ExternalGroup(of, codec.content_hash(codec.encode(of)))


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
    return RolloutGroup(author=author, round=Round(round), question=asked, episodes=completions)
