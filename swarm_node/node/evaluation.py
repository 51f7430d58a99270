"""Held-out questions: how their answers are scored, and validation, which asks the same ones every few rounds and tells
which checkpoint answered them best.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from protocol.messages import Question, Round
from swarm_node.environments.kinds import EVALUATION
from swarm_node.environments.registry import build_environment
from swarm_node.policy.soundness import Damaged
from swarm_node.rollouts.groups import Skipped
from swarm_node.rollouts.interfaces import Environment, Generator
from swarm_node.settings import NodeConfig, sections_of
from swarm_node.telemetry.events import Validated
from swarm_node.training import checkpoint

REWARD = "validation_reward"  # key of a checkpoint's extra state


def answer(
    generator: Generator,
    environment: Environment,
    scorers: Mapping[str, Environment],
    batch: Sequence[Question],
    stream: str,
) -> dict[str, list[float | None]]:
    """By scorer the score of one sampled completion of each prompt; None where it could not be asked, answered or
    scored."""
    asked = [(i, prompt) for i, prompt in enumerate(environment.prompts(batch)) if isinstance(prompt, str)]
    written = generator.generate([prompt for _, prompt in asked], 1, stream)
    answered = [
        (i, answer.completions[0].text)
        for (i, _), answer in zip(asked, written, strict=True)
        if not isinstance(answer, Skipped)
    ]
    found: dict[str, list[float | None]] = {}
    for suffix, scorer in scorers.items():
        scores: list[float | None] = [None] * len(batch)
        rewards = scorer.score([(batch[i], [text]) for i, text in answered])
        for (i, _), reward in zip(answered, rewards, strict=True):
            if not isinstance(reward, Skipped):
                scores[i] = reward[0]
        found[suffix] = scores
    return found


class Validation:
    """One sampled completion of each held-out prompt, from the same random stream each time."""

    def __init__(self, config: NodeConfig, environment: Environment, generator: Generator, best: float | None) -> None:
        """`environment` is the node's, asked where the configuration names no other tasks or puzzles. `best`: the
        highest reward so far, of an earlier part of the run."""
        self.best = best
        self._config, self._generator = config.validation, generator
        self._own = _other_environment(config)
        self._environment = self._own or environment

    def close(self) -> None:
        if self._own:
            self._own.close()

    def due(self, done: int) -> bool:
        """Whether to validate after `done` rounds."""
        return self._config.every > 0 and done % self._config.every == 0

    def measure(self, done: int) -> Validated:
        """Mean reward of the present weights after `done` rounds. Questions that could not be scored are left out."""
        questions = self._environment.sample(EVALUATION, Round(0), self._config.questions)
        scores = answer(self._generator, self._environment, {"": self._environment}, questions, "validation")[""]
        scored = [score for score in scores if score is not None]
        reward = fmean(scored) if scored else 0.0
        is_best = self.best is None or reward > self.best
        if is_best:
            self.best = reward
        return Validated(done, reward, len(scored), is_best)


def _other_environment(config: NodeConfig) -> Environment | None:
    sections = {name: section.in_validation() for name, section in sections_of(config).items()}
    asked = config.model_copy(update=sections)
    return None if asked == config or not config.validation.every else build_environment(asked)


def best_so_far(folder: Path) -> float | None:
    """Reward of the best checkpoint that is kept there; None where there is none, or it is damaged."""
    for kept in reversed(checkpoint.all_checkpoints(folder)):
        try:
            return float(checkpoint.read_state(kept)["extra"][REWARD])
        except (Damaged, KeyError, TypeError, ValueError):
            continue
    return None
