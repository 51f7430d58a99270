"""The sentences with which a simulation ends: what sharing brought, for readers who know nothing of
the project. They say whatever came out, "no difference" included.

The measure is the accuracy on held-out questions of all tasks of the swarm, said as so many of 100.
An arm with external groups is a node in the swarm, one without is a node that trained alone. Every
arm that shares is compared with the plain arm that does not. Other lone arms, such as one node that
trains on the tasks of all, follow with their own figure.

Everything is judged by the numbers as they are printed: two arms that both print as 9 of 100 do not
differ, and a level of 9 is reached at the first evaluation that prints as 9 or more. Between two
evaluations nothing is guessed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from swarm_node.rollouts.groups import mean
from swarm_node.simulation.arms import parse_arm, words_of
from swarm_node.simulation.report import ArmSummary, HeldOut, Report

NUMBERS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten")
NO_QUESTIONS = (
    "This run cannot tell whether sharing helps, because nobody was asked new questions: add "
    "--evaluate-every N."
)
NO_SWARM = "No node shared, so there is nothing to compare with: add an arm such as 4/4 to --arms."
NOBODY_ALONE = (
    "No node trained alone, so there is nothing to compare with: add an arm such as 8/0 to --arms."
)


@dataclass(frozen=True, slots=True)
class Course:
    """How the nodes of an arm answered new questions in the course of training."""

    arm: str  # in words
    node: str  # a node of the arm, as the subject of a sentence
    rounds: tuple[int, ...]  # after which new questions were asked
    right: tuple[int, ...]  # of 100, after these rounds, the mean over seeds
    ends: tuple[float, ...]  # per seed: the accuracy after the last round
    # Of 100 after the last round, on tasks that a node practises, and on those of others alone
    own_right: int | None
    others_right: int | None

    @property
    def at_the_end(self) -> str:
        """The answers of 100 after the last round, with the range over seeds if there are
        several.
        """
        low, high = (of_100(pick(self.ends)) for pick in (min, max))
        return f"{self.right[-1]} ({low} to {high})" if len(self.ends) > 1 else f"{self.right[-1]}"

    def rounds_to(self, level: int) -> int | None:
        """The rounds after which the nodes first answered so many of 100; None if they never
        did.
        """
        both = zip(self.rounds, self.right, strict=True)
        return next((rounds for rounds, right in both if right >= level), None)


def conclusion(report: Report) -> str:
    """What this simulation found, in a few sentences."""
    lone, sharing = list[Course](), list[Course]()
    for name, arm in report.arms.items():
        if arm.held_out:
            kind = sharing if arm.external_groups else lone
            kind.append(_course(name, arm, arm.held_out))
    if not lone and not sharing:
        return NO_QUESTIONS
    lone.sort(key=lambda course: course.arm.count(","))  # first the one without a way of its own
    if lone and sharing:
        sentences = [_compared(each, lone[0], len(sharing) > 1) for each in sharing]
        sentences += [_told(each) for each in lone[1:]]
    else:
        sentences = [_told(each) for each in (*lone, *sharing)]
        sentences.append(NO_SWARM if lone else NOBODY_ALONE)
    return " ".join([*sentences, _seeds(len(report.seeds))])


def of_100(share: float) -> int:
    """A share as so many of 100; halves go up."""
    return math.floor(100 * share + 0.5 + 1e-9)


def _course(name: str, arm: ArmSummary, held_out: HeldOut) -> Course:
    means = [mean(list(seeds)) for seeds in zip(*held_out.all_tasks, strict=True)]
    return Course(
        arm=words_of(name),
        node=_node(name, arm),
        rounds=held_out.rounds,
        right=tuple(map(of_100, means)),
        ends=held_out.final,
        own_right=_mean_of_100(held_out.final_local),
        others_right=_mean_of_100(held_out.final_other),
    )


def _node(name: str, arm: ArmSummary) -> str:
    if arm.external_groups:
        return "an honest node in the swarm" if arm.attack else "a node in the swarm"
    ways = parse_arm(name).ways
    tasks = " on the tasks of all nodes" if "all" in ways else ""
    sampling = " with dynamic sampling" if "dynamic_sampling" in ways else ""
    return f"a node that trained alone{tasks}{sampling}"


def _mean_of_100(seeds: Sequence[float | None]) -> int | None:
    values = [value for value in seeds if value is not None]
    return of_100(mean(values)) if values else None


def _compared(sharing: Course, lone: Course, several: bool) -> str:
    """A node in the swarm beside a node alone. `several`: the reader has to know which arm."""
    more = sharing.right[-1] - lone.right[-1]
    number = sharing.at_the_end if more > 0 else f"only {sharing.at_the_end}"
    outcome = number if more else "as many, so there is no difference"
    which = f" ({sharing.arm})" if several else ""
    sentence = (
        f"After {lone.rounds[-1]} rounds {lone.node} answers {lone.at_the_end} of 100 new "
        f"questions, {sharing.node}{which} {outcome}{_sooner(sharing, lone)}."
    )
    return "".join([sentence, _ahead(sharing, lone), _by_kind(sharing, lone)])


def _sooner(sharing: Course, lone: Course) -> str:
    """When the node in the swarm answered as much as the one alone does in the end."""
    level = lone.right[-1]
    before, after = lone.rounds_to(level), sharing.rounds_to(level)
    if after is None:
        return f"; it never answered {level} in these rounds"
    if level == 0 or before == after == lone.rounds[0]:  # neither needed any time that was seen
        return ""
    if before == after:
        return f"; both had answered {level} after {after} rounds"
    return f"; it had answered {level} after {after} rounds instead of {before}"


def _ahead(sharing: Course, lone: Course) -> str:
    """The sentence on the seeds in which the node in the swarm answers more; "" for one seed."""
    if len(lone.ends) < 2:
        return ""
    pairs = list(zip(sharing.ends, lone.ends, strict=False))
    ahead = sum(in_swarm > alone for in_swarm, alone in pairs)
    return f" The node in the swarm was ahead in {ahead} of {len(pairs)} seeds."


def _by_kind(sharing: Course, lone: Course) -> str:
    """Own tasks and those of others, where nodes practise different tasks."""
    if None in (lone.own_right, sharing.own_right, lone.others_right, sharing.others_right):
        return ""
    return (
        f" On the tasks that a node practises itself, it answers {lone.own_right} of 100 alone and "
        f"{sharing.own_right} in the swarm; on the tasks that only others practise, "
        f"{lone.others_right} and {sharing.others_right}."
    )


def _told(course: Course) -> str:
    """One arm by itself."""
    subject = course.node[0].upper() + course.node[1:]
    return (
        f"{subject} ({course.arm}) answers {course.at_the_end} of 100 new questions after "
        f"{course.rounds[-1]} rounds."
    )


def _seeds(number: int) -> str:
    if number == 1:
        return "One seed: another seed may come out differently."
    named = NUMBERS[number] if number < len(NUMBERS) else str(number)
    return f"{named} seeds: the numbers are means, with the lowest and the highest in brackets."
