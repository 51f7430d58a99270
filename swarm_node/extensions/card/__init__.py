"""The card of a swarm, by hand: who founds a swarm makes it, signs it and renews it with others."""

from swarm_node.commands.command import Entry, Purpose

_PLACE, _PART = "swarm_node.extensions.card.signing", Purpose.TAKE_PART
KEY = Entry(f"{_PLACE}:KEY", "[FILE]", "a signer's id; the key is made if need be", _PART)
CREATE = Entry(f"{_PLACE}:CREATE", "FILE --flags", "a swarm's first card, to be signed", _PART)
NEXT = Entry(f"{_PLACE}:NEXT", "FILE [--flags]", "the next one: renewed, changed", _PART)
SIGN = Entry(f"{_PLACE}:SIGN", "FILE --key KEY", "adds a signature to the newest", _PART)
SHOW = Entry(f"{_PLACE}:SHOW", "FILE", "what the newest says, and changes", _PART)
VERIFY = Entry(f"{_PLACE}:VERIFY", "FILE --network ID", "whether all cards hold", _PART)
