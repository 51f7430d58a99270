"""What `eval` says of held-out questions that a node asks in training, too."""

import io
import json
from collections.abc import Iterator

import pytest
from rich.console import Console

from swarm_node.commands.evaluate import _over_all, _row, as_json, table
from swarm_node.environments.kinds import Repeated, held_out, repeated
from swarm_node.environments.reasoning_gym.environment import KIND
from swarm_node.environments.scored import ScoredEnvironment
from swarm_node.settings import LearningConfig


@pytest.fixture(scope="module")
def gym() -> Iterator[ScoredEnvironment]:
    environment = KIND.start(["count_bits/tiny", "gcd/easy"], LearningConfig())
    yield environment
    environment.close()


def test_a_small_task_asks_most_of_its_held_out_questions_in_training_and_a_large_one_few(gym) -> None:
    found = repeated(gym, held_out(gym, 100))
    assert found[("count_bits", "tiny")].share > 0.9
    assert found[("gcd", "easy")].share < 0.1
    assert all(each.asked >= 1000 for each in found.values())
    assert repeated(gym, held_out(gym, 100)) == found


def test_where_questions_take_long_fewer_are_looked_at(gym) -> None:
    times = iter(range(0, 1000, 9))
    found = repeated(gym, held_out(gym, 20), lambda: float(next(times)))
    assert {each.asked for each in found.values()} == {256}


def test_questions_that_the_user_brings_are_held_out_by_their_text(gym, monkeypatch) -> None:
    monkeypatch.setattr(gym, "count", 12)
    assert repeated(gym, held_out(gym, 12)) == {}


def test_the_table_and_the_json_say_it() -> None:
    rows = [_row("a/tiny", [1.0, 0.0], Repeated(0.5, 1000)), _row("a/tiny (strict)", [0.0], Repeated(0.5, 1000))]
    rows += [_row("mine/all", [1.0], None)]
    rows.append(_row("all", [1.0, 0.0, 1.0], _over_all(rows)))
    told = json.loads(json.dumps(as_json(rows)))
    assert [row["in_training"] for row in [*told["tasks"], told["all"]]] == [0.5, 0.5, None, 0.5]
    assert told["tasks"][0]["trained_on"] == 1000
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(table(rows))
    shown = console.export_text()
    assert "50%" in shown and "these questions whose text a node asks" in shown
