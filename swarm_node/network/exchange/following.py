"""The cards of the swarm: a newer one walks from node to node, a node shares what its card allows, and the card of a
private swarm decides who has entered.

Whoever passes on a forged card is at fault. Home and time of day are the trainer's: it hands back the chain to go by.
"""

from collections.abc import Sequence

from protocol import wire
from protocol.card import GRACE, Card, Refusal, Signed, go_on, narrowed, network_of, read
from protocol.member import BLAMED, judge
from protocol.messages import PeerId
from swarm_node.common.lru import Lru
from swarm_node.network.actions import Action, Cards
from swarm_node.network.exchange.knowledge import Asked, Knowledge

THERE = 180.0  # seconds in which something came from a peer that is asked
ASK_SECONDS = 15.0  # between two questions for newer cards
POINTS = 2.0  # of guilt, as for any answer that nobody gives who follows the protocol
RECENT = 8  # peers heard of last, among whom it is chosen: others may be gone
MAX_MEMBERS, NO_PROOF = 1024, b"\0"  # whose proofs are kept; what says who has none
TOLD = 3  # peers that are asked when a card is new here: a question says which number its sender has


class Following:
    """Which card this node goes by, and whom it asks for a newer one."""

    def __init__(self, knowledge: Knowledge, now: float) -> None:
        self._knowledge, self._rules = knowledge, knowledge.rules
        self._cards: tuple[bytes, ...] = ()
        self._card: Card | None = None
        self._next = now  # seconds, when somebody is asked again
        self._asked = 1  # peers, then
        self._ahead: PeerId | None = None  # says that it has a newer one
        self._passed, self._again = 0, now  # number of the card handed to the trainer, and when it is handed again

    def go_by(self, cards: Sequence[bytes], now: float) -> Card:
        """The whole chain; its newest card. Whoever says so has checked it."""
        newest = read(cards[-1])
        assert isinstance(newest, Signed), newest
        self._cards, self._card = tuple(cards), newest.card
        if self._rules is not None:
            self._knowledge.rules = narrowed(self._rules, newest.card)
        self._next, self._asked = now, TOLD
        return newest.card

    def tick(self, now: float) -> list[Action]:
        """Asks a peer that is there, now and then; first whoever said that it has a newer card."""
        knowledge, busy = self._knowledge, self._knowledge.busy(wire.CARD)
        if self._card is None or now < self._next or len(busy) >= TOLD:  # some may be gone
            return []
        heard = sorted(knowledge.contacts, key=lambda each: each.last_seen)
        there = [each.peer for each in heard if now - each.last_seen < THERE and now >= each.retry]
        able = [peer for peer in there if peer not in busy and not knowledge.shuns(peer, now)][-RECENT:]
        if not able:
            return []
        chosen = knowledge.rng.sample(able, min(self._asked, len(able)))
        if self._ahead in able and self._ahead not in chosen:
            chosen[0] = self._ahead
        self._next, self._asked, self._ahead = now + ASK_SECONDS * knowledge.rng.uniform(0.8, 1.2), 1, None
        request = wire.encode_card_request(network_of(self._card), self._card.number)
        return [knowledge.call(Asked(peer, wire.CARD, now, seq=self._card.number), request) for peer in chosen]

    def answer(self, caller: PeerId, data: bytes, now: float) -> bytes | str:
        """The cards above the caller's number, or why there is no answer. A higher number is worth a question."""
        request = wire.decode_card_request(data)
        if not isinstance(request, tuple):
            return request.reason
        network, number = request
        if self._card is None or network != network_of(self._card):
            return "another network"
        if number > len(self._cards):
            self._ahead, self._next = caller, now
        if contact := self._knowledge.contacts.get(caller):  # who asks with 0 is a newcomer
            contact.behind = 0 < number < contact.offered
            contact.offered = len(self._cards)
        return wire.encode_cards(self._cards[number:])

    def replied(self, asked: Asked, reply: bytes, now: float) -> list[Action]:
        """Cards for the trainer. What does not follow the card that this node asked with is its sender's fault."""
        if self._card is None or asked.seq != self._card.number:  # there is a newer one since
            return []
        cards = wire.decode_cards(reply)
        found = go_on(self._card, cards) if isinstance(cards, list) else Refusal.MALFORMED
        if not isinstance(cards, list) or isinstance(found, Refusal):
            self._knowledge.counters[f"card refused: {found}"] += 1
            self._knowledge.charge(asked.peer, POINTS, now, f"card refused: {found}")
            return []
        if not cards or (found.number <= self._passed and now < self._again):
            return []
        self._passed, self._again = found.number, now + THERE
        return [Cards(tuple(cards))]


class Membership:
    """Who has entered a private swarm here, and where this node has. Of an open one everybody is let in."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._card: Card | None = None
        self._own, self._ahead = b"", 0.0  # proof, and how many seconds 1970 was before this clock began
        self._inside: Lru[PeerId, tuple[bytes, int]] = Lru(MAX_MEMBERS)  # proof, and when that ends
        self.entered: Lru[PeerId, None] = Lru(MAX_MEMBERS)  # peers that have taken this node's proof

    def go_by(self, card: Card, own: bytes, now: float, today: float) -> None:
        """Whoever this card puts out is hung up on at once. `today`: seconds since 1970."""
        knowledge, members = self._knowledge, card.members
        self._card, self._own, self._ahead = card if members else None, own, today - now
        knowledge.revoked = frozenset(members.revoked if members else ())
        judged = {peer: judge(proof, peer, card, today) for peer, (proof, _) in self._inside.items()}
        out = {peer for peer, found in judged.items() if members and not isinstance(found, int)}
        for peer in out | knowledge.revoked.intersection(entry.announcement.author for entry in knowledge.view):
            self._inside.pop(peer, None)
            knowledge.hang_up(peer, "members put out")

    def lets(self, peer: PeerId, now: float) -> bool:
        """Whether this peer may ask for anything here, and be told anything."""
        return self._card is None or self._inside.get(peer, (b"", -GRACE))[1] + GRACE > now + self._ahead

    def request(self, peer: PeerId, now: float) -> bytes:
        """What this peer must be told before anything else; b"" where that is nothing."""
        entered = self._card is None or (peer in self.entered and self.lets(peer, now))
        return b"" if entered else self._own or NO_PROOF

    def answer(self, caller: PeerId, data: bytes, now: float) -> bytes | str:
        """This node's proof for one that holds, or why there is none."""
        return "not a private swarm" if self._card is None else self._objection(caller, data, now) or self._own

    def replied(self, peer: PeerId, proof: bytes, now: float) -> bool:
        """Whether the peer is a member too, having taken this node for one."""
        if why := self._objection(peer, proof, now):
            self._knowledge.counters[f"enter failed: {why}"] += 1
        else:
            self.entered[peer] = None
        return not why

    def _objection(self, peer: PeerId, proof: bytes, now: float) -> str:
        if self._card is None:
            return ""
        found = judge(proof, peer, self._card, now + self._ahead)
        if isinstance(found, int):
            self._inside[peer] = proof, found
            return ""
        if found in BLAMED and proof != NO_PROOF:
            self._knowledge.charge(peer, POINTS, now, found)
        return found
