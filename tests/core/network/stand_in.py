"""Plays a network process, badly or well: `stand_in.py WAY COUNTER FD`. The counter file tells how often."""

import asyncio
import os
import socket
import sys
from pathlib import Path

from protocol import codec
from protocol.messages import Completion, Question, RolloutGroup
from swarm_node.network.process import messages
from swarm_node.network.process.messages import Alive, Ask, Memory, Publish, Received, Refused, Said, Start, Stop, View

_ADDRESS = Question(environment="e", version="1", dataset="d", config_id="c", seed=1, index=0)
_TEXTS = tuple(Completion(text="x" * 500, ended=True) for _ in range(2))
FLOOD = Received(
    group=RolloutGroup(author="ann", round=0, question=_ADDRESS, completions=_TEXTS), content_hash=bytes(32)
)


def received(envelope: bytes) -> Received:
    payload = envelope[64:]
    return Received(group=RolloutGroup.model_validate_json(payload), content_hash=codec.content_hash(payload))


async def play(way: str, life: int, connection: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=connection)
    if way == "dies":
        raise SystemExit(f"stand-in life {life} ends")
    if way == "nonsense":
        writer.write(b"\xff\xff\xff\xff")
    while way == "floods":
        writer.write(messages.encode(Refused(reason="wrong seed")))
        writer.write(messages.encode(FLOOD))
        await writer.drain()
    while way in ("deaf", "nonsense"):
        await asyncio.sleep(3600)
    while (frame := await messages.read(reader)) is not None:
        if isinstance(frame, Stop) and way != "stays":
            return
        for answer in answers(frame, life):
            writer.write(messages.encode(answer))


def answers(frame: messages.Frame, life: int) -> list[messages.Frame]:
    match frame:
        case Start(memory=memory):
            remembers = Said(text=f"life {life} remembers {memory.exchange}")
            return [remembers, Memory(port=1, exchange={"life": life}, peers={}), Alive(connected=life)]
        case Publish(envelopes=envelopes, round=number):
            return [Said(text=f"life {life} round {number}"), *map(received, envelopes)]
        case Ask(number=number):
            return [View(number=number, view={"life": life})]
        case _:
            return []


def main() -> None:
    way, counter, descriptor = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    life = len(counter.read_text()) if counter.exists() else 0
    counter.write_text("x" * (life + 1))
    Path(f"{counter}.pid").write_text(str(os.getpid()))
    asyncio.run(play(way, life, socket.socket(fileno=descriptor)))


main()
