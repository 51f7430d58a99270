"""A worker must not outlive its parent: real processes, ended for real."""

import os
import sys
from pathlib import Path

import pytest

from swarm_node.common.channel import Failed
from swarm_node.simulation.arms import all_cells
from swarm_node.simulation.engines.engine import LocalWorker
from swarm_node.simulation.worker_messages import (
    WORKER,
    RoundMessage,
    RunCell,
    read_order,
    write_order,
)
from tests.waiting import PATIENCE

SCRIPT = Path(__file__).with_name("fake_worker.py")


@pytest.mark.slow
def test_a_worker_whose_parent_is_gone_ends_at_once(configure, tmp_path):
    config = configure(rounds=1_000_000)
    order = write_order(config, all_cells(config)[0])
    worker = LocalWorker((sys.executable, str(SCRIPT)), tmp_path / "log", os.environ, order)
    messages = worker.messages()
    assert isinstance(next(messages), RoundMessage)  # it is at work
    messages.close()  # closes the socket, as every end of the parent does
    assert worker._process.wait(timeout=PATIENCE) != 0


def test_an_order_survives_the_pipe(configure):
    config = configure(seed=4, node_models=("rare", "dense"))
    cell = all_cells(config)[2]
    order = WORKER.down.decode(WORKER.down.encode(write_order(config, cell))[4:])
    found, where = read_order(order)
    assert where == cell
    # The order that is read has all sections
    assert found.model_dump() | config.model_dump() == found.model_dump()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"", []),
        (WORKER.up.encode(Failed("x", True))[:-1], []),  # cut off
        (b"Welcome", [Failed("the worker sent nonsense: frame of 1466264675 bytes", False)]),
    ],
)
def test_what_is_cut_off_is_no_message_and_nonsense_is_told(said, expected, tmp_path):
    words = (
        sys.executable,
        "-c",
        f"import os, sys; print('hello'); os.write(int(sys.argv[-1]), {said!r})",
    )
    assert (
        list(LocalWorker(words, tmp_path / "log", {}, RunCell("{}", "1/0", 0)).messages())
        == expected
    )
