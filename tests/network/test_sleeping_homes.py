"""Real nodes that sleep: all processes of a home are stopped by SIGSTOP, as a closed lid stops
them, and go on.
"""

import time
from pathlib import Path

import pytest

from lab.benchmarks.internet.namespaces import Internet, reason
from lab.studies import sleeping
from lab.studies.sleeping import Home, sharing, slept
from swarm_node.network.exchange.exchange import SLEPT_SECONDS
from swarm_node.network.process.supervisor import SILENCE_SECONDS
from tests.waiting import until

pytestmark = [pytest.mark.network, pytest.mark.slow]
MISSING = reason()
# Twice what a node is to take, as other tests may have the cores meanwhile
BACK = 2 * sleeping.WANTED


def test_a_home_that_slept_longer_than_a_process_may_be_silent_is_back_and_lost_no_process(
    tmp_path: Path,
) -> None:
    awake = Home(tmp_path / "awake")
    until(lambda: awake.addresses, what="listening")
    home = Home(tmp_path / "home", [each for each in awake.addresses if "/tcp/" in each])
    try:
        until(lambda: home.peer, what="the start")
        until(sharing(home, awake), what="sharing")
        after = slept(home, awake, SILENCE_SECONDS + 10.0)
        assert after["ended"] == 0 and after["network processes"] == 1, home.lines
        assert after["back"] is not None and after["back"] <= BACK
    finally:
        home.kill()
        awake.kill()


@pytest.mark.skipif(bool(MISSING), reason=MISSING)
@pytest.mark.parametrize("kind", ["CGNAT", "IPv6 alone", "moved"])
def test_a_home_is_back_in_every_kind_of_network(kind: str) -> None:
    [after] = sleeping.of_kind(sleeping.KINDS[kind], [SLEPT_SECONDS + 10.0])
    assert after["network processes"] == 1
    assert after["back"] is not None and after["back"] <= BACK


@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_a_home_that_is_awake_when_its_address_changes_is_back_soon(tmp_path: Path) -> None:
    with Internet() as internet, sleeping.beside(tmp_path, internet, ipv6=False) as (awake, entry):
        place = internet.public("home")
        home = Home(tmp_path / "home", entry, place.inside, sleeping.ANYWHERE)
        try:
            until(lambda: home.peer and awake.peer, what="the start")
            until(sharing(home, awake), what="sharing")
            before = place.address
            internet.move(place, 201)
            began = time.monotonic()
            until(lambda: any("45.33.10.201" in each for each in home.addresses), what="moving")
            assert not any(f"/{before}/" in each for each in home.addresses)
            until(sharing(home, awake), what="sharing from elsewhere")
            assert time.monotonic() - began <= BACK
            assert any("this machine has another address now" in line for line in home.lines)
        finally:
            home.kill()
