"""A worker must not outlive its parent: real processes, ended for real."""

import subprocess
import sys
from pathlib import Path

import pytest

from swarm_node.extensions.simulation.arms import all_cells
from swarm_node.extensions.simulation.worker_messages import (
    DoneMessage,
    FailedMessage,
    RoundMessage,
    read_message,
    read_order,
    write_order,
)
from tests.waiting import PATIENCE

SCRIPT = Path(__file__).with_name("fake_worker.py")


def start(order: str) -> subprocess.Popen:
    worker = subprocess.Popen(
        [sys.executable, str(SCRIPT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    worker.stdin.write(order)
    worker.stdin.flush()
    return worker


@pytest.mark.slow
def test_a_worker_whose_parent_is_gone_ends_at_once(configure):
    config = configure(rounds=1_000_000)
    with start(write_order(config, all_cells(config)[0])) as worker:
        assert isinstance(read_message(worker.stdout.readline()), RoundMessage)  # it is at work
        worker.stdin.close()  # as when the parent ends, however it ends
        assert worker.wait(timeout=PATIENCE) != 0


def test_an_order_survives_the_pipe(configure):
    config = configure(seed=4, node_models=("rare", "dense"))
    cell = all_cells(config)[2]
    assert read_order(write_order(config, cell)) == (config, cell)
    assert write_order(config, cell).count("\n") == 1


def test_a_line_that_was_cut_off_says_nothing():
    assert read_message('{"round": {"arm": "4/') is None


def test_the_last_line_is_an_end_or_an_error():
    assert read_message('{"memory": [1.5]}') == DoneMessage((1.5,))
    assert read_message('{"error": "x", "by_user": true}') == FailedMessage("x", by_user=True)
