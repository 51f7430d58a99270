"""What learners answer to held-out questions of all tasks of their swarm. No torch: a generator is an interface.

Every learner is asked the same questions at every time, so differences between nodes and rounds are not those of
questions. Streams of random numbers are named, and these have names of their own: asking changes nothing in a run.
"""

from collections.abc import Sequence
from statistics import fmean

from protocol.messages import Question
from swarm_node.node.episodes import complete, scores
from swarm_node.rollouts.groups import Skipped
from swarm_node.rollouts.interfaces import Environment, Generator

BATCH = 64  # prompts decoded together


def ask(
    generator: Generator, environment: Environment, questions: Sequence[Question], samples: int, stream: str
) -> dict[str, float]:
    """Mean reward of a completion by task, of `samples` completions of each question. Questions that could not be
    asked, completed or scored do not count. `stream` names the random numbers."""
    prompts = environment.prompts(questions)
    asked = [(q, prompt) for q, prompt in zip(questions, prompts, strict=True) if isinstance(prompt, str)]
    written = []
    for start in range(0, len(asked), BATCH):
        part = asked[start : start + BATCH]
        groups = complete(environment, generator, part, samples, f"{stream}/{start}")
        written += [(q, group) for (q, _), group in zip(part, groups, strict=True) if not isinstance(group, Skipped)]
    scored = scores(environment, [(q, group.completions) for q, group in written])
    rewards: dict[str, list[float]] = {}
    for (question, _), earned in zip(written, scored, strict=True):
        if not isinstance(earned, Skipped):
            rewards.setdefault(f"{question.dataset}/{question.config_id}", []).append(fmean(earned))
    return {task: fmean(values) for task, values in sorted(rewards.items())}
