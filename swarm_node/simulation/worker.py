"""A worker process of a simulation, for any engine: `python -m
swarm_node.simulation.worker`. The simulation starts it, users do not.

It ends when the socket to its parent closes, for whatever reason, and ends the processes that it
started.
"""

import threading
from collections.abc import Callable
from contextlib import closing

from swarm_node.common.channel import Channel, inherited, telling
from swarm_node.common.children import end_with_family
from swarm_node.settings.simulation import SimulationConfig
from swarm_node.simulation import worker_messages
from swarm_node.simulation.arms import Cell, cell_config
from swarm_node.simulation.engines.choice import engine_of
from swarm_node.simulation.engines.engine import RunningCell

MEMORY_SAMPLES = 30  # per cell

Begin = Callable[[SimulationConfig, Cell], RunningCell]
Ours = Channel[worker_messages.RunCell, worker_messages.FromWorker]


def serve(begin: Begin) -> None:
    """Runs a worker: it receives one order, and sends every round, then the end. Never raises: it
    sends its error.
    """
    connection = inherited()
    channel: Ours = Channel(
        connection, connection, worker_messages.WORKER.down, worker_messages.WORKER.up
    )
    with telling(channel.send):
        order = channel.receive()
        threading.Thread(target=_die_with_parent, args=(channel,), daemon=True).start()
        if order is not None:
            channel.send(worker_messages.DoneMessage(_run(order, begin, channel)))


def _run(order: worker_messages.RunCell, begin: Begin, channel: Ours) -> float:
    """Sends every round. Measures memory every few rounds, and returns the highest measurement, in
    MB.
    """
    config, cell = worker_messages.read_order(order)
    every, peak = max(1, config.rounds // MEMORY_SAMPLES), 0.0
    with closing(begin(cell_config(config, cell), cell)) as run:
        for done in run.rounds():
            channel.send(worker_messages.RoundMessage(done))
            if done.round % every == 0 or done.round == config.rounds - 1:
                peak = max(peak, run.memory_mb())
    return peak


def _die_with_parent(channel: Ours) -> None:
    try:
        channel.receive()  # returns when the parent has gone: it sends nothing after the order
    finally:
        end_with_family()


if __name__ == "__main__":
    serve(lambda config, cell: engine_of(config).begin(config, cell))
