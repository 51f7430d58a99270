"""The cards of the swarm: a newer one walks from node to node, and a node shares what its card allows.

Whoever passes on a forged card is at fault. Home and time of day are the trainer's: it hands back the chain to go by.
"""

from collections.abc import Sequence

from protocol import wire
from protocol.card import Card, Refusal, Signed, go_on, narrowed, network_of, read
from protocol.messages import PeerId
from swarm_node.network.actions import Action, Cards
from swarm_node.network.exchange.knowledge import Asked, Knowledge

THERE = 180.0  # seconds in which something came from a peer that is asked
ASK_SECONDS = 15.0  # between two questions for newer cards
POINTS = 2.0  # of guilt, as for any answer that nobody gives who follows the protocol
RECENT = 8  # peers heard of last, among whom it is chosen: others may be gone
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

    def go_by(self, cards: Sequence[bytes], now: float) -> None:
        """The whole chain. Whoever says so has checked it."""
        newest = read(cards[-1])
        assert isinstance(newest, Signed), newest
        self._cards, self._card = tuple(cards), newest.card
        if self._rules is not None:
            self._knowledge.rules = narrowed(self._rules, newest.card)
        self._next, self._asked = now, TOLD

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
