"""What a node does alone is all of it, and it knows whether torchrun started others."""

import torch

from swarm_node.policy.ranks import ALONE, count_ranks, is_follower


def test_only_torchrun_makes_ranks() -> None:
    started = {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "2", "RANK": "1"}
    assert count_ranks(started) == 2 and is_follower(started)
    assert not is_follower({**started, "RANK": "0"})
    assert count_ranks({**started, "WORLD_SIZE": "1"}) == 1
    assert count_ranks({"RANK": "1", "WORLD_SIZE": "2"}) == 1  # of another program's


def test_alone_nothing_is_sent_and_every_share_is_the_whole() -> None:
    weights = [torch.nn.Parameter(torch.ones(2))]
    ALONE.add_gradients(weights)
    ALONE.tell("nobody")
    assert weights[0].grad is None and ALONE.gather(3) == [3]
    assert ALONE.dealt([90, 10, 40]) == [0, 1, 2] and list(ALONE.share(2)) == [0, 1]
    assert ALONE.kept(weights) == weights
