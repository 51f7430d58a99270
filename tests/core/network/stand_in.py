"""Plays a network process, badly or well: `stand_in.py WAY COUNTER FD`. The file COUNTER has an x
for each start.
"""

import asyncio
import os
import socket
import sys
from pathlib import Path

from protocol import codec
from protocol.messages import Episode, PeerId, Question, Reason, Round
from swarm_node.common.channel import AsyncChannel
from swarm_node.network.actions import Deliver, Refuse, Remembered
from swarm_node.network.process import messages
from swarm_node.network.process.messages import NETWORK
from swarm_node.rollouts.groups import Group

_ADDRESS = Question(
    environment="e", version="1", dataset="d", config_id="c", digest="A" * 11, seed=1, index=0
)
_TEXTS = tuple(Episode.of(text="x" * 500, ended=True) for _ in range(2))
BOB = PeerId("bob")
FLOOD = Deliver(
    codec.encode(Group.of_text(PeerId("ann"), Round(0), _ADDRESS, _TEXTS).message()), BOB
)


def received(envelope: bytes) -> Deliver:
    return Deliver(envelope[64:], BOB)


async def play(way: str, life: int, connection: socket.socket) -> None:
    _, writer = streams = await asyncio.open_connection(sock=connection)
    channel = AsyncChannel[messages.FromTrainer, messages.FromNetwork](
        streams, NETWORK.down, NETWORK.up, 64
    )
    if way == "dies":
        raise SystemExit(f"stand-in life {life} ends")
    if way == "nonsense":
        writer.write(b"\xff\xff\xff\xff")
    while way == "floods":
        writer.write(NETWORK.up.encode(Refuse(Reason.WRONG_SEED)))
        writer.write(NETWORK.up.encode(FLOOD))
        await writer.drain()
    if way == "no group":
        writer.write(NETWORK.up.encode(Deliver(b"{}", BOB)))
    while way in ("deaf", "nonsense", "no group"):
        await asyncio.sleep(3600)
    while (message := await channel.receive()) is not None:
        if isinstance(message, messages.Stop) and way != "stays":
            return
        for answer in answers(message, life):
            writer.write(NETWORK.up.encode(answer))


def answers(message: messages.FromTrainer, life: int) -> list[messages.FromNetwork]:
    match message:
        case messages.Start(memory=memory):
            remembers = messages.Said(f"life {life} remembers {memory.exchange.seq}")
            return [
                remembers,
                messages.Memory(1, Remembered(seq=life)),
                messages.Alive(connected=life),
            ]
        case messages.Publish(envelopes=envelopes, round=number):
            return [messages.Said(text=f"life {life} round {number}"), *map(received, envelopes)]
        case messages.Ask():
            return [messages.NetworkSnapshot(view={"life": life})]
        case _:
            return []


def main() -> None:
    way, counter, descriptor = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    life = len(counter.read_text()) if counter.exists() else 0
    counter.write_text("x" * (life + 1))
    Path(f"{counter}.pid").write_text(str(os.getpid()))
    asyncio.run(play(way, life, socket.socket(fileno=descriptor)))


main()
