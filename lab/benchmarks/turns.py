"""CPU of playing episodes out: a later turn fed what is new of its context alone, beside the whole transcript.

    python -m lab.benchmarks.turns smollm2-135m bisect/easy --tokens 8 --questions 1 --stop " "

Both in turn in one process, which has one thread; the tokens are compared.
"""

import time
from contextlib import closing
from copy import copy
from statistics import median

import torch

from lab.benchmarks import command
from protocol.messages import PeerId, Round
from swarm_node.environments.registry import build_environment
from swarm_node.generation.generator import BatchGenerator
from swarm_node.node.episodes import complete
from swarm_node.policy.loading import configured_policy
from swarm_node.rollouts.groups import GeneratedGroup, Turns
from swarm_node.settings import LearningConfig


class Whole(BatchGenerator):
    """A decoder for each turn."""

    def turns(self) -> Turns:
        turning = copy(self)
        turning._stops = self._turn_stops
        return turning._behind


def main() -> None:
    parser = command.parser("lab.benchmarks.turns", __doc__)
    parser.add_argument("model")
    parser.add_argument("task")
    parser.add_argument("--stop", nargs="*", default=[])
    for option, usual in (("--tokens", 16), ("--questions", 8), ("--repeats", 2)):
        parser.add_argument(option, type=int, default=usual)
    given = parser.parse_args()
    torch.set_num_threads(1)
    generation = {"max_completion_length": given.tokens, "stop": given.stop}
    asked = {"model": {"name": given.model}, "environment": {"tasks": [given.task]}, "generation": generation}
    config = LearningConfig.model_validate(asked)
    policy = configured_policy(config)
    spent: dict[type[BatchGenerator], list[float]] = {Whole: [], BatchGenerator: []}
    with closing(build_environment(config)) as environment:
        for now in range(given.repeats + 1):  # the first warms up
            questions, made = environment.sample(PeerId("x"), Round(now), given.questions), []
            pairs = [(q, str(p)) for q, p in zip(questions, environment.prompts(questions), strict=True)]
            for kind, seconds in spent.items():
                began = time.process_time()
                groups = complete(environment, kind(policy, config.generation), pairs, 8, str(now))
                seconds.append(time.process_time() - began)
                made.append([[t.ids for t in each.tokens] for each in groups if isinstance(each, GeneratedGroup)])
            assert made[0] == made[1]
    whole, new = (median(seconds[1:]) for seconds in spent.values())
    print(f"{given.model}, {given.task}: {whole:.2f} s from whole transcripts, {new:.2f} s from what is new")
    command.finish(given, {"ratio": whole / new, "whole_cpu_seconds": whole, "new_cpu_seconds": new})


if __name__ == "__main__":
    main()
