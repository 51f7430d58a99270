"""One announcement in, from anybody: news for the view, or a counted reason why not. Cheap questions come first."""

from enum import StrEnum

from protocol import announcing, wire
from protocol.messages import Announcement, PeerId
from protocol.rejection import Rejected
from swarm_node.network.exchange.addresses import full, is_public, network_of
from swarm_node.network.exchange.knowledge import Knowledge
from swarm_node.network.exchange.view import MAX_AGE, Entry

OVERTAKEN = "own number overtaken: a lost memory, or two nodes with one identity"  # counter


class Verdict(StrEnum):
    """Values are names of counters."""

    NEWS = "announcements received"
    KNOWN = "announcements known already"
    OLD = "announcements too old"
    JUMP = "announcements whose number runs away"
    OWN = "own announcements received"
    BANNED = "announcements of banned or blocked peers"
    FORGED = "announcements forged or malformed"  # only this is the carrier's fault: it should have checked


def receive(
    knowledge: Knowledge, sealed: bytes, source: PeerId, made: float, now: float, pushed: bool = False
) -> Verdict:
    """Take in what `source` says or carries. `made`: when its author made it, on this node's clock. `pushed`: nobody
    had asked."""
    announcement = announcing.peek(sealed)
    if isinstance(announcement, Rejected):
        knowledge.counters[f"announcement {announcement.reason}"] += 1
        verdict = Verdict.FORGED
    else:
        verdict = _objection(knowledge, announcement, sealed, made, now) or Verdict.NEWS
        if verdict is Verdict.NEWS:
            _take_in(knowledge, announcement, sealed, source, min(made, now), now, pushed)
    knowledge.counters[verdict] += 1
    return verdict


def _take_in(
    knowledge: Knowledge,
    announcement: Announcement,
    sealed: bytes,
    source: PeerId,
    made: float,
    now: float,
    pushed: bool,
) -> None:
    author = announcement.author
    network = _network(knowledge, announcement)
    before = knowledge.view.get(author)
    pushed = pushed and (before is None or before.pushed)
    entry = Entry(announcement, sealed, wire.key_tag(author), made, source, network, pushed)
    knowledge.sample.offer(author, network)
    knowledge.view.add(entry, now, knowledge.steady())
    knowledge.contacts.announced(author, full(announcement.addresses, author))


def _objection(
    knowledge: Knowledge, announcement: Announcement, sealed: bytes, made: float, now: float
) -> Verdict | None:
    if announcement.author == knowledge.identity.peer_id:
        return _receive_own(knowledge, announcement, sealed)
    if not knowledge.view.is_news(announcement, now):
        return Verdict.KNOWN
    if now - made > MAX_AGE:
        return Verdict.OLD
    if knowledge.shuns(announcement.author, now) or not all(map(knowledge.access.address, announcement.addresses)):
        return Verdict.BANNED
    if knowledge.view.is_jump(announcement, now):
        return Verdict.JUMP
    return Verdict.FORGED if _is_forged(knowledge, announcement, sealed) else None


def _receive_own(knowledge: Knowledge, announcement: Announcement, sealed: bytes) -> Verdict:
    """A number not below this node's newest one is from before a crash, or from another node with the same key."""
    local_announcement = knowledge.local_announcement
    if announcement.seq >= local_announcement.seq and sealed != local_announcement.sealed:
        if _is_forged(knowledge, announcement, sealed):
            return Verdict.FORGED
        knowledge.counters[OVERTAKEN] += 1
        local_announcement.overtake(announcement.seq)
    return Verdict.OWN


def _is_forged(knowledge: Knowledge, announcement: Announcement, sealed: bytes) -> bool:
    objection = announcing.objection(sealed, announcement, knowledge.swarm)
    if objection:
        knowledge.counters[f"announcement {objection}"] += 1
    return objection is not None


def _network(knowledge: Knowledge, announcement: Announcement) -> str:
    """Where its author called from, if that is on the internet: proven. Else where it says it is."""
    contact = knowledge.contacts.get(announcement.author)
    observed = network_of(contact.observed) if contact else ""
    claimed = network_of(announcement.addresses[0]) if announcement.addresses else ""
    return observed if is_public(observed) or not claimed else claimed
