"""What a person sees of other peers, and what the peer cache keeps."""

from dataclasses import dataclass

from protocol.messages import PeerId
from swarm_node.network.exchange.addresses import full
from swarm_node.network.exchange.contacts import Contact
from swarm_node.network.exchange.knowledge import Knowledge


@dataclass(frozen=True, slots=True)
class PeerView:
    """A peer as this node knows it."""

    peer: PeerId
    addresses: tuple[str, ...]  # full multiaddrs, to dial it
    last_seen: float | None  # seconds since anything came from it directly; None: only named by others
    announced: float | None  # seconds since it made its newest announcement; None: none known
    round: int | None  # its own count, from that announcement
    success: float  # moving average of pulls from it, 0 to 1
    pulls: int
    guilt: float  # points, see reputation.py
    state: str  # "ok", "quarantined", "banned" or "blocked"
    faults: dict[str, int]  # how often it was charged since this node knows it, by reason
    served: int  # groups that it fetched from this node
    authored: int  # groups by it that this node took in, from whomever
    note: str  # why there is nothing to share, e.g. another protocol version; "" if there is
    latency: float | None  # seconds until it answered the last exchange; None where it was not asked


def peer_views(knowledge: Knowledge, now: float) -> list[PeerView]:
    """Everybody known, those seen directly first."""
    contacts = {contact.peer: contact for contact in knowledge.contacts}
    names = dict.fromkeys([*contacts, *(entry.announcement.author for entry in knowledge.view)])
    views = [_view(knowledge, name, contacts.get(name) or Contact(name), now) for name in names]
    return sorted(views, key=lambda view: (view.last_seen is None, view.last_seen or 0.0, view.peer))


def _view(knowledge: Knowledge, peer: PeerId, contact: Contact, now: float) -> PeerView:
    entry = knowledge.view.get(peer)
    record = knowledge.reputation.of(peer)
    announced = full(entry.announcement.addresses, peer) if entry else ()
    return PeerView(
        peer=peer,
        addresses=announced or contact.addresses,
        last_seen=now - contact.last_seen if contact.was_seen else None,
        announced=now - entry.made if entry else None,
        round=entry.announcement.round if entry else None,
        success=record.success,
        pulls=record.pulls,
        guilt=record.guilt_at(now),
        state=knowledge.reputation.state(peer, now) if knowledge.access.peer(peer) else "blocked",
        faults=dict(record.faults),
        served=record.served,
        authored=record.authored,
        note=contact.note,
        latency=contact.latency,
    )
