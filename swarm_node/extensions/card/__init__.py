"""The manifest of a swarm: whoever founds a swarm makes it, signs it and renews it with others."""

from swarm_node.commands.command import Entry, Purpose

_PLACE, _PART = "swarm_node.extensions.card.signing", Purpose.TAKE_PART
KEY = Entry(f"{_PLACE}:KEY", "[FILE]", "print a signer's id; make the key if there is none", _PART)
CREATE = Entry(
    f"{_PLACE}:CREATE", "FILE --flags", "write the first manifest, without signatures", _PART
)
NEXT = Entry(f"{_PLACE}:NEXT", "FILE [--flags]", "renew or change a manifest", _PART)
SIGN = Entry(f"{_PLACE}:SIGN", "FILE --key KEY", "sign the newest manifest in a file", _PART)
SHOW = Entry(f"{_PLACE}:SHOW", "FILE", "print the newest manifest and its changes", _PART)
VERIFY = Entry(f"{_PLACE}:VERIFY", "FILE --network ID", "check all signatures in a file", _PART)
