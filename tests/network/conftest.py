"""Pairs of hosts, started once for all tests of a pair of backends."""

import asyncio
import inspect
from collections.abc import Iterator

import pytest

from lab.benchmarks.internet.namespaces import Internet
from tests.network.hosts import SOON, Pair, open_hosts, started, until_connected
from tests.waiting import PATIENCE

BACKENDS = ("hivemind", "libp2p")
PAIRS = [(first, second) for first in BACKENDS for second in BACKENDS]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine, and closes the hosts that it has started."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None

    async def run() -> None:
        open_hosts.clear()
        try:
            await pyfuncitem.obj(
                **{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
            )
        finally:
            await asyncio.gather(*(host.close() for host in open_hosts))

    asyncio.run(asyncio.wait_for(run(), 4 * PATIENCE))
    return True


@pytest.fixture(scope="module", params=PAIRS, ids="-".join)
def hosts(request: pytest.FixtureRequest) -> Iterator[Pair]:
    yield from started_pair(*request.param)


@pytest.fixture(params=PAIRS, ids="-".join)
def fresh(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Two hosts that know nothing of each other and serve one test."""
    yield from started_pair(*request.param)


@pytest.fixture
def internet() -> Iterator[Internet]:
    with Internet() as internet:
        yield internet


def started_pair(first: str, second: str) -> Iterator[Pair]:
    with asyncio.Runner() as runner:
        a = runner.run(started(first))
        b = runner.run(started(second))
        yield Pair(runner, a, b)
        runner.run(a.close())
        runner.run(b.close())


@pytest.fixture
def pair(hosts: Pair) -> Pair:
    """Hosts that are connected: b has dialled a, and both know it; a, which was dialled, knows it
    last.
    """

    async def connect() -> None:
        await hosts.b.dial(await hosts.a.addresses(), timeout=SOON)
        await until_connected(hosts.b, {hosts.a.peer_id})
        await until_connected(hosts.a, {hosts.b.peer_id})

    hosts.run(connect())
    return hosts
