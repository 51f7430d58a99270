"""Writes protocol/vectors/*.json: `python -m lab.vectors [FOLDER]`. The same bytes each time."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from lab.vectors import frames, keys, messages, seeds, texts
from lab.vectors.forms import FOLDER, Group, written

NOTES = {
    "Bomb": "costs a careless parser time, memory or its stack",
    "CutOff": "the input ends too early",
    "ExtraField": "there are no other fields than the page names",
    "HeldOut": "seeds of evaluation, and those near them, are no round's",
    "InvalidUtf8": "bytes that decode to no text",
    "Limit": "a limit of the page, at n or n + 1",
    "LowOrderR": "R has order 1, 2, 4 or 8; only the plain equation decides",
    "LowOrderResidue": "a point of order 2, 4 or 8 is added to R: verifiers with the cofactor accept it",
    "Malleable": "S is not below the order of the group",
    "MissingField": "all fields are required",
    "MixedKey": "the public key has a part of order 8; only the plain equation decides",
    "OffCurve": "the bytes are no point: a peer id, for which no signature is valid",
    "Order": "more than one objection: the first on the page is the reason",
    "Receiver": "the receiver's own limits are narrower",
    "SecondSpelling": "R is not in its one spelling",
    "WeakKey": "anybody can sign for this key, or it has a second spelling",
    "WrongType": "nothing is converted",
}
FILES: Mapping[str, Callable[[], list[Group]]] = {
    "announcement": messages.announcements,
    "canonical": texts.canonical_forms,
    "frames": frames.frames,
    "group": messages.groups,
    "key_file": keys.key_files,
    "peer_id": keys.peer_ids,
    "seed": seeds.seeds,
    "signature": keys.signatures,
    "swarm_name": keys.names,
}


def files() -> dict[str, bytes]:
    """Name to content."""
    return {f"{name}.json": written(make(), NOTES) for name, make in FILES.items()}


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for name, content in files().items():
        (folder / name).write_bytes(content)
        print(f"{name}: {content.count(b'tcId')} tests, {len(content)} bytes")
