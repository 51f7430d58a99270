"""The network process of a trainer: `python -m swarm_node.network.process.daemon FD`, FD being a
socket to the trainer.

It ends when the trainer says so or is gone. It never imports torch, and no failure in it stops
training.
"""

import asyncio
import socket
from pathlib import Path

from protocol.identity import Identity
from swarm_node.common.channel import AsyncChannel, inherited
from swarm_node.network.confinement import Layers
from swarm_node.network.process import messages
from swarm_node.network.process.confined import confine
from swarm_node.network.process.outgoing import Outgoing
from swarm_node.network.process.service import NetworkService

WAITING = 512  # messages for the trainer: some rounds of groups
ALIVE_SECONDS = 2.0
MEMORY_SECONDS = 5.0

Ours = AsyncChannel[messages.FromTrainer, messages.FromNetwork]


def main() -> None:
    """Talks over the socket whose descriptor is the last argument."""
    asyncio.run(converse(inherited()))


async def converse(connection: socket.socket) -> None:
    """Runs a network process from its start until the trainer hangs up or says stop."""
    pair, talk = await asyncio.open_connection(sock=connection), messages.NETWORK
    channel: Ours = AsyncChannel(pair, talk.down, talk.up, WAITING)
    start = await channel.receive()
    if not isinstance(start, messages.Start):
        return
    layers = confine(start.config, Path(start.folder))  # before the first byte of a stranger
    identity = Identity.from_key_bytes(start.key)
    told = identity, start.rules.swarm, start.config, start.memory
    service = NetworkService(
        *told,
        deliver=channel.send,
        say=lambda text, warning: channel.send(messages.Said(text, warning)),
        changed=lambda addresses: channel.send(service.alive()),
        rules=start.rules.admission(identity.peer_id),
        sockets=Path(start.folder),
    )
    service.allow(start.access)
    if start.cards is not None:
        service.go_by(start.cards)
    service.runner.perform(service.exchange.want(start.want, service.clock()))
    outgoing, written = Outgoing(), asyncio.Event()
    works = [
        service.live(),
        channel.pump(),
        _report(service, channel),
        _announce(service, outgoing, written),
    ]
    obeying = _obey(channel, service, outgoing, written, layers)
    tasks = [asyncio.create_task(work) for work in (*works, obeying)]
    done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    channel.close(service.memory())
    for task in done:
        task.result()


async def _obey(
    channel: Ours,
    service: NetworkService,
    outgoing: Outgoing,
    written: asyncio.Event,
    layers: Layers,
) -> None:
    """Carries out the messages of the trainer until it says stop, or is gone."""
    while (message := await channel.receive()) is not None and not isinstance(
        message, messages.Stop
    ):
        match message:
            case messages.Publish():
                outgoing.add(message, service.clock())
                written.set()
            case messages.GroupOutcome(author=author, content_hash=content_hash, outcome=outcome):
                service.exchange.verdict(author, content_hash, outcome, service.clock())
            case messages.Ask():
                further = {"dropped": channel.dropped, "confined": list(layers.held)}
                channel.send(messages.NetworkSnapshot(service.view() | further))
            case messages.Allow(access=access):
                service.allow(access)
            case messages.Cards():
                service.go_by(message)
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
            service.runner.perform(
                service.exchange.publish(news.envelopes, news.round, news.want, now, news.rounds)
            )


async def _report(service: NetworkService, channel: Ours) -> None:
    """Says every few seconds that this process lives, and what the next one must know."""
    beat = 0
    while True:
        channel.send(service.alive())
        if beat % round(MEMORY_SECONDS / ALIVE_SECONDS) == 0:
            channel.send(service.memory())
        beat += 1
        await asyncio.sleep(ALIVE_SECONDS)


if __name__ == "__main__":
    main()
