import pytest

from protocol.messages import PeerId, Round
from swarm_node.rollouts.groups import RoundReport, StepReport


@pytest.fixture
def round_report():
    def make(number=0, **changes):
        fields = {
            "peer_id": PeerId("peer"), "round": Round(number), "reward": 0.25,
            "reward_by_task": {"gcd/easy": 0.25}, "rollouts": 72, "generated_tokens": 400,
            "mean_length": 5.5, "ended_share": 1.0, "local_groups": 4, "local_informative": 2,
            "external_informative": 3, "informative_share": 0.5, "pool_size": 63, "skipped": {},
            "rejected": {}, "step": StepReport(trained_tokens=120, entropy=1.0),
            "seconds": {"generate": 1.0, "score": 0.5, "publish": 0.0, "collect": 0.0,
                "train": 0.5},
        }  # fmt: skip
        return RoundReport(**{**fields, **changes})

    return make
