"""From Python: what `swarm_node` exports."""

from pathlib import Path

import pytest

import swarm_node
from swarm_node import NodeConfig, UserError, join
from tests.commands import python

ROOT = Path(__file__).parents[2]


def test_importing_the_package_loads_next_to_nothing_and_every_name_is_on_the_page() -> None:
    loaded = (
        "import sys, swarm_node; print([n for n in ('torch', 'pydantic', 'rich') if n in "
        "sys.modules])"
    )
    assert python("-c", loaded).stdout.strip() == "[]"
    names = "import sys; from swarm_node import *; print('torch' in sys.modules)"
    assert python("-c", names).stdout.strip() == "False"
    assert all(
        name in (ROOT / "docs" / "how-to" / "python.md").read_text() for name in swarm_node.__all__
    )
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = swarm_node.nothing
    assert {*swarm_node.__all__} == {*dir(swarm_node)}
    assert "\n    join(config:" in python("-c", "import swarm_node; help(swarm_node)").stdout


@pytest.mark.slow
def test_a_script_publishes_what_is_informative_and_only_of_its_own_round(tmp_path: Path) -> None:
    values = {
        "home": tmp_path,
        "environment": {"tasks": ["gcd/tiny"]},
        "network": {"enabled": False},
    }
    with join(NodeConfig.model_validate(values)) as swarm:
        first, second = swarm.questions(2), swarm.questions(2)
        rewards = swarm.score(first[0], [str(n) for n in range(1, 60)])
        assert isinstance(rewards, tuple) and sum(rewards) == 1.0
        right = str(1 + rewards.index(1.0))
        (group,) = swarm.publish({first[0]: [right, "x"], first[1]: ["x", "y"]})
        assert group.rewards == (1.0, 0.0) and swarm.is_local(group.question)
        with pytest.raises(UserError, match="of one round"):
            swarm.publish({first[0]: ["1", "2"], second[0]: ["1", "2"]})
        assert swarm.collect() == []
        with pytest.raises(UserError, match="another node runs"):
            join(NodeConfig.model_validate(values))
    with join(NodeConfig.model_validate(values)) as again:
        assert not set(again.questions(2)) & {*first, *second}, "no round twice"
