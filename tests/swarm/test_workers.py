"""A node on several devices, with real worker processes: the same as on one, also when workers
die.

Where a sum has to be the same, all is computed in float64: in float32 the order of a sum shows.
"""

import os
import signal
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import torch

from lab.studies.guests import reports
from protocol.messages import Round
from swarm_node.environments.registry import build_environment
from swarm_node.network.in_memory import Alone
from swarm_node.node import parallel
from swarm_node.node.learner import Learner, build_node
from swarm_node.node.parallel import MAX_DEATHS, with_workers
from swarm_node.policy.loading import configured_policy
from swarm_node.settings import NodeConfig
from swarm_node.training.checkpoint import all_checkpoints
from tests.exact import in_float64
from tests.gradients import assert_alike
from tests.models import (
    GENERATION,
    IDENTITIES,
    MANY_EOS,
    Guessing,
    gradients_of,
    make_node,
    tiny_policy,
    trainer_of,
    weights_of,
    with_lora,
)
from tests.swarm.test_resume import curve
from tests.swarm.test_resume import ended as run

pytestmark = pytest.mark.slow

CHILD = Path(__file__).parents[1] / "worker_child.py"
TINY = NodeConfig(threads=1, generation=GENERATION)
STARTER = NodeConfig(threads=1, model={"name": "rare"}, training={"learning_rate": 1e-3})

ADAPTERS = NodeConfig(
    threads=1, generation=GENERATION, model={"lora_rank": 4}, training={"beta": 0.1}
)


@contextmanager
def on_devices(count, node, folder, kind="tiny", how="exact", config=TINY, told=None):
    """The node with so many processes, all on the CPU. `told` takes its warnings."""
    learner = Learner(config, None, trainer_of(node).policy, node)
    warn = ([] if told is None else told).append
    command = (sys.executable, str(CHILD), kind, str(how))
    with with_workers(("cpu",) * count, learner, folder / "log", warn, command=command) as made:
        yield made


def workers_of(learner):
    """The processes beside that of the trainer."""
    return trainer_of(learner.node).helpers


def tiny_node(environment=None, policy=None, **options):
    """A node of a tiny model in float64; twice the same."""
    policy = policy or tiny_policy("Qwen2", eos=MANY_EOS)
    policy.model.double()
    return make_node(environment=environment, policy=policy, external=0, local=3, **options)


@contextmanager
def starter():
    environment = build_environment(STARTER)
    policy = configured_policy(STARTER)
    try:
        yield (
            policy,
            lambda: build_node(STARTER, IDENTITIES[0].peer_id, environment, Alone(), policy),
        )
    finally:
        environment.close()


def trained(node, rounds):
    """Runs these rounds. Returns what was written in each, and the reports."""
    texts, told = [], []
    for now in rounds:
        generated = node.produce(Round(now))
        texts.append([sample.episode for group in generated.groups for sample in group.samples])
        told.append(node.consume(generated))
    return texts, told


def farthest(ones, others) -> float:
    """The largest difference between two weights."""
    pairs = zip(ones, others, strict=True)
    return max(float((one - other).abs().max()) for one, other in pairs)


def assert_same(alone, other) -> None:
    """What two nodes wrote, learned and reported in the same rounds is the same."""
    (expected, single), (found, several) = alone, other
    assert found == expected
    for one, two in zip(single, several, strict=True):
        assert one.reward_by_task == two.reward_by_task
        assert one.step.trained_tokens == two.step.trained_tokens
        assert one.step.clip_fraction == two.step.clip_fraction
        for name in ("loss", "grad_norm", "ratio_mean", "entropy", "staleness", "mismatch_kl"):
            wanted = pytest.approx(getattr(one.step, name), rel=1e-9, abs=1e-12)
            assert getattr(two.step, name) == wanted, name


def test_a_starter_in_float64_writes_the_same_text_and_learns_the_same_with_two_workers(
    tmp_path,
) -> None:
    nodes, done = [], []
    with ExitStack() as stack:
        stack.enter_context(in_float64())
        for _ in range(2):
            policy, build = stack.enter_context(starter())
            policy.model.double()
            nodes.append(build())
        alone, shared = nodes
        before = weights_of(alone)
        done.append(trained(alone, range(20)))
        devices = on_devices(2, shared, tmp_path, "starter", config=STARTER)
        done.append(trained(stack.enter_context(devices).node, range(20)))
    assert_same(*done)
    assert farthest(weights_of(alone), weights_of(shared)) < 1e-9
    assert farthest(before, weights_of(alone)) > 1e-3, "it did learn"


def test_in_float32_the_gradients_of_the_first_step_are_the_same_to_five_digits(tmp_path) -> None:
    gradients = []
    for devices in (1, 2):
        with starter() as (_, build):
            node = build()
            with on_devices(devices, node, tmp_path, "starter", "", STARTER) as learner:
                gradients.append(gradients_of(trainer_of(node)))
                report = learner.node.run_round(Round(0))
        assert report.step.optimizer_steps == 1
    assert_alike(*gradients, tolerance=1e-5)


def test_a_worker_that_is_killed_in_its_part_costs_time_and_no_round(tmp_path) -> None:
    alone, shared, told = tiny_node(), tiny_node(), []
    with in_float64():
        done = [trained(alone, range(6))]
        with on_devices(4, shared, tmp_path, how=tmp_path / "killed", told=told) as learner:
            done.append(trained(learner.node, range(6)))
            assert len(workers_of(learner).pids) == 3, "another one has taken its place"
    assert_same(*done)
    assert farthest(weights_of(alone), weights_of(shared)) < 1e-9
    (line,) = told
    assert "worker on cpu has ended (it was killed by SIGKILL" in line and "workers.log" in line


def test_a_worker_that_is_killed_between_two_rounds_costs_nothing_else(tmp_path) -> None:
    alone, shared, told = tiny_node(num_iterations=2), tiny_node(num_iterations=2), []
    with in_float64():
        done = [trained(alone, range(5))]
        with on_devices(3, shared, tmp_path, told=told) as learner:
            texts, reports = trained(learner.node, range(2))
            for now in range(2, 5):
                os.kill(workers_of(learner).pids[0], signal.SIGKILL)
                more = trained(learner.node, [now])
                texts, reports = texts + more[0], reports + more[1]
    assert_same(done[0], (texts, reports))
    assert farthest(weights_of(alone), weights_of(shared)) < 1e-9
    assert told


def test_a_worker_that_dies_again_and_again_is_not_started_any_more(tmp_path, monkeypatch) -> None:
    node, told = tiny_node(), []
    with in_float64(), on_devices(2, node, tmp_path, how="nonsense", told=told) as learner:
        workers = workers_of(learner)
        for _ in range(MAX_DEATHS):
            os.kill(workers.pids[0], signal.SIGKILL)
            learner.node.run_round(Round(0))
            monkeypatch.setattr(workers._members[0], "awaited", True)  # or it may not be there yet
        assert workers.pids == []
        assert learner.node.run_round(Round(1)).rollouts == 3 * GENERATION.num_generations
    assert len(told) == MAX_DEATHS and "continues without that device" in told[-1]


def test_a_worker_that_hangs_counts_as_gone(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(parallel, "PATIENCE", 0.5)
    monkeypatch.setattr(parallel, "SLOWER", 0.0)
    node, told = tiny_node(), []
    with in_float64(), on_devices(2, node, tmp_path, told=told) as learner:
        learner.node.run_round(Round(0))
        os.kill(workers_of(learner).pids[0], signal.SIGSTOP)
        report = learner.node.run_round(Round(1))
    assert report.rollouts == 3 * GENERATION.num_generations
    assert "it said nothing for 0" in told[0]


def test_where_a_worker_has_no_room_for_a_group_the_trainer_does_its_part(tmp_path) -> None:
    nodes = [make_node(external=0, local=3) for _ in range(2)]
    found = [trained(nodes[0], range(3))]
    with on_devices(2, nodes[1], tmp_path, how="full") as learner:
        found.append(trained(learner.node, range(3)))
    assert [one.step.trained_tokens for one in found[0][1]] == [
        one.step.trained_tokens for one in found[1][1]
    ]


def test_episodes_of_several_turns_are_the_same_on_three_devices(tmp_path) -> None:
    alone, shared = tiny_node(Guessing(), questions=5), tiny_node(Guessing(), questions=5)
    with in_float64():
        done = [trained(alone, range(4))]
        with on_devices(3, shared, tmp_path) as learner:
            done.append(trained(learner.node, range(4)))
    assert_same(*done)
    assert any(len(episode.turns) > 2 for texts in done[0][0] for episode in texts)


def test_a_worker_whose_weights_differ_gets_them_again(tmp_path) -> None:
    node, told = tiny_node(), []
    with in_float64(), on_devices(2, node, tmp_path, told=told) as learner:
        learner.node.run_round(Round(0))
        learner.compare()
        assert not told
        os.kill(workers_of(learner).pids[0], signal.SIGUSR1)
        learner.compare()
        (line,) = told
        assert "differed from those that it was given: it gets them again" in line
        learner.node.produce(Round(1))
        learner.compare()
    assert len(told) == 1


def test_a_worker_whose_base_model_changes_is_started_again(tmp_path) -> None:
    policy = with_lora(tiny_policy("Qwen2", eos=MANY_EOS))
    node, told = tiny_node(policy=policy), []
    with in_float64(), on_devices(2, node, tmp_path, "lora", told=told) as learner:
        learner.node.run_round(Round(0))
        (before,) = workers_of(learner).pids
        os.kill(before, signal.SIGUSR2)
        learner.compare()
        assert "the weights of its base model have changed" in told[0]
        (after,) = workers_of(learner).pids
        assert after != before


def test_adapters_learn_the_same_on_two_devices(tmp_path) -> None:
    nodes = [
        tiny_node(policy=with_lora(tiny_policy("Qwen2", eos=MANY_EOS)), beta=0.1) for _ in range(2)
    ]
    with in_float64():
        done = [trained(nodes[0], range(4))]
        with on_devices(2, nodes[1], tmp_path, "lora", config=ADAPTERS) as learner:
            done.append(trained(learner.node, range(4)))
    assert_same(*done)
    assert farthest(weights_of(nodes[0]), weights_of(nodes[1])) < 1e-9


def test_workers_that_rest_end_and_take_part_again_when_they_are_needed(tmp_path) -> None:
    node = tiny_node()
    with in_float64(), on_devices(2, node, tmp_path) as learner:
        learner.node.run_round(Round(0))
        learner.node.generator.rest()
        assert workers_of(learner).pids == []
        learner.node.run_round(Round(1))
        assert len(workers_of(learner).pids) == 1
    assert workers_of(learner) is None


def test_on_one_device_a_node_stays_as_it_is(tmp_path) -> None:
    node = make_node()
    with on_devices(1, node, tmp_path) as learner:
        assert learner.node is node and workers_of(learner) is None


def test_a_checkpoint_of_two_workers_goes_on_with_one_and_with_three(tmp_path) -> None:
    """The checkpoint of a node knows nothing of its devices."""
    homes = []
    for then in ("1", "cpu,cpu,cpu"):
        home = tmp_path / then[-1]
        code, output = run(home, "--model.devices", "cpu,cpu", "--max-rounds", "2")
        assert code == 0 and "cpu, cpu" in output, output
        code, output = run(home, "--model.devices", then, "--max-rounds", "4")
        assert code == 0 and "resumed after 2 rounds" in output, output
        assert sorted(curve(home)) == list(range(4))
        assert all_checkpoints(home / "checkpoints")[-1].name == "00000004"
        assert all(report["rollouts"] == 4 * 8 for report in reports(home))
        homes.append(home)


def test_the_memory_of_gradients_holds_no_zero_for_a_parameter_without_one() -> None:
    policy, other = tiny_policy(), tiny_policy()
    first, second, *_ = policy.model.parameters()
    gradients = parallel.SharedGradients.create(policy)
    first.grad = torch.ones_like(first)
    without = gradients.put(policy)
    gradients.add_to(other, without)
    gradients.add_to(other, without)
    same, none, *_ = other.model.parameters()
    assert torch.equal(same.grad, 2 * torch.ones_like(first))
    assert none.grad is None and second.grad is None
    gradients.close()
