"""The options of environments."""

from typing import Annotated, Literal

from pydantic import Field

from swarm_node.settings.sections import Count, PlugIn, Section

AnswerForm = Literal["auto", "whole", "first_line", "tags", "boxed", "hashes", "last_number"]


class EnvironmentConfig(Section):
    """Where prompts come from, and how completions are scored."""

    use: tuple[Annotated[str, PlugIn("environments")], ...] = ()
    """Environments from outside: names that installed packages register, or FILE:CLASS for a file beside the
    configuration (my_task:WordReversal). Those that ship need not be named."""
    tasks: tuple[str, ...] = ()
    """Tasks as dataset/config, e.g. chain_sum/easy or temporal_clue/tiny. Empty: the tasks of questions that you bring,
    such as those of a file, else all tasks of the environments in `use`; if `use` is empty too, the nine tasks of the
    starters."""
    at_once: Count = 0
    """So many of the tasks are asked at a time: the first of the list that do not stand at 0.9 on held-out questions,
    which needs validation. 0: all. An asynchronous node stays with those it began with."""
    scoring: Literal["exact", "graded"] = "exact"
    """exact: reward 1 for a right completion, else 0. graded: with the data set's own partial credit."""
    answer: AnswerForm = "auto"
    """Where a completion gives its answer; the prompt says so. auto: as the environment has it, mostly whole. whole:
    nothing but the answer. The others leave room for more, which is trained on unpaid: first_line, tags (<answer>),
    boxed (\\boxed{}), hashes (behind ####), last_number. Thinking (<think>) is no part of an answer."""
    shots: Count = 0
    """Questions of the same task that stand with their answers before each question; never held-out ones. 0: as many as
    the task has by itself."""
    system: str = ""
    """What the model is told before every prompt: the system turn of a chat template; for a model without one, a
    paragraph."""
    time_limit: Annotated[float, Field(gt=0.0)] = 5.0
    """Seconds that scoring one group may take. Then it is stopped and the group is skipped."""
