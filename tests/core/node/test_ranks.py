"""A node knows whether torchrun started others with it."""

from swarm_node.node.ranks import count_ranks, is_follower


def test_only_torchrun_makes_ranks() -> None:
    started = {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "2", "RANK": "1"}
    assert count_ranks(started) == 2 and is_follower(started)
    assert not is_follower({**started, "RANK": "0"})
    assert count_ranks({**started, "WORLD_SIZE": "1"}) == 1
    assert count_ranks({"RANK": "1", "WORLD_SIZE": "2"}) == 1  # of another program's
