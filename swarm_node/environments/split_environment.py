"""An environment whose questions are split into those to train on and those held out."""

from collections.abc import Sequence
from tempfile import TemporaryDirectory
from types import MappingProxyType

from protocol.messages import PeerId, Question, Round
from swarm_node.common.errors import UserError
from swarm_node.environments.kinds import EVALUATION
from swarm_node.environments.rewards import RewardRule
from swarm_node.environments.scored import Answers, ScoredEnvironment
from swarm_node.environments.split import HELD_OUT, TRAIN
from swarm_node.rollouts.groups import Catalogue, Tasks
from swarm_node.scoring.client import Scoring
from swarm_node.scoring.contract import Turn
from swarm_node.settings import EnvironmentConfig


def tasks_of(name: str) -> Tasks:
    """The tasks train and held_out of an environment of this name."""
    return MappingProxyType({name: (TRAIN, HELD_OUT)})


class SplitEnvironment(ScoredEnvironment):
    """Peers ask the questions to train on; evaluation asks those held out, each once."""

    def __init__(
        self,
        name: str,
        version: str,
        held_out: int,
        tasks: Sequence[str],
        scoring: Scoring,
        settings: EnvironmentConfig,
        folder: "TemporaryDirectory[str]",
        form: str = "whole",
        turns: int = 1,
        probe: Sequence[Turn] = (),
    ) -> None:
        """`folder`: the files that the scoring processes read; `close` deletes it. `form`: the form
        of answers where the options name none. `turns`, `probe`: of episodes of several turns,
        which have no forms.
        """
        rule, answers = RewardRule(settings.scoring), Answers.configured(settings, form)
        about = name, version, tasks_of(name), tasks
        if turns > 1:
            super().__init__(*about, scoring, rule, turns=turns, probe=probe)
        else:
            super().__init__(*about, scoring, rule, answers)
        self.count = held_out  # for `eval`
        self._folder = folder

    @property
    def catalogue(self) -> Catalogue:
        """What peers may ask. It has no held-out questions: a group on one is refused, or it would
        be trained on.
        """
        several = super().catalogue.several
        return Catalogue({self.name: (self.version, {self.name: (TRAIN,)})}, several)

    def sample(self, author: PeerId, now: Round, count: int) -> list[Question]:
        if author != EVALUATION and (self.name, HELD_OUT) not in self.tasks:
            return super().sample(author, now, count)
        if not self.count:
            raise UserError(
                f"no question is held out: raise --{self.name}.held-out, or add questions"
            )
        return [self._question((self.name, HELD_OUT), int(now), index) for index in range(count)]

    def _shot_task(self, question: Question) -> tuple[str, str]:
        return self.name, TRAIN

    def close(self) -> None:
        super().close()
        self._folder.cleanup()
