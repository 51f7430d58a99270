"""Held-out questions: how their answers are scored, and validation, which asks the same ones every
few rounds and tells which checkpoint answered them best.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean

from pydantic import BaseModel

from protocol.limits import MAX_QUESTIONS_PER_ROUND
from protocol.messages import Question, Round
from swarm_node.common.batched import paired
from swarm_node.environments.kinds import EVALUATION
from swarm_node.environments.registry import build_environment, tasks_of
from swarm_node.environments.scored import LEARNED, Mixture
from swarm_node.node.episodes import complete, onward, scores
from swarm_node.policy.soundness import Damaged
from swarm_node.rollouts.curriculum import AT_ONCE
from swarm_node.rollouts.groups import Group, Skipped
from swarm_node.rollouts.interfaces import Environment, Generator
from swarm_node.settings import NodeConfig, Section
from swarm_node.telemetry.events import Corrected, Validated
from swarm_node.training import checkpoint

REWARD, MEASURED = "validation_reward", "measured"  # keys of a checkpoint's extra state
SHOWN = 200  # characters of a question or an answer that are kept


@dataclass(frozen=True, slots=True)
class Attempt:
    """One sampled completion of a question, as far as it came."""

    text: str | None  # None where the question could not be asked or answered
    score: float | None  # also None where the completion could not be scored
    failed: str = ""  # why one of them is None


def answer(
    generator: Generator, environment: Environment, batch: Sequence[Question], stream: str
) -> list[Attempt]:
    """What the model says to these questions. `stream` names the random stream."""
    asked = [
        prompt
        if isinstance(prompt, Skipped)
        else Group(EVALUATION, Round(0), question, prompt=prompt)
        for question, prompt in paired(batch, environment.prompts(batch))
    ]
    completed = onward(asked, lambda groups: complete(environment, generator, groups, 1, stream))
    scored = onward(completed, partial(scores, environment))
    return [_answer(result, judged) for result, judged in paired(completed, scored)]


def _answer(completed: Group | Skipped, scored: Group | Skipped) -> Attempt:
    """What became of one question."""
    if isinstance(completed, Skipped):
        return Attempt(None, None, completed.reason)
    (episode,) = completed.episodes
    text = episode.turns[-1].text
    if isinstance(scored, Skipped):
        return Attempt(text, None, scored.reason)
    (reward,) = scored.rewards
    return Attempt(text, reward)


class Measured(BaseModel):
    """What validation found so far, as a checkpoint keeps it. Tasks are written DATASET/CONFIG."""

    before: dict[str, float] = {}  # by task: its first reward
    now: dict[str, float] = {}  # by task: its newest reward
    # By task and index of a question: its first answer, where that scored 0
    wrong: dict[str, str] = {}
    # The newest answer of those of `wrong` that scored 1 when they were asked last
    right: dict[str, str] = {}


class Validation:
    """One sampled completion of each held-out prompt, from the same random stream each time.

    Where a node chooses its tasks, validation asks about those that it has trained on, and about no
    others: `begin` measures a task before the first training on it. So before and now are of the
    same tasks, and what was learned and dropped stays in sight.
    """

    def __init__(
        self,
        config: NodeConfig,
        environment: Mixture,
        generator: Generator,
        best: float | None,
        measured: Measured,
    ) -> None:
        """`environment` is the node's, asked where the configuration names no other tasks or
        puzzles for validation. `best`: the highest reward of an earlier part of the run;
        `measured`: what validation found in that part.
        """
        self.best, self.measured = best, measured
        self._config, self._generator, self._at_once = (
            config.validation,
            generator,
            config.environment.at_once,
        )
        self._own = _other_environment(config)
        self._environment = self._own or environment
        self._asked = set(environment.choose(measured.now))
        self._trained = set(tasks_of(config))
        # Held-out questions of each task, where the node chooses its tasks; else 0
        self._of_each = 0
        if config.environment.choose:
            at_once = min(config.environment.at_once or AT_ONCE, len(self._trained))
            self._of_each = max(1, self._config.questions // at_once)
        self._known = len(measured.before)  # tasks, when all were measured last
        self._in_vain: set[str] = set()  # tasks none of whose questions could be asked
        tasks, at_once = len(self._trained), self._at_once
        # A task gets as many questions, however many tasks wait
        share = tasks / at_once if at_once else 1
        self._count = min(round(self._config.questions * max(1.0, share)), MAX_QUESTIONS_PER_ROUND)

    def close(self) -> None:
        if self._own:
            self._own.close()

    def due(self, done: int, asked: bool = False) -> bool:
        """Whether to validate after `done` rounds. `asked`: whether a user asks for it now."""
        wanted = self._config.every > 0 and (asked or done % self._config.every == 0)
        return wanted and (not self._of_each or self._has_begun())

    def _has_begun(self) -> bool:
        """Whether there is something to ask for a node that chooses its tasks: one that it has
        trained on, or questions that a data set keeps for validation.
        """
        return bool(self.measured.before) or any(
            task_of(question) not in self._trained for question in self._held_out()
        )

    def begin(self, tasks: Sequence[str]) -> None:
        """Measures those of these tasks that were never measured, before they are trained on. It
        does so only for a node that chooses its tasks.
        """
        new = set(tasks) - self.measured.before.keys() - self._in_vain
        if not self._of_each or not self._config.every or not new:
            return
        if questions := [each for each in self._held_out() if task_of(each) in new]:
            self._take(questions, {}, {})
        self._in_vain |= new - self.measured.before.keys()

    def _held_out(self) -> list[Question]:
        """The questions of a validation."""
        if self._of_each:
            return self._environment.held_out(self._of_each)
        return self._environment.sample(EVALUATION, Round(0), self._count)

    def measure(self, done: int) -> Validated:
        """Mean reward of the present weights after `done` rounds. It leaves out questions that
        could not be scored, and tasks that wait for their turn. A task whose turn has come is
        measured before anything is trained on it.
        """
        questions = self._held_out()
        rewards: dict[str, list[float]] = {}
        unasked: dict[str, str] = {}
        corrected: list[Corrected] = []
        due = set(self.measured.now) | (set() if self._of_each else self._asked)
        left = list(questions)
        while asked := [question for question in left if self._is_due(question, due)]:
            left = [question for question in left if not self._is_due(question, due)]
            corrected += self._take(asked, rewards, unasked)
            if self._of_each:
                break
            # What cannot be asked must not keep other tasks waiting: it counts as learned.
            as_learned = {task: LEARNED for task in unasked if task not in rewards}
            self._asked = set(self._environment.choose({**self.measured.now, **as_learned}))
            due = self._asked
        scored = [reward for of_task in rewards.values() for reward in of_task]
        reward = fmean(scored) if scored else 0.0
        is_best = done > 0 and (
            self.best is None or len(self.measured.before) > self._known or reward > self.best
        )
        self._known = len(self.measured.before)
        if is_best:
            self.best = reward
        now = {task: fmean(of_task) for task, of_task in rewards.items()}
        return Validated(
            done,
            reward,
            len(scored),
            is_best,
            now,
            dict(self.measured.before),
            tuple(corrected),
            {task: why for task, why in unasked.items() if task not in rewards},
        )

    def _is_due(self, question: Question, due: set[str]) -> bool:
        """Whether a held-out question is asked while these tasks have their turn. Questions that a
        data set keeps for validation have a task of their own, which nobody trains on: they have
        no turn to wait for.
        """
        task = task_of(question)
        takes_turns = self._at_once or self._of_each
        return not takes_turns or task in due or task not in self._trained

    def _take(
        self,
        asked: Sequence[Question],
        rewards: dict[str, list[float]],
        unasked: dict[str, str],
    ) -> list[Corrected]:
        """Asks these questions, and adds to `rewards` by task, and to `unasked` why a question of
        a task gave none. Returns those first wrong and now right, one a task.
        """
        answers = answer(self._generator, self._environment, asked, "validation")
        prompts, corrected, known = (
            self._environment.prompts(asked),
            dict[str, Corrected](),
            set(self.measured.before),
        )
        found: dict[str, list[float]] = {}
        for question, prompt, answered in zip(asked, prompts, answers, strict=True):
            task, name = task_of(question), f"{task_of(question)}/{question.index}"
            text, score = answered.text, answered.score
            if text is None or score is None:
                unasked[task] = answered.failed
                continue
            found.setdefault(task, []).append(score)
            self.measured.right.pop(name, None)
            if task not in known and not score:
                self.measured.wrong[name] = text[:SHOWN]
            elif score == 1.0 and name in self.measured.wrong:
                self.measured.right[name] = text[:SHOWN]
                last = str(prompt).strip().rpartition("\n")[2]
                corrected[task] = Corrected(
                    task, last[:SHOWN], self.measured.wrong[name], text[:SHOWN]
                )
        rewards |= found
        self.measured.now.update({task: fmean(scores) for task, scores in found.items()})
        self.measured.before.update(
            {task: self.measured.now[task] for task in found if task not in known}
        )
        return list(corrected.values())


def task_of(question: Question) -> str:
    """The task of a question, as options name it: DATASET/CONFIG."""
    return f"{question.dataset}/{question.config_id}"


def _other_environment(config: NodeConfig) -> Mixture | None:
    sections = {name: value for name, value in config if isinstance(value, Section)}
    asked = config.model_copy(
        update={name: section.in_validation() for name, section in sections.items()}
    )
    return None if asked == config or not config.validation.every else build_environment(asked)


def best_so_far(folder: Path) -> float | None:
    """Reward of the newest checkpoint in this folder that can be read; None where there is none."""
    for kept in reversed(checkpoint.all_checkpoints(folder)):
        try:
            return float(checkpoint.read_state(kept)["extra"][REWARD])
        except (Damaged, KeyError, TypeError, ValueError):
            continue
    return None
