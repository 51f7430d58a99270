"""A process with some of the nodes of a cell (spread.py): `python -m
swarm_node.simulation.engines.share`. A worker of a simulation starts it, users do not.

It ends when the socket to the worker closes, for whatever reason, and ends the processes that it
started.
"""

import json
import threading
from contextlib import closing
from queue import SimpleQueue

from swarm_node.common.channel import Channel, inherited, telling
from swarm_node.common.children import end_with_family
from swarm_node.common.loading import quickly
from swarm_node.settings.simulation import SimulationConfig

with quickly():  # it loads torch
    from swarm_node.simulation.engines.spread import SHARE, Begin, Order, Reply, Share

Orders = SimpleQueue[Order]


def serve() -> None:
    """Does what the worker says, until the worker ends. Never raises: it sends its error."""
    connection = inherited()
    channel: Channel[Order, Reply] = Channel(connection, connection, SHARE.down, SHARE.up)
    orders = Orders()
    threading.Thread(target=_read, args=(channel, orders), daemon=True).start()
    with telling(channel.send):
        begin = orders.get()
        assert isinstance(begin, Begin)
        config = SimulationConfig.model_validate(json.loads(begin.settings))
        with closing(Share(config, begin.nodes)) as share:
            while True:
                channel.send(share.obey(orders.get()))


def _read(channel: Channel[Order, Reply], orders: Orders) -> None:
    """Queues orders, and sees the end of the worker at once, also while nodes compute."""
    try:
        while (order := channel.receive()) is not None:
            orders.put(order)
    finally:
        end_with_family()


if __name__ == "__main__":
    serve()
