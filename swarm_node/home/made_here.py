"""Which secrets in a home this user's programs made.

Nothing inside a home grants anything. A secret in it may be known to whoever made the home, and was
put there for that. So of each secret that we make, a digest stands outside of the home, in the
state folder of this user (record.py), and a secret without one is replaced by a new one.

The node's key is no such secret: it *is* the home's identity, and who continues with a stranger's
home continues under that name (SECURITY.md).
"""

import hashlib
import hmac
import os
from pathlib import Path

from swarm_node.common.files import pretty, write_bytes
from swarm_node.common.parsing import parse_json, read_whole
from swarm_node.home.record import locked, ours_alone, state_folder

DIGESTS = "secrets.json"
MAX_BYTES, MAX_SECRETS = 1 << 20, 1000  # those that were made longest ago go first


def is_made_here(home: Path, name: str, secret: str) -> bool:
    """Whether this user's programs made this secret, for the file of this name in this home."""
    folder = state_folder(home)
    kept = _read(folder).get(_key(home, name), "") if folder else ""
    return hmac.compare_digest(kept.encode(), _digest(secret).encode())


def note_made(home: Path, name: str, secret: str) -> None:
    """Notes that it was made here. OSError where there is no place for that."""
    folder = state_folder(home)
    if folder is None:
        raise OSError("there is no state folder outside of the home")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked(folder):
        digests = _read(folder)
        digests.pop(_key(home, name), None)
        digests[_key(home, name)] = _digest(secret)
        kept = dict(list(digests.items())[-MAX_SECRETS:])
        write_bytes(folder / DIGESTS, f"{pretty(kept)}\n".encode(), 0o600)


def _key(home: Path, name: str) -> str:
    return os.path.join(os.path.realpath(home), name)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _read(folder: Path) -> dict[str, str]:
    file = folder / DIGESTS
    try:
        if not (ours_alone(folder) and ours_alone(file)):
            return {}
        digests = parse_json(read_whole(file, MAX_BYTES))
    except (OSError, ValueError):
        return {}
    if not isinstance(digests, dict):
        return {}
    return {key: value for key, value in digests.items() if isinstance(value, str)}
