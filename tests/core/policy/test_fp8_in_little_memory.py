"""Chunks, and blocks computed again, save memory and change no gradient in FP8."""

import pytest

from swarm_node.policy.fp8.kernels import REFERENCE
from swarm_node.policy.fp8.linear import swap_linears
from swarm_node.policy.policy import Policy
from tests.gradients import TEMPERATURES, WAYS, assert_alike, gradients, use_chunks
from tests.models import tiny_policy

# "native" takes plain layers only
PACKED_WAYS = [way for name, way in WAYS.items() if name != "native"]


def fp8_policy() -> Policy:
    policy = tiny_policy("Qwen2")
    policy.precision = swap_linears(policy.model, REFERENCE, True)
    return policy


@pytest.mark.parametrize("way", PACKED_WAYS)
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_chunks_change_no_gradient(way, temperature, monkeypatch) -> None:
    direct = gradients(fp8_policy(), way, temperature)
    use_chunks(monkeypatch, True)
    policy = fp8_policy()
    ours = gradients(policy, way, temperature)
    assert policy._head is not None
    assert_alike(ours, direct, tolerance=3e-6)  # oneDNN rounds products by the kind of CPU


@pytest.mark.parametrize("way", PACKED_WAYS)
@pytest.mark.parametrize("chunks", [True, False], ids=["chunks", "direct"])
def test_blocks_that_are_computed_again_change_no_gradient(way, chunks, monkeypatch) -> None:
    use_chunks(monkeypatch, chunks)
    kept = gradients(fp8_policy(), way, 1.2)
    policy = fp8_policy()
    policy.checkpointing = True
    assert_alike(gradients(policy, way, 1.2, thread=True), kept, tolerance=0.0)
