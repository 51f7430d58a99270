"""A worker must not outlive its parent: real processes, ended for real."""

import os
import sys
from pathlib import Path

import pytest

from swarm_node.common.channel import Failed
from swarm_node.extensions.simulation.arms import all_cells
from swarm_node.extensions.simulation.worker_messages import (
    BEGIN,
    WORKER,
    Order,
    RoundMessage,
    read_order,
    said_by,
    spawned,
    write_order,
)
from tests.waiting import PATIENCE

SCRIPT = Path(__file__).with_name("fake_worker.py")


@pytest.mark.slow
def test_a_worker_whose_parent_is_gone_ends_at_once(configure, tmp_path):
    config = configure(rounds=1_000_000)
    with (tmp_path / "log").open("wb") as log, spawned((sys.executable, str(SCRIPT)), log, dict(os.environ)) as worker:
        order = write_order(config, all_cells(config)[0])
        assert isinstance(next(said_by(worker, order)), RoundMessage)  # it is at work
        worker.stdin.close()  # as when the parent ends, however it ends
        assert worker.wait(timeout=PATIENCE) != 0


def test_an_order_survives_the_pipe(configure):
    config = configure(seed=4, node_models=("rare", "dense"))
    cell = all_cells(config)[2]
    order = WORKER.down.decode(WORKER.down.encode(write_order(config, cell))[4:])
    found, where = read_order(order)
    assert where == cell
    assert found.model_dump() | config.model_dump() == found.model_dump()  # and the sections of extensions


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"", []),
        (b"Welcome to this host!\n$ " + BEGIN + WORKER.up.encode(Failed("x", True)), [Failed("x", True)]),
        (BEGIN + WORKER.up.encode(Failed("x", True))[:-1], []),  # cut off
        (BEGIN + b"Welcome", [Failed("the worker sent nonsense: frame of 1466264675 bytes", False)]),
    ],
)
def test_what_a_shell_prints_before_is_skipped_and_nonsense_is_told(said, expected, tmp_path):
    words = (sys.executable, "-c", f"import os; os.write(1, {said!r})")
    with (tmp_path / "log").open("wb") as log, spawned(words, log, {}) as worker:
        assert list(said_by(worker, Order("{}", "1/0", 0))) == expected
