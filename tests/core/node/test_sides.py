"""What each of the two processes of an asynchronous node runs on."""

import pytest

from swarm_node.node import asynchronous
from swarm_node.node.asynchronous import generator_side, trainer_side
from swarm_node.settings import AsynchronousConfig, LearningConfig


def config(enabled: bool) -> LearningConfig:
    return LearningConfig(asynchronous=AsynchronousConfig(enabled=enabled))


@pytest.mark.parametrize(
    ("cores", "generator", "trainer"), [(1, 1, 1), (2, 1, 2), (3, 1, 2), (8, 4, 4)]
)
def test_the_trainer_may_use_the_cores_that_the_generator_leaves(
    cores, generator, trainer, monkeypatch
) -> None:
    monkeypatch.setattr(asynchronous, "usable_cores", lambda: cores)
    assert (generator_side(config(True)).threads, trainer_side(config(True)).threads) == (
        generator,
        trainer,
    )


def test_each_side_has_its_device_and_its_cores(monkeypatch) -> None:
    both = LearningConfig(threads=3, asynchronous=AsynchronousConfig(enabled=True))
    assert (generator_side(both).model.device, trainer_side(both).model.device) == ("auto", "auto")
    monkeypatch.setattr(asynchronous.torch.cuda, "device_count", lambda: 2)
    assert (generator_side(both).model.device, trainer_side(both).model.device) == (
        "cuda:1",
        "auto",
    )
    assert generator_side(both).threads == trainer_side(both).threads == 3
    assert trainer_side(config(False)) == config(False)
