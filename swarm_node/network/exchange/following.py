"""The cards of the swarm: a newer one spreads from node to node, a node shares what its card
allows, and the card of a private swarm decides which peers may enter.

A peer that sends a forged card is charged. The trainer has the home and the date: it hands back the
chain to follow.
"""

from collections.abc import Sequence

from protocol import wire
from protocol.card import GRACE, Card, Refusal, Signed, go_on, narrowed, network_id, read, told
from protocol.member import BLAMED, judge
from protocol.messages import PeerId
from swarm_node.common.lru import Lru
from swarm_node.network.actions import Action, Cards
from swarm_node.network.exchange.knowledge import Knowledge, PendingCall

THERE = 180.0  # seconds: only peers from which something came in this time are asked
ASK_SECONDS = 15.0  # between two requests for newer cards
POINTS = 2.0  # of guilt, as for any answer that breaks the protocol
RECENT = 8  # peers heard from last, among which one to ask is chosen: others may be gone
# Peers whose proofs are kept; what a node without a proof sends
MAX_MEMBERS, NO_PROOF = 1024, b"\0"
TOLD = 3  # peers asked when this node has a new card: a request tells them the number of that card


class Following:
    """The card that this node follows, and the peers that it asks for a newer one."""

    def __init__(self, knowledge: Knowledge, now: float) -> None:
        self._knowledge, self._rules = knowledge, knowledge.rules
        self._cards: tuple[bytes, ...] = ()
        self._card: Card | None = None
        self._next = now  # seconds, when peers are asked again
        self._asked = 1  # peers to ask then
        self._ahead: PeerId | None = None  # a peer that says it has a newer card
        # Number of the card given to the trainer, and when it is given again
        self._passed, self._again = 0, now

    def go_by(self, cards: Sequence[bytes], now: float) -> Card:
        """Follows this whole chain, which the caller has checked; returns its newest card."""
        newest = read(cards[-1])
        assert isinstance(newest, Signed), newest
        self._cards, self._card = tuple(cards), newest.card
        if self._rules is not None:
            self._knowledge.rules = narrowed(self._rules, newest.card)
        self._next, self._asked = now, TOLD
        return newest.card

    def tick(self, now: float) -> list[Action]:
        """Asks recently seen peers for newer cards now and then; first a peer that said it has
        one.
        """
        knowledge, busy = self._knowledge, self._knowledge.busy(wire.CARD)
        # A few may be busy: they may be gone
        if self._card is None or now < self._next or len(busy) >= TOLD:
            return []
        heard = sorted(knowledge.contacts, key=lambda each: each.last_seen)
        there = [each.peer for each in heard if now - each.last_seen < THERE and now >= each.retry]
        able = [peer for peer in there if peer not in busy and not knowledge.shuns(peer, now)][
            -RECENT:
        ]
        if not able:
            return []
        chosen = knowledge.rng.sample(able, min(self._asked, len(able)))
        if self._ahead in able and self._ahead not in chosen:
            chosen[0] = self._ahead
        self._next, self._asked, self._ahead = (
            now + ASK_SECONDS * knowledge.rng.uniform(0.8, 1.2),
            1,
            None,
        )
        request = wire.encode_card_request(network_id(self._card), self._card.number)
        return [
            knowledge.call(PendingCall(peer, wire.CARD, now, seq=self._card.number), request)
            for peer in chosen
        ]

    def answer(self, caller: PeerId, data: bytes, now: float) -> bytes | str:
        """The cards above the caller's number, or why there is no answer. A caller with a higher
        one is asked next.
        """
        request = wire.decode_card_request(data)
        if not isinstance(request, tuple):
            return request.reason
        network, number = request
        if self._card is None or network != network_id(self._card):
            return "another network"
        if number > len(self._cards):
            self._ahead, self._next = caller, now
        if contact := self._knowledge.contacts.get(caller):  # a newcomer asks with 0
            contact.behind = 0 < number < contact.offered
            contact.offered = len(self._cards)
        return wire.encode_cards(self._cards[number:])

    def replied(self, asked: PendingCall, reply: bytes, now: float) -> list[Action]:
        """Cards for the trainer. A peer is charged for cards that do not follow the one that this
        node asked with.
        """
        if self._card is None or asked.seq != self._card.number:  # this node has a newer one since
            return []
        cards = wire.decode_cards(reply)
        found = go_on(self._card, cards) if isinstance(cards, list) else Refusal.MALFORMED
        if not isinstance(cards, list) or isinstance(found, Refusal):
            self._knowledge.counters[f"manifest refused: {told(found)}"] += 1
            self._knowledge.charge(asked.peer, POINTS, now, f"manifest refused: {told(found)}")
            return []
        if not cards or (found.number <= self._passed and now < self._again):
            return []
        self._passed, self._again = found.number, now + THERE
        return [Cards(tuple(cards))]


class Membership:
    """The peers that have entered a private swarm here, and those that let this node in. An open
    swarm lets all in.
    """

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._card: Card | None = None
        # Own proof, and seconds from 1970 to the zero of this clock
        self._own, self._ahead = b"", 0.0
        # Proof, and when it ends, since 1970
        self._inside: Lru[PeerId, tuple[bytes, int]] = Lru(MAX_MEMBERS)
        # Peers that have taken this node's proof
        self.entered: Lru[PeerId, None] = Lru(MAX_MEMBERS)

    def go_by(self, card: Card, own: bytes, now: float, today: float) -> None:
        """Follows this card, and disconnects the peers that it puts out. `own`: proof; `today`:
        seconds since 1970.
        """
        knowledge, members = self._knowledge, card.members
        self._card, self._own, self._ahead = card if members else None, own, today - now
        knowledge.revoked = frozenset(members.revoked if members else ())
        judged = {
            peer: judge(proof, peer, card, today) for peer, (proof, _) in self._inside.items()
        }
        out = {peer for peer, found in judged.items() if members and not isinstance(found, int)}
        for peer in out | knowledge.revoked.intersection(
            entry.announcement.author for entry in knowledge.view
        ):
            self._inside.pop(peer, None)
            knowledge.hang_up(peer, "members put out")

    def lets(self, peer: PeerId, now: float) -> bool:
        """Whether this peer may ask for anything here, and be told anything."""
        return (
            self._card is None
            or self._inside.get(peer, (b"", -GRACE))[1] + GRACE > now + self._ahead
        )

    def request(self, peer: PeerId, now: float) -> bytes:
        """The proof to send to this peer before any other request; b"" where none is needed."""
        entered = self._card is None or (peer in self.entered and self.lets(peer, now))
        return b"" if entered else self._own or NO_PROOF

    def answer(self, caller: PeerId, data: bytes, now: float) -> bytes | str:
        """This node's proof in return for a valid one, or why there is none."""
        return (
            "not a private swarm"
            if self._card is None
            else self._objection(caller, data, now) or self._own
        )

    def replied(self, peer: PeerId, proof: bytes, now: float) -> bool:
        """Whether the peer, which has accepted this node's proof, is a member too."""
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
