"""Who opens streams without end is turned away before anything is spent on it; others are not."""

from protocol.messages import PeerId
from swarm_node.network.transport.streams import NEW_STREAMS, WINDOW_SECONDS, Answering

FLOODER, HONEST = PeerId("flooder"), PeerId("honest")


def test_a_peer_opens_so_many_streams_in_a_while_and_others_are_let_in_beside_it() -> None:
    answering = Answering({}, {}, 16)
    taken = [answering.admits(FLOODER, 100.0 + k / 1000) for k in range(1000)]
    assert taken == [True] * NEW_STREAMS + [False] * (1000 - NEW_STREAMS)
    assert answering.admits(HONEST, 101.5)
    assert not answering.admits(FLOODER, 100.0 + WINDOW_SECONDS - 0.1)
    assert answering.admits(FLOODER, 100.0 + WINDOW_SECONDS)
