"""What learners answer to held-out questions of all tasks of their swarm. No torch: a generator is an interface.

Every learner is asked the same questions at every time, so differences between nodes and rounds are not those of
questions. Streams of random numbers are named, and these have names of their own: asking changes nothing in a run.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from protocol.messages import Question
from swarm_node.rollouts.groups import Skipped
from swarm_node.rollouts.interfaces import Environment, Generator

BATCH = 64  # prompts decoded together


@dataclass(frozen=True, slots=True)
class Answers:
    """The completions of one held-out question by one node."""

    task: str  # "dataset/config_id"
    texts: tuple[str, ...]
    rewards: tuple[float, ...]  # one per completion, in [0, 1]
    entropy: float  # nats per token: mean of -log p over the tokens that were sampled


Asked = Mapping[Question, Answers]  # without those that could not be asked, completed or scored


def ask(
    generator: Generator, environment: Environment, questions: Sequence[Question], samples: int, stream: str
) -> dict[Question, Answers]:
    """`samples` completions of each question, scored. `stream` names the random numbers."""
    prompts = environment.prompts(questions)
    asked = [(q, prompt) for q, prompt in zip(questions, prompts, strict=True) if isinstance(prompt, str)]
    written = []
    for start in range(0, len(asked), BATCH):
        part = asked[start : start + BATCH]
        groups = generator.generate([prompt for _, prompt in part], samples, f"{stream}/{start}")
        written += [(q, group) for (q, _), group in zip(part, groups, strict=True) if not isinstance(group, Skipped)]
    scored = environment.score([(q, [c.text for c in group.completions]) for q, group in written])
    found = {}
    for (question, group), rewards in zip(written, scored, strict=True):
        if not isinstance(rewards, Skipped):
            log_probs = [value for tokens in group.tokens for value in tokens.log_probs]
            texts = tuple(completion.text for completion in group.completions)
            task = f"{question.dataset}/{question.config_id}"
            found[question] = Answers(task, texts, rewards, -fmean(log_probs) if log_probs else 0.0)
    return found


def accuracy(asked: Asked) -> dict[str, float]:
    """Mean reward of a completion by task."""
    rewards: dict[str, list[float]] = {}
    for answers in asked.values():
        rewards.setdefault(answers.task, []).append(fmean(answers.rewards))
    return {task: fmean(values) for task, values in sorted(rewards.items())}


def figures(nodes: Sequence[Asked]) -> dict[str, float]:
    """Figures of several nodes together; none where nothing was answered.

    pass_at_k: share of questions with a right answer (reward 1) among all k completions; distinct: share of different
    texts among the completions of a question; entropy: nats per token; agreement: see there.
    """
    every = [answers for asked in nodes for answers in asked.values()]
    if not every:
        return {}
    found = {
        "pass_at_k": fmean(max(answers.rewards) >= 1.0 for answers in every),
        "distinct": fmean(len(set(answers.texts)) / len(answers.texts) for answers in every),
        "entropy": fmean(answers.entropy for answers in every),
    }
    return found | agreement(nodes)


def agreement(nodes: Sequence[Asked]) -> dict[str, float]:
    """Share of questions to which two nodes' most frequent completions are the same text, over all pairs of nodes."""
    usual = [{question: most_frequent(answers.texts) for question, answers in asked.items()} for asked in nodes]
    same = [one[q] == other[q] for one, other in combinations(usual, 2) for q in one.keys() & other.keys()]
    return {"agreement": fmean(same)} if same else {}


def most_frequent(texts: Sequence[str]) -> str:
    """The first of them in the alphabet where several are equally frequent."""
    counts = Counter(texts)
    return min(counts, key=lambda text: (-counts[text], text))
