"""`basics` as a kind of environment: tasks such as second/few."""

from collections.abc import Sequence
from types import MappingProxyType

from protocol.messages import Question
from swarm_node.environments.basics import source
from swarm_node.environments.kinds import EnvironmentKind, HasEnvironments
from swarm_node.environments.rewards import RewardRule
from swarm_node.environments.scored import Answers, ScoredEnvironment
from swarm_node.rollouts.groups import Tasks
from swarm_node.scoring.client import ScoringClient

SOURCE = "swarm_node.environments.basics.source"


class BasicsKind(EnvironmentKind):
    """The kind that is registered: every task with 4 shots (`few`) and with 8 (`more`)."""

    name = "basics"
    continued = True
    # A node asks four at a time. The first ones were learned soonest: docs/tutorials/first_run.md
    first_tasks = tuple(
        f"{task}/few"
        for task in ("next", "second", "third", "swap", "last", "second_word", "largest", "first")
    )
    candidates = (
        *first_tasks,
        *(
            f"{task}/few"
            for task in ("month_of", "larger", "plus_ten", "smaller", "is_larger", "longer_word")
        ),
        *("add_digits/few", "subtract/few", "double/few", "first_letters/few", "starts_with/few"),
        *("count_letter/few", "capitals/few", "months_after/few", "earlier/few", "day_before/few"),
    )
    tasks: Tasks = MappingProxyType({task: tuple(source.SHOTS) for task in source.TASKS})

    def start(self, tasks: Sequence[str], config: HasEnvironments) -> ScoredEnvironment:
        settings = config.environment
        scoring = ScoringClient(SOURCE, source.version, settings.time_limit)
        rule = RewardRule(settings.scoring)
        answers = Answers.configured(settings, "first_line", source.SHOTS)
        return ScoredEnvironment(
            self.name, source.version, self.tasks, tasks, scoring, rule, answers
        )

    def answer(self, question: Question) -> str:
        return source.build(
            question.dataset, question.config_id, question.seed, question.index
        ).answer


KIND = BasicsKind()
