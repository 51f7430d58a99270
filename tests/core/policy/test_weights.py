"""Weights in shared memory, between real processes."""

import os
import select
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from swarm_node.policy.weights import SharedWeights
from tests.models import tiny_policy, weights_of
from tests.waiting import PATIENCE

READER = """
import json, os, signal, sys, fcntl
from types import SimpleNamespace
import torch
from swarm_node.policy.weights import SharedWeights
descriptor, layout = int(sys.argv[1]), json.loads(sys.argv[2])
weights = SharedWeights.attach(descriptor, layout)
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(20)])
policy = SimpleNamespace(model=model, version=-1, device=torch.device("cpu"))
print("ready", flush=True)
seen = 0
while seen < 50:
    if weights.take(policy):
        flat = [parameter.flatten() for parameter in model.parameters()]
        values = {float(w[i]) for w in flat for i in range(len(w) - 1, -1, -61)}
        assert values == {float(policy.version)}, (policy.version, values)
        seen += 1
print(seen, flush=True)
fcntl.lockf(descriptor, fcntl.LOCK_SH)
os.kill(os.getpid(), signal.SIGKILL)
"""


def filled(model: torch.nn.Module, value: float) -> None:
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(value)


@pytest.mark.slow
def test_a_snapshot_is_never_torn_and_a_reader_killed_with_the_lock_stops_nobody() -> None:
    import json

    model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(20)])
    policy = SimpleNamespace(model=model, version=0, device=torch.device("cpu"))
    weights = SharedWeights.create(policy)
    command = [sys.executable, "-c", READER, str(weights.descriptor), json.dumps(weights.layout)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, pass_fds=(weights.descriptor,)
    ) as reader:
        try:
            assert reader.stdout.readline() == "ready\n"
            # Until it has seen enough, or fails
            while not select.select([reader.stdout], [], [], 0.005)[0]:
                policy.version += 1
                filled(model, float(policy.version))
                weights.publish(policy)
            assert int(reader.stdout.readline()) == 50 and reader.wait(PATIENCE) == -signal.SIGKILL
        finally:
            reader.kill()  # it reads for ever where nothing is published any more
    policy.version += 1
    weights.publish(policy)  # would wait for ever if the dead reader kept the lock
    weights.close()


def test_a_snapshot_stays_as_it_was_published_and_is_copied_once() -> None:
    publisher, reader = tiny_policy(seed=0), tiny_policy(seed=1)
    weights = SharedWeights.create(publisher)
    reader.version = -1
    assert not weights.take(reader)  # nothing was published yet
    publisher.version = 7
    weights.publish(publisher)
    published = weights_of(publisher.model)
    filled(publisher.model, 0.5)  # the live weights move on
    assert weights.take(reader) and reader.version == 7
    assert all(map(torch.equal, published, weights_of(reader.model))) and not weights.take(reader)
    weights.close()


def test_only_trained_parameters_are_shared_in_their_own_type() -> None:
    policy = tiny_policy()
    frozen = next(policy.model.parameters()).requires_grad_(False)
    before = frozen.clone()
    policy.model.model.norm.weight.data = policy.model.model.norm.weight.data.bfloat16()
    weights = SharedWeights.create(policy)
    assert len(weights.layout) == len(list(policy.model.parameters())) - 1
    assert {kind for _, _, kind in weights.layout} == {"float32", "bfloat16"}
    weights.publish(policy)
    other = tiny_policy(seed=3)
    next(other.model.parameters()).requires_grad_(False)
    other.version = -1
    assert weights.take(other) and not torch.equal(next(other.model.parameters()), before)
    assert torch.equal(other.model.model.norm.weight, policy.model.model.norm.weight.float())
    weights.close()


def test_the_memory_is_gone_with_those_who_hold_it() -> None:
    weights = SharedWeights.create(tiny_policy())
    assert os.fstat(weights.descriptor).st_nlink == 0  # it never had a name that could be left over
    weights.close()
