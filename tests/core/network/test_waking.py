"""The parts of a network process on a machine that sleeps, moves, or is in no network: with a loop
whose clock jumps.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Any

import pytest

from protocol import wire
from protocol.identity import Identity
from protocol.messages import PeerId
from swarm_node.common.channel import BrokenFrame
from swarm_node.common.errors import UserError
from swarm_node.network.actions import CallPeer, StartOver
from swarm_node.network.backend import Backend, CallFailed, Connection, Failure, Handler
from swarm_node.network.exchange.exchange import SLEPT_SECONDS, WOKE, Exchange
from swarm_node.network.process import service
from swarm_node.network.process.messages import Memory, Rules
from swarm_node.network.process.runner import (
    CALM_RETRY,
    ELSEWHERE,
    ExchangeRunner,
    bootstrap_nodes,
)
from swarm_node.network.process.supervisor import SILENCE_SECONDS, Supervisor
from swarm_node.network.transport.gate import Dialable, DialGate
from swarm_node.network.transport.relays import Relays
from swarm_node.network.transport.standing import Change, Moves, Standing, may_be_here, standing
from swarm_node.settings import NetworkConfig
from tests.dreams import JUMPS, Dream, in_a_dream

OWN, DOOR = (Identity.from_seed_bytes(bytes([n]) * 32) for n in (1, 2))
ENTRY = f"/ip4/45.33.10.9/tcp/31330/p2p/{DOOR.peer_id}"
HOME, AWAY = Standing(4, "45.33.10.7", frozenset(["45.33.10.7"])), Standing(4, "")
SOON = 10.0  # seconds
RULES = Rules(swarm="test", environments={}).admission(OWN.peer_id)


class Carrier(Backend):
    """A backend whose only peer is a bootstrap node, and whose calls are never answered."""

    peer_id = OWN.peer_id
    counters: Mapping[str, int] = {}

    def __init__(self, dream: Dream) -> None:
        self._dream = dream
        self.there, self.works = False, True  # whether the peer is connected; whether it answers
        self.dialled: list[float] = []  # when
        self.called: list[float] = []
        self.started_over: list[float] = []
        self.own = ["/ip4/45.33.10.7/tcp/4001"]

    async def start(self, handlers: Mapping[str, Handler], limits: Mapping[str, int]) -> None:
        pass

    async def dial(self, addresses: Sequence[str], timeout: float) -> PeerId:
        self.dialled.append(self._dream.time())
        if not self.works:
            raise CallFailed(Failure.UNREACHABLE)
        self.there = True
        return DOOR.peer_id

    async def call(
        self, peer: PeerId, protocol: str, request: bytes, max_reply: int, timeout: float
    ) -> bytes:
        self.called.append(self._dream.time())
        await asyncio.Event().wait()
        raise AssertionError

    async def disconnect(self, peer: PeerId) -> None:
        self.there = False

    async def connections(self) -> list[Connection]:
        return [Connection(DOOR.peer_id, ENTRY, relayed=False)] if self.there else []

    async def addresses(self) -> list[str]:
        return [f"{address}/p2p/{OWN.peer_id}" for address in self.own]

    async def start_over(self) -> None:
        self.started_over.append(self._dream.time())
        self.there = False

    async def wait_closed(self) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    async def close(self) -> None:
        pass


class Life:
    """A runner with such a backend, in a dream."""

    def __init__(self, dream: Dream) -> None:
        self.dream, self.backend, self.stands = dream, Carrier(dream), HOME
        self.exchange = Exchange(OWN, "test", NetworkConfig(), Random(1), dream.time())
        entrance = bootstrap_nodes([(DOOR.peer_id, ENTRY)], {}, OWN.peer_id)
        self.woken = 0
        self.runner = ExchangeRunner(
            self.exchange,
            entrance,
            lambda _: None,
            lambda _: None,
            dream.time,
            Random(2),
            lambda: self.stands,
            self._woke,
        )

    def _woke(self) -> None:
        self.woken += 1

    async def lived(self, story: Callable[["Life"], Awaitable[None]]) -> str:
        """Runs the backend until the story ends; why the backend ended, if it did before."""
        running = asyncio.create_task(self.runner.run(self.backend))
        telling = asyncio.ensure_future(story(self))
        done, others = await asyncio.wait([running, telling], return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        return next(str(task.result()) for task in done)


def lived(story: Callable[[Life], Awaitable[None]]) -> tuple[Life, str]:
    with in_a_dream() as dream:
        life = Life(dream)
        return life, dream.run(life.lived(story))


@pytest.mark.parametrize("jump", JUMPS)
def test_after_a_sleep_a_node_hangs_up_and_dials_at_once_whatever_failed_before(
    jump: float,
) -> None:
    async def story(life: Life) -> None:
        life.backend.works = False
        await asyncio.sleep(10 * CALM_RETRY)
        assert life.runner.bootstrap_nodes[0].failures > 5
        life.backend.works = True
        life.dream.sleep(jump)
        woke = life.dream.time()
        await asyncio.sleep(SOON)
        assert [when for when in life.backend.started_over if when - woke < 1.0]
        assert [when for when in life.backend.dialled if 0.0 <= when - woke < 2.0]
        assert DOOR.peer_id in life.runner.connections
        assert life.woken == 1

    lived(story)


@pytest.mark.parametrize("jump", JUMPS)
def test_calls_that_were_under_way_are_given_up_without_a_failure(jump: float) -> None:
    async def story(life: Life) -> None:
        while not life.backend.called:
            await asyncio.sleep(0.1)
        failed = {name: n for name, n in life.exchange.counters().items() if "failed" in name}
        life.dream.sleep(jump)
        before = len(life.backend.called)
        woke = life.dream.time()
        await asyncio.sleep(5.0)
        after = {name: n for name, n in life.exchange.counters().items() if "failed" in name}
        assert after == failed
        again = life.backend.called[before:]
        assert again and min(again) >= min(life.backend.started_over) >= woke

    lived(story)


def test_a_short_pause_is_no_sleep() -> None:
    async def story(life: Life) -> None:
        await asyncio.sleep(5.0)
        life.dream.sleep(SLEPT_SECONDS - 1.0)
        await asyncio.sleep(5.0)
        assert not life.backend.started_over and WOKE not in life.exchange.counters()

    lived(story)


def test_in_no_network_nobody_is_dialled_and_back_in_it_all_are_at_once() -> None:
    async def story(life: Life) -> None:
        await asyncio.sleep(30.0)
        life.stands, life.backend.works, life.backend.there = AWAY, False, False
        await asyncio.sleep(5.0)
        dialled, called = len(life.backend.dialled), len(life.backend.called)
        await asyncio.sleep(600.0)
        assert (len(life.backend.dialled), len(life.backend.called)) == (dialled, called)
        assert life.runner.bootstrap_nodes[0].failures <= 1
        life.stands, life.backend.works = HOME, True
        await asyncio.sleep(SOON)
        assert DOOR.peer_id in life.runner.connections and len(life.backend.called) > called

    lived(story)


def test_without_a_network_another_node_of_this_machine_is_still_dialled() -> None:
    async def story(life: Life) -> None:
        await asyncio.sleep(30.0)

    with in_a_dream() as dream:
        life = Life(dream)
        life.stands = AWAY
        near = f"/ip4/127.0.0.1/tcp/31330/p2p/{DOOR.peer_id}"
        life.runner.bootstrap_nodes = bootstrap_nodes([(DOOR.peer_id, near)], {}, OWN.peer_id)
        dream.run(life.lived(story))
        assert life.backend.dialled


def test_elsewhere_the_backend_ends_and_the_next_one_starts_over() -> None:
    async def story(life: Life) -> None:
        await asyncio.sleep(30.0)
        life.stands = Standing(4, "10.0.0.7", frozenset(["10.0.0.7"]))
        await asyncio.sleep(30.0)
        raise AssertionError("the backend goes on")

    with in_a_dream() as dream:
        life = Life(dream)
        assert dream.run(life.lived(story)) == ELSEWHERE and life.runner.moved
        moved = dream.time()

        async def second(life: Life) -> None:
            await asyncio.sleep(SOON)

        life.backend = Carrier(dream)
        dream.run(life.lived(second))
        assert not life.runner.moved and life.exchange.counters()[WOKE] == 1
        assert life.backend.dialled[0] - moved < 2.0


class Line:
    """A channel on which messages come when a test says so."""

    def __init__(self) -> None:
        self.came: asyncio.Queue[str] = asyncio.Queue()

    async def receive(self) -> object:
        return await self.came.get()


class Mad(Line):
    async def receive(self) -> object:
        raise BrokenFrame("nonsense")


def listened(line: Any, during: Callable[[Dream], Awaitable[object]]) -> tuple[str, float]:
    """Why a supervisor kills the process at the other end, and when, in seconds."""
    takes: list[Any] = [lambda *_: [], lambda *_: None, lambda *_: None, None]
    supervisor = Supervisor(*takes, random=Random())

    async def both() -> str:
        beside = asyncio.ensure_future(during(dream))
        reason = await supervisor._listen(line)
        await beside
        return reason

    with in_a_dream() as dream:
        began = dream.time()
        return dream.run(both()), dream.time() - began


@pytest.mark.parametrize("jump", JUMPS)
def test_a_network_process_is_not_killed_for_a_sleep_but_for_hanging_after_it(jump: float) -> None:
    line = Line()

    async def story(dream: Dream) -> None:
        await asyncio.sleep(50.0)
        dream.sleep(jump)
        await asyncio.sleep(7.0)
        line.came.put_nowait("alive")

    reason, seconds = listened(line, story)
    assert "said nothing for 60 s" in reason
    assert seconds - jump == pytest.approx(57.0 + SILENCE_SECONDS, abs=3.0)


def test_a_process_that_sends_nonsense_is_killed_all_the_same() -> None:
    async def nothing(dream: Dream) -> None:
        pass

    assert "sent nonsense" in listened(Mad(), nothing)[0]


@pytest.mark.parametrize(
    ("looks", "changes"),
    [
        # Its address is gone, and another one is there for two looks
        ([("a", "a"), ("b", "b"), ("b", "b"), ("b", "b")], ["NONE", "NONE", "ELSEWHERE", "NONE"]),
        # A second network beside the first changes nothing, until the first is gone
        ([("b", "ab"), ("a", "ab"), ("a", "a")], ["NONE", "NONE", "NONE"]),
        ([("b", "ab"), ("b", "b"), ("b", "b")], ["NONE", "NONE", "NONE"]),
        ([("", ""), ("", ""), ("a", "a"), ("a", "a")], ["AWAY", "AWAY", "BACK", "NONE"]),
        ([("", ""), ("b", "b"), ("b", "b"), ("b", "b")], ["AWAY", "AWAY", "ELSEWHERE", "NONE"]),
        # Two addresses in turn agree on nothing
        ([("b", "b"), ("c", "c"), ("b", "b"), ("b", "b")], ["NONE", "NONE", "NONE", "ELSEWHERE"]),
    ],
)
def test_a_machine_has_moved_when_the_address_by_which_it_met_others_is_gone(
    looks: list[tuple[str, str]], changes: list[str]
) -> None:
    moves = Moves(Standing(4, "a", frozenset("a")))
    seen = [moves.take(Standing(4, source, frozenset(present))) for source, present in looks]
    assert seen == [Change[change] for change in changes]


def test_another_family_of_addresses_is_another_network() -> None:
    moves = Moves(Standing(4, "a", frozenset("a")))
    six = Standing(6, "s", frozenset("as"))
    assert [moves.take(six), moves.take(six)] == [Change.NONE, Change.ELSEWHERE]
    began_offline = Moves(AWAY)
    assert [began_offline.take(six), began_offline.take(six)][-1] is Change.ELSEWHERE


def test_a_node_on_loopback_is_always_at_home() -> None:
    assert standing("127.0.0.1") == Standing(4, "127.0.0.1", frozenset(["127.0.0.1"]))


@pytest.mark.parametrize(
    ("address", "may_be"),
    [
        ("/ip4/192.168.1.5/tcp/1", True),
        ("/ip4/192.168.7.5/tcp/1", False),
        ("/ip6/fd00::5/udp/1/quic-v1", False),
        ("/ip4/8.8.8.8/tcp/1", True),  # as a NAT has it
        ("/dns4/node.example/tcp/1", True),
    ],
)
def test_an_own_address_that_no_interface_has_any_more_is_not_told(
    address: str, may_be: bool
) -> None:
    assert may_be_here(address, frozenset(["192.168.1.5", "127.0.0.1"])) == may_be


def test_addresses_of_the_user_rest_no_longer_after_a_sleep_and_those_of_others_do() -> None:
    stranger = f"/ip4/45.33.11.9/tcp/31330/p2p/{DOOR.peer_id}"
    gate = DialGate(Dialable([ENTRY], [], list))
    for number in range(6):
        gate.failed(gate.choose([ENTRY], 1000.0 * number), 1000.0 * number)
    gate.failed(gate.choose([stranger], 5000.0), 5000.0)
    assert not gate.choose([ENTRY], 5001.0).addresses
    gate.woke()
    assert gate.choose([ENTRY], 5001.0).addresses == (ENTRY,)
    assert not gate.choose([stranger], 5001.0).addresses


def test_relays_that_failed_are_asked_again_after_a_sleep() -> None:
    class Deaf:
        dialled = 0

        async def dial(self, addresses: Sequence[str], timeout: float) -> PeerId:
            self.dialled += 1
            raise CallFailed(Failure.UNREACHABLE)

    deaf = Deaf()
    relays = Relays(deaf, None, [ENTRY])  # type: ignore[arg-type]

    async def tended(now: float) -> int:
        await relays._tend(set(), now)
        return deaf.dialled

    with in_a_dream() as dream:
        assert dream.run(tended(0.0)) == 1
        assert dream.run(tended(10.0)) == 1
        relays.start_over()
        assert dream.run(tended(11.0)) == 2


def test_who_starts_over_gives_back_what_it_was_fetching() -> None:
    exchange = Exchange(OWN, "test", NetworkConfig(), Random(1), 0.0)
    exchange.learned(DOOR.peer_id, [ENTRY])
    calls = [each for each in exchange.tick(0.5) if isinstance(each, CallPeer)]
    assert [call.protocol for call in calls] == [wire.EXCHANGE]
    assert exchange.tick(1000.0)[0] == StartOver()
    assert exchange.replied(calls[0].token, b"late", 1000.1) == []


def test_a_backend_that_cannot_start_elsewhere_is_tried_again_after_longer_and_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries: list[float] = []

    def make(*_: object, **__: object) -> Backend:
        tries.append(dream.time())
        raise UserError("no backend here")

    monkeypatch.setattr(service, "make_backend", make)
    config = NetworkConfig(host="127.0.0.1", mdns=False)
    lives = service.NetworkService(
        OWN, "test", config, Memory(), lambda _: None, lambda text, warning: None, rules=RULES
    )
    lives.runner.moved = True

    async def some_time() -> None:
        living = asyncio.create_task(lives.live())
        await asyncio.sleep(60.0)
        living.cancel()
        await asyncio.gather(living, return_exceptions=True)

    with in_a_dream() as dream:
        dream.run(some_time())
    assert 3 <= len(tries) <= 12
