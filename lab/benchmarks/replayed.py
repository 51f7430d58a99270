"""Turns of episodes for measurements. For `replay`: a source whose episodes hang, and the CPU time
of other episodes, in a process as light as a scoring process.

    # a JSON list: CPU seconds of each group
    python -m lab.benchmarks.replayed SOURCE TASK GROUPS
"""

import gc
import json
import resource
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

from protocol.messages import Call, Turn
from swarm_node.environments.episodes import source
from swarm_node.environments.episodes.wordle import WORDS
from swarm_node.scoring import children, contract, server
from swarm_node.scoring.sandbox import Sandbox

GROUP = 8  # episodes
TIME_LIMIT = 1.0  # seconds for a group of a peer

HANG = "hang"  # the text of a turn that hangs


class Hanging(source.Bisect):
    def step(self, turn: contract.Turn) -> contract.Step:
        while turn.text == HANG:
            pass
        return super().step(turn)


class HangingBisect:
    """A source whose episodes hang at a turn with the text `HANG`."""

    name, version, tasks = "hanging", "1", {"bisect": ("tiny",)}
    turns, probe = source.turns, (contract.Turn("7"),)

    def begin(self, dataset: str, config_id: str, seed: int, index: int) -> Hanging:
        made = source.begin(dataset, config_id, seed, index)
        assert isinstance(made, source.Bisect)
        return Hanging(made.low, made.high, made.answer, made.left)


HANGING = f"{Path(__file__)}:{HangingBisect.__name__}"


def turns_of(task: str, rng: Random) -> tuple[Turn, ...]:
    """Turns of a policy that knows the form but not the answer. Some turns come after the end of
    their episode.
    """
    if task.startswith("calculator"):
        call = Call(
            name="calculate",
            arguments=f'{{"expression": "{rng.randint(1, 999)} * {rng.randint(1, 99)} / 7"}}',
        )
        return (
            *[Turn(text="", calls=(call,))] * rng.randint(1, 3),
            Turn(text=str(rng.randint(1, 99)), calls=()),
        )
    if task.startswith("wordle"):
        return tuple(Turn(text=word, calls=()) for word in rng.sample(WORDS, rng.randint(2, 6)))
    return tuple(
        Turn(text=str(rng.randint(1, 215)), calls=())
        for _ in range(2 if "try" in task else rng.randint(2, 4))
    )


def costs(name: str, task: str, groups: int) -> list[float]:
    """CPU seconds of each group in the scoring process and its children: to build a question and
    play its episodes.
    """
    scoring: Any = server.ScoringServer(server.load(name), Sandbox(), None, TIME_LIMIT)
    rng, found, began = Random(task), list[float](), 0.0
    gc.collect()
    gc.freeze()
    for seed in range(groups):
        asked = [turns_of(task, rng) for _ in range(GROUP)]
        began = _cpu()
        (reply,) = scoring.replies([((*task.split("/"), seed, 0), asked)])
        while children._ended:
            children.reap()
        found.append(_cpu() - began)
        assert "played" in reply, reply
    return found


def _cpu() -> float:
    of = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + of.ru_utime + of.ru_stime


if __name__ == "__main__":
    print(json.dumps(costs(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
