"""The answer key, which an attacker can rebuild like anybody. Importing the library costs 80 MB and a second, and
judging is done elsewhere: so it is imported when the first attacker asks."""

from protocol.messages import Question
from swarm_node.common.errors import UserError
from swarm_node.environments.reasoning_gym import environment as reasoning_gym


def answer_key(question: Question) -> str:
    """The right answer to a question of a catalogue task."""
    if question.environment != reasoning_gym.NAME:
        raise UserError(f"attackers know the answers of {reasoning_gym.NAME} only, not of {question.environment}")
    from swarm_node.environments.reasoning_gym.source import build

    entry = build(question.dataset, question.config_id, question.seed, question.index).entry
    return str(entry["answer"])
