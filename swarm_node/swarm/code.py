"""The code of an invitation: `swarm:` and, in base64url, a byte for its kind, a body, and a
checksum.

A code is pasted from anywhere, so it is hostile until it is admitted. `decode` checks each field by
the rule of the option that the field becomes, and admits only the one spelling that `encode` gives.
"""

import base64
import hashlib
from typing import Annotated

import msgspec
from msgspec import Meta

from protocol.identity import Identity, peer_id, public_key
from protocol.member import certify
from swarm_node.common.errors import UserError
from swarm_node.network.transport.backends import check_addresses
from swarm_node.network.transport.multiaddr import from_bytes, split_peer, to_bytes
from swarm_node.settings import NetworkConfig

PREFIX = "swarm:"
# Newer kinds end at the last; other first bytes mean no code
KIND, WITH_CARD, WITH_KEY, LAST_KIND = 1, 2, 3, 31
MAX_CHARS = 4096
MAX_ADDRESSES = 3
NAME = r"[A-Za-z0-9._+-]{1,64}"

Name = Annotated[str, Meta(pattern=rf"\A{NAME}\Z")]  # as protocol.messages.Name
Task = Annotated[str, Meta(pattern=rf"\A{NAME}/{NAME}\Z")]
FileName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_ .+:/-]{0,80}\Z")]


class RequiredEnvironment(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a node asks of one environment."""

    environment: Name
    version: Name  # for a file of questions, its digest
    tasks: Annotated[tuple[Task, ...], Meta(min_length=1, max_length=128)]
    file: FileName = ""  # name that the inviter has for the file of the questions


class Invitation(msgspec.Struct, frozen=True):
    """Where others are, and what they do together."""

    addresses: tuple[str, ...]  # full multiaddrs
    swarm: str
    asked: tuple[RequiredEnvironment, ...] = ()
    at_once: int = 0  # as environment.at_once
    network: str = ""  # id, for a swarm that has a card: the card says the rest
    number: int = 0  # of the newest card that the inviter knows
    digest: bytes = b""  # SHA-256 of what is signed of that card
    seed: bytes = b""  # for a private swarm: of the code's own key
    proof: bytes = b""  # that this key lets newcomers in, see protocol/member.py

    def proves(self, newcomer: Identity) -> bytes:
        """The proof that the newcomer is a member, signed by the key of the code; b"" for an open
        swarm.
        """
        own = Identity.from_seed_bytes(self.seed or bytes(32))
        ends = int.from_bytes(self.proof[-100:-96])
        return self.proof and certify(self.proof, own, newcomer.peer_id, ends, self.network)


class _Body(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    # B"": the key before
    doors: Annotated[list[tuple[bytes, bytes]], Meta(min_length=1, max_length=MAX_ADDRESSES)]
    swarm: Name
    asked: Annotated[tuple[RequiredEnvironment, ...], Meta(max_length=16)]
    at_once: Annotated[int, Meta(ge=0, le=1024)]


class _WithCard(_Body, array_like=True, forbid_unknown_fields=True):
    network: Annotated[str, Meta(pattern=r"\A[a-z2-7]{26}\Z")]
    number: Annotated[int, Meta(ge=1, le=1024)]
    digest: Annotated[bytes, Meta(min_length=32, max_length=32)]


class _WithKey(_WithCard, array_like=True, forbid_unknown_fields=True):
    seed: Annotated[bytes, Meta(min_length=32, max_length=32)]
    proof: Annotated[bytes, Meta(min_length=132, max_length=332)]


KINDS: dict[int, type[_Body]] = {KIND: _Body, WITH_CARD: _WithCard, WITH_KEY: _WithKey}


def encode(invitation: Invitation) -> str:
    """The code. ValueError, which UserError is not, for what `decode` would not admit."""
    doors, before = [], b""
    for address in invitation.addresses:
        where, peer = split_peer(address)
        key = public_key(peer)
        doors.append((b"" if key == before else key, to_bytes(where)))
        before = key
    number = KIND
    if invitation.network:
        number = WITH_CARD
    if invitation.proof:
        number = WITH_KEY
    kind, values = KINDS[number], msgspec.structs.astuple(invitation)[1:]
    fields = values[: len(kind.__struct_fields__) - 1]
    body = msgspec.msgpack.encode(kind(doors, *fields))
    msgspec.msgpack.decode(body, type=kind)
    data = bytes([number]) + body
    text = PREFIX + base64.urlsafe_b64encode(data + _checksum(data)).decode().rstrip("=")
    if len(text) > MAX_CHARS:
        raise ValueError(f"a code of {len(text)} characters, more than {MAX_CHARS}")
    return text


def decode(text: str) -> Invitation:
    """What the code says. UserError, one line, for anything else; it repeats nothing of the
    text.
    """
    # Mail and chat programs break lines
    text = "".join(text[: 2 * MAX_CHARS].split()).removeprefix(PREFIX)
    try:
        padded = text + "=" * (-len(text) % 4)
        data = base64.b64decode(padded, altchars=b"-_", validate=True)
    except ValueError:
        data = b""
    if not data or len(text) > MAX_CHARS or not KIND <= data[0] <= LAST_KIND:
        raise UserError(
            "this is not an invitation: give the code that `swarm-node invite` printed, which "
            "begins "
            "swarm:"
        )
    if data[0] not in KINDS:
        raise UserError("this invitation was made by a newer swarm-node: upgrade")
    if data[-4:] != _checksum(data[:-4]):
        raise UserError("this invitation is mistyped or cut off: copy the whole code again")
    try:
        read, addresses, key = msgspec.msgpack.decode(data[1:-4], type=KINDS[data[0]]), [], b""
        for own, where in read.doors:
            key = own or key
            addresses.append(f"{from_bytes(where)}/p2p/{peer_id(key)}")
        check_addresses(NetworkConfig(peers=tuple(addresses)))
        found = Invitation(tuple(addresses), *msgspec.structs.astuple(read)[1:])
        if encode(found) != PREFIX + text:
            raise ValueError("another spelling")
    except (ValueError, RecursionError, UserError) as error:
        raise UserError(
            "this invitation is not as swarm-node writes it: do not trust it, ask for another"
        ) from error
    return found


def _checksum(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:4]
