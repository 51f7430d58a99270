"""Calls under way: from the request to the reply, the failure, or a runner that forgot."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count

from protocol import limits, wire
from protocol.messages import PeerId
from swarm_node.network.actions import Call
from swarm_node.network.exchange.addresses import full
from swarm_node.network.exchange.knowledge import Knowledge
from swarm_node.network.exchange.pulls import Want

TIMEOUTS: Mapping[str, float] = {wire.EXCHANGE: 10.0, wire.PULL: 15.0, wire.HELLO: 8.0}  # seconds, connecting included
OVERDUE = 5.0  # seconds past the timeout after which a runner that says nothing has failed

_MAX_REPLIES: Mapping[str, int] = {  # bytes
    wire.EXCHANGE: limits.MAX_EXCHANGE_REPLY_BYTES,
    wire.PULL: limits.FRAME_HEADER_BYTES + limits.MAX_MESSAGE_BYTES,  # for each group
    wire.HELLO: limits.MAX_HELLO_BYTES,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A call under way."""

    peer: PeerId
    protocol: str
    sent: float  # seconds
    news: int = 0  # announcements it may bring
    seq: int = -1  # of the own announcement it carries
    want: Want | None = None  # the groups it is for


class Calls:
    """The calls that are under way, by the token that their outcome comes back with."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._tokens = count(1)
        self._asked: dict[int, Asked] = {}

    def make(self, asked: Asked, request: bytes) -> Call:
        """The action that carries it out. Dials where the peer says it is, and where it was found before."""
        self._knowledge.counters[f"{wire.NAMES[asked.protocol]} bytes out"] += len(request)
        token = next(self._tokens)
        self._asked[token] = asked
        contact = self._knowledge.contacts.called(asked.peer, asked.sent)
        entry = self._knowledge.view.get(asked.peer)
        announced = full(entry.announcement.addresses, asked.peer) if entry else ()
        self._knowledge.contacts.announced(asked.peer, announced)
        return Call(
            token=token,
            peer=asked.peer,
            addresses=tuple(dict.fromkeys(announced + contact.addresses)),
            protocol=asked.protocol,
            request=request,
            max_reply=_max_reply(asked),
            timeout=TIMEOUTS[asked.protocol],
        )

    def pop(self, token: int) -> Asked | None:
        """What was asked; None where it was given up before."""
        return self._asked.pop(token, None)

    def overdue(self, now: float) -> list[int]:
        """Tokens nobody will answer any more."""
        return [token for token, asked in self._asked.items() if now - asked.sent > TIMEOUTS[asked.protocol] + OVERDUE]

    def wants(self) -> list[Want]:
        """The groups being fetched."""
        return [asked.want for asked in self._asked.values() if asked.want]

    def busy(self, *protocols: str) -> list[PeerId]:
        """The peers at the other ends."""
        return [asked.peer for asked in self._asked.values() if asked.protocol in protocols]


def _max_reply(asked: Asked) -> int:
    """Bytes; of many groups a peer leaves out what does not fit."""
    groups = len(asked.want.keys) if asked.want else 1
    return min(groups * _MAX_REPLIES[asked.protocol], limits.MAX_PULL_REPLY_BYTES)
