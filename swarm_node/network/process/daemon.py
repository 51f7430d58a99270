"""The network process of a trainer: `python -m swarm_node.network.process.daemon FD`, FD being a socket to the trainer.

It ends when the trainer says so or is gone. Nothing of torch is in it, and nothing that happens in it reaches training.
"""

import asyncio
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

from protocol.identity import Identity
from swarm_node.network.confinement import Layers
from swarm_node.network.process import messages
from swarm_node.network.process.confined import confine
from swarm_node.network.process.messages import (
    Allow,
    Ask,
    Outbox,
    Publish,
    Said,
    Start,
    Stop,
    Verdict,
    View,
)
from swarm_node.network.process.outgoing import Outgoing
from swarm_node.network.process.service import NetworkService

OUTBOX_FRAMES = 512  # for the trainer: some rounds of groups
ALIVE_SECONDS = 2.0
MEMORY_SECONDS = 5.0


def main() -> None:
    """Talks over the socket whose descriptor is the first argument."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(connection.fileno(), False)  # a child that outlived this process would hide its end
    asyncio.run(converse(connection))


async def converse(connection: socket.socket) -> None:
    """The whole life of a network process, until the node hangs up or says stop."""
    reader, writer = await asyncio.open_connection(sock=connection)
    start = await messages.read(reader)
    if not isinstance(start, Start):
        return
    layers = confine(start.config, Path(start.folder))  # before the first byte of a stranger
    outbox, identity = Outbox(OUTBOX_FRAMES), Identity.from_key_bytes(start.key)
    service = NetworkService(
        identity,
        start.rules.swarm,
        start.config,
        start.memory,
        deliver=outbox.deliver,
        say=lambda text, warning: outbox.put(Said(text=text, warning=warning)),
        changed=lambda addresses: outbox.put(service.alive()),
        rules=start.rules.admission(identity.peer_id),
        sockets=Path(start.folder),
    )
    service.allow(start.access)
    service.runner.perform(service.exchange.want(start.want, service.clock()))
    outgoing, written = Outgoing(), asyncio.Event()
    works = [
        service.live(),
        outbox.pump(writer),
        _report(service, outbox),
        _announce(service, outgoing, written),
        _obey(reader, service, outbox, outgoing, written, layers),
    ]
    tasks = [asyncio.create_task(work) for work in works]
    done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    with suppress(OSError):
        writer.write(messages.encode(service.memory()))
        writer.close()
    for task in done:
        task.result()


async def _obey(
    reader: asyncio.StreamReader,
    service: NetworkService,
    outbox: Outbox,
    outgoing: Outgoing,
    written: asyncio.Event,
    layers: Layers,
) -> None:
    """Until the trainer wants no more, or is gone."""
    while (frame := await messages.read(reader)) is not None and not isinstance(frame, Stop):
        match frame:
            case Publish():
                outgoing.add(frame, service.clock())
                written.set()
            case Verdict(author=author, content_hash=content_hash, outcome=outcome):
                service.exchange.verdict(author, content_hash, outcome, service.clock())
            case Ask(number=number):
                further = {"dropped": outbox.dropped, "confined": list(layers.held)}
                outbox.put(View(number=number, view=service.view() | further))
            case Allow(access=access):
                service.allow(access)
            case _:
                pass


async def _announce(service: NetworkService, outgoing: Outgoing, written: asyncio.Event) -> None:
    while True:
        await written.wait()
        written.clear()
        while (delay := outgoing.delay(service.clock())) > 0:
            await asyncio.sleep(delay)
        if (news := outgoing.due(service.clock(), service.spent())) is not None:
            now = service.clock()
            service.runner.perform(service.exchange.publish(news.envelopes, news.round, news.want, now, news.rounds))


async def _report(service: NetworkService, outbox: Outbox) -> None:
    """Says every few seconds that this process lives, and what the next one must know."""
    beat = 0
    while True:
        outbox.put(service.alive())
        if beat % round(MEMORY_SECONDS / ALIVE_SECONDS) == 0:
            outbox.put(service.memory())
        beat += 1
        await asyncio.sleep(ALIVE_SECONDS)


if __name__ == "__main__":
    main()
