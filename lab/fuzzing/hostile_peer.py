"""A peer that joins a swarm to attack its nodes, in a process of its own. Not for people: studies
start it.

    python -m lab.fuzzing.hostile_peer --kinds hangs junk --peers MULTIADDR --swarm NAME

It connects to peers as an honest node does. Without a kind it is idle: it exchanges announcements,
and has no groups.

    hangs        groups of identities never seen before, made to keep scorers busy; the peer serves
                 these groups
    reflections  announcements of peers that do not exist, with the address --victim
    floods       streams at --rate a second, without waiting, and connections that say nothing
    poison       right completions with a payload
    junk         random bytes and broken messages as requests and replies, and wrong bytes for
                 hashes
    flooder      informative groups without any fault, --groups of them every --every seconds
    replayer     the groups of its first round again and again, each time with a character changed
    sybils       informative groups of SYBILS identities, all at this peer's address
    plagiarist   groups of others under its own name: it looks for rounds of its own in which the
                 same question is asked
"""

import argparse
import asyncio
import json
import os
import random
import signal
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from lab.benchmarks.network import group as noise
from lab.benchmarks.seeded import SYBILS, identities
from lab.fuzzing.hostile_answers import of_kind
from protocol import codec, limits, wire
from protocol.addressing import FINGERPRINT, fixed_seed, question_seed
from protocol.identity import Identity
from protocol.messages import Announcement, Episode, PeerId, Question, Rejected, RolloutGroup, Round
from swarm_node.network.backend import Backend, Caller, CallFailed
from swarm_node.network.parties import full, trim
from swarm_node.network.transport.libraries import make_backend
from swarm_node.rollouts.groups import Group
from swarm_node.settings import LearningConfig, NetworkConfig

KINDS = ("hangs", "reflections", "floods", "poison", "junk")
TAKERS = ("flooder", "replayer", "sybils", "plagiarist")  # that want more than a share of training
SEARCH_SECONDS = 0.5  # of CPU time for a plagiarist's search, in each of its rounds
TARGETS = 512  # groups of others of which a plagiarist looks for a copy
PAYLOAD = "\n"  # white space that a scorer overlooks
CHARS = 256  # characters of a completion: what a node with a starter lets in
GROUPS = 8  # a round
ROUND_SECONDS = 5.0
SERVED_ROUNDS = 4
MEETING_SECONDS = 12.0  # seconds to meet peers, before it does what they ban it for
MET = 48  # peers that it stays connected to
SILENT = 200  # connections that say nothing
FLIGHT = 256  # calls of a flood at the same time
CALL_SECONDS = 10.0
PORTS = (4001, 4002, 4003, 4004)  # of the victim


class HostilePeer:
    """One identity of an attacker, from joining to its end."""

    def __init__(self, options: argparse.Namespace, counts: Counter[str]) -> None:
        self._options, self._counts = options, counts
        self._kinds = frozenset(options.kinds)
        # With a seed, the one that comes first in `identities`
        self._identity = next(iter(identities(options.seed, 1)), None) or Identity.create()
        self._sybils = identities(options.seed, SYBILS)[1:]
        # Sum of seed and index -> a group of another author: many data sets make a question of it
        self._targets: dict[int, RolloutGroup] = {}
        self._searched = 0  # rounds in which a plagiarist has looked
        self._addresses: tuple[str, ...] = ()
        self._number = 0  # of its newest announcement
        self._envelopes: dict[bytes, bytes] = {}  # by content hash
        self._local: list[bytes] = []  # hashes of its groups of this round
        self._held: list[bytes] = []  # hashes of groups of identities that it made up
        self._told: list[bytes] = []  # announcements of identities that it made up
        self._known: dict[PeerId, tuple[str, ...]] = {}
        self._met: dict[PeerId, str] = {}
        self._rng = random.Random()

    async def live(self, seconds: float) -> None:
        """Attacks for so long."""
        options = self._options
        host = make_backend(
            NetworkConfig(host=options.host, mdns=False, relay=False), self._identity
        )
        handlers = {wire.EXCHANGE: self._exchange, wire.PULL: self._pull, wire.HELLO: self._hello}
        await host.start(handlers, dict.fromkeys(handlers, limits.MAX_EXCHANGE_REQUEST_BYTES))
        try:
            self._addresses = tuple(await host.addresses())
            works = [self._meet(host), self._renew(), self._ask(host)]
            works += [self._flood(host), self._knock()] if "floods" in self._kinds else []
            works += [self._junk(host)] if "junk" in self._kinds else []
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds), asyncio.TaskGroup() as tasks:
                    for work in works:
                        tasks.create_task(work)
        finally:
            await host.close()

    # What it says.

    def prepare(self) -> None:
        """Loads the source of questions beforehand: it takes seconds of CPU in which the peer would
        not answer.
        """
        if not self._options.noise:
            self._question(self._identity.peer_id, 0, 0)

    def _announcement(self) -> bytes:
        """A new announcement, sealed: of its own groups, and of those of made-up identities as
        held.
        """
        self._number += 1
        return codec.seal(
            Announcement(
                addresses=trim(self._addresses, self._identity.peer_id),
                author=self._identity.peer_id,
                groups=tuple(map(codec.to_text, self._local[: limits.MAX_ANNOUNCED_GROUPS])),
                held=tuple(codec.to_text(key[: limits.HOLDING_BYTES]) for key in self._held),
                round=Round(self._number),
                seq=self._number,
            ),
            self._identity,
            self._options.swarm,
        )

    async def _renew(self) -> None:
        """Makes new groups and made-up peers every ROUND_SECONDS."""
        number = 0
        while True:
            number += 1
            self._envelopes = dict(list(self._envelopes.items())[-SERVED_ROUNDS * 2 * GROUPS :])
            self._local, self._held, self._told = [], [], []
            if "poison" in self._kinds:
                for index in range(GROUPS):
                    self._local.append(self._keep(self._identity, number, index, poison=True))
            self._take_more(number)
            if "hangs" in self._kinds:
                for _ in range(GROUPS):
                    author = Identity.create()
                    self._held.append(self._keep(author, number, 0, poison=False))
                    own = trim(self._addresses, self._identity.peer_id)
                    self._told.append(self._made_up(author, own, self._held[-1:]))
            if "reflections" in self._kinds:
                ports = [f"/ip4/{self._options.victim}/udp/{port}/quic-v1" for port in PORTS]
                self._told += [self._made_up(Identity.create(), ports, []) for _ in range(GROUPS)]
            await asyncio.sleep(self._options.every)

    def _take_more(self, number: int) -> None:
        """Makes the groups of a peer that wants more than a share of training."""
        if "flooder" in self._kinds:
            for index in range(self._options.groups):
                self._local.append(self._keep(self._identity, number, index, poison=False))
        if "replayer" in self._kinds:
            for index in range(GROUPS):
                self._local.append(self._keep(self._identity, 1, index, poison=False))
        if "sybils" in self._kinds:
            for author in [self._identity, *self._sybils]:
                keys = [self._keep(author, number, index, poison=False) for index in range(2)]
                own = trim(self._addresses, self._identity.peer_id)
                told = self._made_up(author, own, keys, number)
                self._told += [] if author is self._identity else [told]
                self._local += keys if author is self._identity else []
                self._held += keys
            self._held = self._held[: limits.MAX_ANNOUNCED_HOLDINGS]
        if "plagiarist" in self._kinds:
            self._local = self._copies()

    def _copies(self) -> list[bytes]:
        """Content hashes of groups of others that it has made its own."""
        keys, began = list[bytes](), time.process_time()
        sums = sorted(self._targets)
        while sums and time.process_time() - began < SEARCH_SECONDS:
            self._searched += 1
            seed = question_seed(self._options.swarm, self._identity.peer_id, Round(self._searched))
            place = bisect_left(sums, seed)
            if place == len(sums) or sums[place] - seed >= limits.MAX_QUESTIONS_PER_ROUND:
                continue
            theirs = self._targets.pop(sums.pop(place))
            index = theirs.question.seed + theirs.question.index - seed
            asked = theirs.question.model_copy(update={"seed": seed, "index": index})
            group = theirs.model_copy(
                update={
                    "author": self._identity.peer_id,
                    "round": self._searched,
                    "question": asked,
                }
            )
            key = codec.content_hash(codec.encode(group))
            self._envelopes[key] = codec.seal(group, self._identity, self._options.swarm)
            self._counts["groups copied"] += 1
            keys.append(key)
        return keys

    def _keep(self, author: Identity, number: int, index: int, poison: bool) -> bytes:
        """Makes a group to serve. Returns its content hash."""
        group = self._group(author, number, index, poison)
        key = codec.content_hash(codec.encode(group))
        self._envelopes[key] = codec.seal(group, author, self._options.swarm)
        self._counts["groups made"] += 1
        return key

    def _group(self, author: Identity, number: int, index: int, poison: bool) -> RolloutGroup:
        if self._options.noise:
            return noise(self._options.swarm, author, number, index)
        task, question = self._question(author.peer_id, number, index)
        if poison:
            texts = [f"{PAYLOAD}{task}", "0"] * 4
        elif self._kinds.intersection(TAKERS):
            wrong = [str(self._rng.randrange(10**9)) for _ in range(4)]
            texts = [each for pair in zip([task] * 4, wrong, strict=True) for each in pair]
        else:
            texts = self._rng.sample(of_kind("waste"), 8)
        completions = tuple(Episode.of(text=text[:CHARS], ended=True) for text in texts)
        return Group.of_text(author.peer_id, Round(number), question, completions).message()

    def _question(self, author: PeerId, number: int, index: int) -> tuple[str, Question]:
        """The right answer to a question of the starters, and the question."""
        from swarm_node.environments.reasoning_gym import source
        from swarm_node.environments.registry import right_answer, tasks_of

        config = LearningConfig()
        # Of one task whenever it is asked: what a replayer says again answers the same question
        chance = random.Random(f"{author}/{number}/{index}")
        dataset, _, config_id = chance.choice(tasks_of(config)).partition("/")
        question = Question(
            environment="reasoning_gym",
            version=source.version,
            dataset=dataset,
            config_id=config_id,
            digest=_digest(dataset, config_id),
            seed=question_seed(self._options.swarm, author, Round(number)),
            index=index,
        )
        return right_answer(config, question), question

    def _made_up(
        self, author: Identity, addresses: Sequence[str], keys: Sequence[bytes], number: int = 1
    ) -> bytes:
        announcement = Announcement(
            addresses=tuple(addresses),
            author=author.peer_id,
            groups=tuple(map(codec.to_text, keys)),
            held=(),
            round=Round(0),
            seq=number,
        )
        return codec.seal(announcement, author, self._options.swarm)

    # What it answers.

    async def _exchange(self, _: Caller, __: bytes) -> bytes:
        self._counts["exchanges answered"] += 1
        if "junk" in self._kinds and self._rng.random() < 0.5:
            return self._rng.randbytes(self._rng.randrange(1, 4096))
        items = [self._announcement(), *self._told]
        return wire.encode_items(
            [wire.CarriedAnnouncement(0, each) for each in items[: limits.MAX_EXCHANGED]]
        )

    async def _pull(self, _: Caller, request: bytes) -> bytes:
        asked = wire.decode_pull(request)
        if isinstance(asked, Rejected):
            return b""
        self._counts["pulls answered"] += 1
        found = [self._envelopes.get(key, b"") for key in asked[1]]
        if "junk" in self._kinds and self._rng.random() < 0.5:
            found = [self._rng.randbytes(1000) for _ in found]
        return wire.encode_groups(found)

    async def _hello(self, _: Caller, __: bytes) -> bytes:
        return wire.encode_hello(self._options.swarm)

    # What it does.

    async def _meet(self, host: Backend) -> None:
        """Connects to the peers that it knows, again and again."""
        while True:
            for address in self._options.peers:
                with suppress(CallFailed):
                    self._met[await host.dial([address], CALL_SECONDS)] = address
            for peer, addresses in list(self._known.items()):
                if peer not in self._met and addresses and len(self._met) < MET:
                    with suppress(CallFailed):
                        self._met[await host.dial(addresses, CALL_SECONDS)] = addresses[0]
            self._counts["peers met"] = max(self._counts["peers met"], len(self._met))
            if self._met and self._options.ready:
                self._options.ready.touch()
            await asyncio.sleep(ROUND_SECONDS)

    async def _ask(self, host: Backend) -> None:
        """Sends announcements to all peers it met, and learns of others from their replies."""
        while True:
            for peer in list(self._met):
                tag = wire.swarm_tag(self._options.swarm)
                request = wire.ExchangeRequest(tag, limits.MAX_EXCHANGED, {}, self._announcement())
                reply = await self._call(host, peer, wire.encode_exchange(request))
                items = wire.decode_items(reply) if reply else []
                for item in [] if isinstance(items, Rejected) else items:
                    announcement = codec.peek(item.sealed, Announcement)
                    if (
                        not isinstance(announcement, Rejected)
                        and announcement.author != self._identity.peer_id
                    ):
                        # Not the victim's address: all that arrives there shall be from honest
                        # nodes.
                        found = full(announcement.addresses, announcement.author)
                        left = tuple(
                            each for each in found if f"/{self._options.victim}/" not in each
                        )
                        self._known[announcement.author] = left
                        if "plagiarist" in self._kinds and announcement.groups:
                            await self._read(host, peer, announcement)
            await asyncio.sleep(ROUND_SECONDS / 2)

    async def _read(self, host: Backend, peer: PeerId, announcement: Announcement) -> None:
        """Pulls an author's groups, to copy them."""
        author = announcement.author if announcement.author in self._met else peer
        keys = [codec.to_bytes(key) for key in announcement.groups[: limits.MAX_PULLED]]
        tag = wire.swarm_tag(self._options.swarm)
        reply = await self._call(host, author, wire.encode_pull(tag, keys), wire.PULL)
        envelopes = wire.decode_groups(reply, len(keys)) if reply else []
        for envelope in [] if isinstance(envelopes, Rejected) else envelopes:
            group = codec.peek(envelope, RolloutGroup) if envelope else None
            if isinstance(group, RolloutGroup):
                self._targets[group.question.seed + group.question.index] = group
        while len(self._targets) > TARGETS:
            self._targets.pop(next(iter(self._targets)))

    async def _call(
        self, host: Backend, peer: PeerId, request: bytes, protocol: str = wire.EXCHANGE
    ) -> bytes:
        try:
            most = limits.MAX_PULL_REPLY_BYTES
            reply = await host.call(peer, protocol, request, most, CALL_SECONDS)
        except CallFailed as error:
            self._counts[f"calls: {error.failure}"] += 1
            return b""
        self._counts["calls answered"] += 1
        return reply

    async def _flood(self, host: Backend) -> None:
        """Opens streams to random peers it met, `--rate` a second."""
        await asyncio.sleep(MEETING_SECONDS)
        space, calls = asyncio.Semaphore(FLIGHT), set[asyncio.Task[None]]()
        request = wire.encode_exchange(
            wire.ExchangeRequest(wire.swarm_tag(self._options.swarm), 8, {}, b"")
        )

        async def call(peer: PeerId) -> None:
            async with space:
                await self._call(host, peer, request)

        while True:
            calls = {task for task in calls if not task.done()}
            if self._met and len(calls) < 4 * FLIGHT:
                for _ in range(max(1, self._options.rate // 20)):
                    calls.add(asyncio.create_task(call(self._rng.choice(list(self._met)))))
            await asyncio.sleep(0.05)

    async def _knock(self) -> None:
        """Opens TCP connections that say nothing, and keeps the newest open."""
        held: list[asyncio.StreamWriter] = []
        while True:
            for address in [each for each in self._met.values() if "/tcp/" in each]:
                _, _, host, _, port, *_ = address.split("/")
                with suppress(OSError, TimeoutError):
                    held.append(
                        (await asyncio.wait_for(asyncio.open_connection(host, int(port)), 1.0))[1]
                    )
                    self._counts["silent connections"] += 1
            for writer in held[:-SILENT]:
                writer.close()
            held = held[-SILENT:]
            await asyncio.sleep(0.2)

    async def _junk(self, host: Backend) -> None:
        """Sends random bytes as requests."""
        await asyncio.sleep(MEETING_SECONDS)
        while True:
            for peer in list(self._met):
                protocol = self._rng.choice([wire.EXCHANGE, wire.PULL, wire.HELLO])
                await self._call(
                    host, peer, self._rng.randbytes(self._rng.randrange(1, 2048)), protocol
                )
            await asyncio.sleep(0.5)


async def attack(options: argparse.Namespace) -> None:
    """Lives as one identity after another, until SIGTERM, since nodes find an identity out."""
    counts: Counter[str] = Counter()

    def leave() -> None:
        with suppress(OSError):
            print(json.dumps(counts), flush=True)
        os._exit(0)  # without waiting for its tasks; its daemon ends with it

    async def orphaned(parent: int) -> None:
        while os.getppid() == parent:
            await asyncio.sleep(1.0)
        leave()  # the study that counts what it does, and holds it to its share, is gone

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leave)
    HostilePeer(options, counts).prepare()
    watch = asyncio.create_task(orphaned(os.getppid()))
    while not watch.done():
        counts["identities"] += 1
        await HostilePeer(options, counts).live(options.life)


def _digest(dataset: str, config_id: str) -> str:
    from swarm_node.environments.reasoning_gym import source

    items = [
        source.build(dataset, config_id, fixed_seed(FINGERPRINT, Round(0)), index)
        for index in range(4)
    ]
    return codec.environment_digest(
        [[it.prompt, *(f"{it.score(text):.6f}" for text in ("", "0"))] for it in items]
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.fuzzing.hostile_peer", description=__doc__)
    parser.add_argument("--kinds", nargs="*", choices=KINDS + TAKERS, default=[])
    parser.add_argument("--peers", nargs="+", required=True, help="full multiaddrs")
    parser.add_argument("--swarm", required=True)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument(
        "--victim", default="127.200.0.1", help="where announced peers are said to be"
    )
    parser.add_argument("--rate", type=int, default=1000, help="streams a second of a flood")
    parser.add_argument("--life", type=float, default=60.0, help="seconds of an identity")
    parser.add_argument("--ready", type=Path, help="file that is made when it has met somebody")
    parser.add_argument("--seed", default="", help="of its identities, so that they are known")
    parser.add_argument("--groups", type=int, default=GROUPS, help="a flooder's, each time")
    parser.add_argument(
        "--every", type=float, default=ROUND_SECONDS, help="seconds between its rounds"
    )
    parser.add_argument(
        "--noise", action="store_true", help="groups of the environment of lab.benchmarks.network"
    )
    options = parser.parse_args()
    asyncio.run(attack(options))


if __name__ == "__main__":
    main()
