"""Two hosts behind NATs that meet at a relay: where hole punching begins."""

from lab.benchmarks.internet.namespaces import Internet
from lab.benchmarks.internet.remote import Remote
from lab.benchmarks.waiting import until


class Meeting:
    """Two hosts behind NATs, connected through a relay: `b` has dialled `a`."""

    def __init__(
        self,
        internet: Internet,
        symmetric: bool = False,
        witness: str = "udp/31330/quic-v1",
        caller: str = "hivemind",
    ) -> None:
        self.where = internet.public("r")
        self.relay = Remote.start(self.where, "hivemind", bootstrap=True, port=31330)
        entry = f"/ip4/{self.where.address}/{witness}/p2p/{self.relay.peer_id}"
        self.a = Remote.start(internet.behind_nat("a"), "hivemind", peers=[entry], port=31331)
        self.b = Remote.start(
            internet.behind_nat("b", symmetric), caller, peers=[entry], port=31331
        )
        until(self.addresses, 120.0, "an address through the relay")
        self.b.dial([entry])
        self.b.dial(self.addresses())

    def addresses(self) -> list[str]:
        return [address for address in self.a.addresses() if "/p2p-circuit/" in address]

    def direct(self) -> bool:
        return {relayed for peer, _, relayed in self.b.connections() if peer == self.a.peer_id} == {
            False
        }

    def talk(self) -> None:
        text = "x" * 100_000
        for one, other in ((self.a, self.b), (self.b, self.a)):
            assert one.echo(other.peer_id, text) == f">{text}"
