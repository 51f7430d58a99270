"""What `check` says about a second process, by machine."""

import pytest

from swarm_node.node import asynchronous
from swarm_node.node.asynchronous import advice, generator_side, trainer_side
from swarm_node.settings import AsynchronousConfig, LearningConfig, ModelConfig


def config(enabled: bool, device: str = "auto") -> LearningConfig:
    return LearningConfig(model=ModelConfig(device=device), asynchronous=AsynchronousConfig(enabled=enabled))


@pytest.mark.parametrize(
    ("enabled", "device", "cores", "gpus", "words"),
    [
        (False, "auto", 2, 0, "off; --asynchronous.enabled would generate and train at the same time on 2 cores"),
        (False, "auto", 1, 0, "off, as 1 core cannot"),
        (False, "auto", 16, 1, "off, as 1 GPU cannot"),
        (False, "auto", 16, 2, "off; --asynchronous.enabled would generate and train at the same time on 2 GPUs"),
        (False, "cpu", 16, 1, "on 16 cores"),
        (True, "auto", 4, 0, "on, on 4 cores"),
        (True, "auto", 1, 0, "take turns: turn it off"),
    ],
)
def test_it_is_suggested_where_it_helps(enabled, device, cores, gpus, words) -> None:
    assert words in advice(config(enabled, device), cores, gpus)


@pytest.mark.parametrize(("cores", "generator", "trainer"), [(1, 1, 1), (2, 1, 2), (3, 1, 2), (8, 4, 4)])
def test_the_trainer_may_use_the_cores_that_the_generator_leaves(cores, generator, trainer, monkeypatch) -> None:
    monkeypatch.setattr(asynchronous, "usable_cores", lambda: cores)
    assert (generator_side(config(True)).threads, trainer_side(config(True)).threads) == (generator, trainer)


def test_each_side_has_its_device_and_its_cores(monkeypatch) -> None:
    both = LearningConfig(threads=3, asynchronous=AsynchronousConfig(enabled=True))
    assert (generator_side(both).model.device, trainer_side(both).model.device) == ("auto", "auto")
    monkeypatch.setattr(asynchronous.torch.cuda, "device_count", lambda: 2)
    assert (generator_side(both).model.device, trainer_side(both).model.device) == ("cuda:1", "auto")
    assert generator_side(both).threads == trainer_side(both).threads == 3
    assert trainer_side(config(False)) == config(False)
