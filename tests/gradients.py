"""Gradients of a policy over two small groups, and the ways to compute them that are to give the
same.
"""

import threading

import pytest
import torch
from torch import Tensor

from swarm_node.policy import log_probs as chunks
from swarm_node.policy import policy as policies
from swarm_node.policy.batch import Batch, build_rows, build_tree
from swarm_node.policy.batch import unrecorded as new
from swarm_node.policy.policy import Packing, Policy
from tests.models import VOCABULARY

TEMPERATURES = (1.0, 0.7, 1.2)
PACKED = [
    new([5, 6, 7, 8], [[9, 10, 11], [12, 13], [14]]),
    new([5, 6, 21], [[22, 23, 24, 25], [22, 27]]),
]
WAYS = {"padded": None, "blocks": Packing.BLOCKS, "native": Packing.NATIVE}


def allowed(batch: Batch) -> Tensor:
    """The mask of a tree in full, bool [L, L], which the code under test never makes."""
    assert batch.tree is not None
    first, past = batch.tree.leaves_L2.T
    return ((first[None, :] <= first[:, None]) & (first[:, None] < past[None, :])).tril()


def use_chunks(monkeypatch: pytest.MonkeyPatch, on: bool) -> None:
    """Turns chunks on, of 3 tokens each, or off."""
    monkeypatch.setattr(policies, "SMALL_VOCABULARY", 1 if on else 2**11)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 3 * 4 * VOCABULARY if on else 2**27)


def gradients(
    policy: Policy, way: Packing | None, temperature: float, thread: bool = False
) -> list[Tensor]:
    """Log-probs, entropy, and the gradient of every parameter."""
    policy.__dict__["packing"] = way
    batch = build_tree(PACKED, policy.device, 1) if way else build_rows(PACKED, policy.device)
    log_probs, entropy = policy.log_probs(batch, temperature)
    loss = (log_probs * torch.linspace(-1, 1, len(log_probs))).sum()
    if thread:  # as on a GPU, where autograd has threads of its own
        worker = threading.Thread(target=policy.backward, args=(loss, batch))
        worker.start()
        worker.join()
    else:
        policy.backward(loss, batch)
    return [
        log_probs.detach(),
        entropy,
        *(p.grad for p in policy.model.parameters() if p.requires_grad),
    ]


def assert_alike(ours: list[Tensor], theirs: list[Tensor], tolerance: float = 1e-6) -> None:
    assert len(ours) == len(theirs)
    for got, wanted in zip(ours, theirs, strict=True):
        assert (got - wanted).norm() <= tolerance * max(1.0, float(wanted.norm()))
