"""A worker process in the tests: the real one, on a model that the first argument names.

`starter` is the model of the configuration, `tiny` and `lora` are the tiny models of other tests.
The second argument says what else: `exact` computes in float64, `full` finds no memory for any
group, and a path names a file: the first worker that can make it kills itself in differentiating.
SIGUSR1 changes one of the weights, SIGUSR2 a frozen one.
"""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch

from swarm_node.node.worker import serve
from swarm_node.policy.loading import configured_policy
from swarm_node.training.trainer import GrpoTrainer, NothingFits
from tests import exact
from tests.models import MANY_EOS, tiny_policy, with_lora

KIND, HOW = sys.argv[1:3]


def build(config):
    if KIND == "starter":
        policy = configured_policy(config)
    else:
        policy = tiny_policy("Qwen2", config.seed, eos=MANY_EOS)
        policy = with_lora(policy) if KIND == "lora" else policy
    if HOW == "exact" or "/" in HOW:
        policy.model.double()
        exact.begin()

    def spoil(number, frame):
        trained = number == signal.SIGUSR1
        one = next(p for p in policy.model.parameters() if p.requires_grad == trained)
        with torch.no_grad():
            one.view(-1)[0] += 1.0

    signal.signal(signal.SIGUSR1, spoil)
    signal.signal(signal.SIGUSR2, spoil)
    return policy


def no_room(trainer, groups, step):
    raise NothingFits


def dying(trainer, groups, step):
    try:
        os.close(os.open(HOW, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return differentiate(trainer, groups, step)
    os.kill(os.getpid(), signal.SIGKILL)


differentiate = GrpoTrainer.differentiate

if __name__ == "__main__":
    if HOW == "full":
        GrpoTrainer.differentiate = no_room
    elif "/" in HOW:
        GrpoTrainer.differentiate = dying
    serve(build)
