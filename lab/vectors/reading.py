"""Reads the input of a vector with `protocol`: gives an output, or the reason why `protocol`
refuses the input.

    python -m lab.vectors.reading        # ends with 1 at the first vector that is read otherwise

Raises AssertionError if `protocol` takes bytes that it would not send so. Any other exception is a
mistake, too.
"""

import json
import sys
from collections.abc import Callable, Mapping
from ipaddress import ip_network
from time import process_time
from typing import Any

from pydantic import ValidationError

from lab.vectors.forms import load
from protocol import addressing, admission, card, codec, identity, limits, member, wire
from protocol.messages import (
    Announcement,
    Hello,
    Message,
    PeerId,
    Question,
    Reason,
    Rejected,
    RolloutGroup,
    Round,
)
from protocol.versions import CURRENT
from swarm_node.network.transport.backends import make_gate
from swarm_node.network.transport.gate import DialGate
from swarm_node.settings import NetworkConfig

Fields = Mapping[str, Any]
KINDS: Mapping[str, type[Message]] = {
    "rollout-group": RolloutGroup,
    "announcement": Announcement,
    "hello": Hello,
}
SECONDS = 1.0  # of CPU, for any input


def read(data: bytes, fields: Fields) -> Any:
    """`fields` are those of the test and of its group."""
    if fields["type"] not in FRAMES:
        return READERS[fields["type"]](data, fields)
    decode, encode, output = FRAMES[fields["type"]]
    value = decode(data, fields["count"]) if "count" in fields else decode(data)
    if isinstance(value, Rejected):
        return value
    again = encode(value)
    # It named a peer twice
    assert again == data or (fields["type"] == "exchange-request" and len(again) < len(data))
    return output(value)


def as_told(data: bytes, fields: Fields) -> bool:
    """Whether the input is read as the test says, and soon."""
    began = process_time()
    found = read(data, fields)
    if process_time() - began > SECONDS:
        return False
    if isinstance(found, Rejected | card.Refusal | member.ProofFault):
        return (
            fields["result"] == "invalid" and getattr(found, "reason", found) in fields["reasons"]
        )
    return fields["result"] == "valid" and bool(found == fields.get("output", found))


FRAMES: Mapping[str, tuple[Callable[..., Any], Callable[[Any], bytes], Callable[[Any], Any]]] = {
    "exchange-request": (
        wire.decode_exchange,
        wire.encode_exchange,
        lambda request: {
            "tag": request.tag.hex(),
            "limit": request.limit,
            "digest": {tag.hex(): seq for tag, seq in request.digest.items()},
            "announcement": request.announcement.hex(),
        },
    ),
    "exchange-reply": (
        wire.decode_items,
        wire.encode_items,
        lambda items: [{"age": item.age, "sealed": item.sealed.hex()} for item in items],
    ),
    "pull-request": (
        wire.decode_pull,
        lambda request: wire.encode_pull(*request),
        lambda request: {"tag": request[0].hex(), "hashes": [key.hex() for key in request[1]]},
    ),
    "pull-reply": (
        wire.decode_groups,
        wire.encode_groups,
        lambda envelopes: [each.hex() for each in envelopes],
    ),
    "card-request": (
        wire.decode_card_request,
        lambda asked: wire.encode_card_request(*asked),
        lambda asked: {"network": asked[0], "number": asked[1]},
    ),
    "card-reply": (
        wire.decode_cards,
        wire.encode_cards,
        lambda cards: [each.hex() for each in cards],
    ),
    "hello": (wire.decode_hello, codec.encode, lambda hello: hello.model_dump(mode="json")),
    "punch": (
        wire.decode_punch,
        wire.encode_punch,
        lambda endpoints: [{"ip": each.ip.packed.hex(), "port": each.port} for each in endpoints],
    ),
}


def _or(reason: Reason, make: Callable[[bytes, Fields], Any]) -> Callable[[bytes, Fields], Any]:
    """`make`, with `reason` in place of a ValueError, which `protocol` raises for a user's mistake,
    not a peer's.
    """

    def run(data: bytes, fields: Fields) -> Any:
        try:
            return make(data, fields)
        except ValueError:
            return Rejected(reason)

    return run


def _peer_id(data: bytes, fields: Fields) -> str:
    public = identity.public_key(PeerId(data.decode()))
    assert identity.peer_id(public) == data.decode()
    return public.hex()


def _swarm_name(data: bytes, fields: Fields) -> str:
    admission.AdmissionRules(data.decode(), PeerId(""), knows=lambda question: True)
    return wire.swarm_tag(data.decode()).hex()


def _signature(data: bytes, fields: Fields) -> Rejected | None:
    signature, message = codec.split(data)
    bound = CURRENT.domain(fields["kind"], fields["swarm"])
    genuine = identity.verify(PeerId(fields["author"]), bound, message, signature)
    return None if genuine else Rejected(Reason.BAD_SIGNATURE)


def _hash(data: bytes, message: Message | Rejected) -> str | Rejected:
    """The content hash of a message, or the reason why it was rejected."""
    if isinstance(message, Rejected):
        return message
    assert codec.encode(message) == data
    return codec.content_hash(data).hex()


def _group(data: bytes, fields: Fields) -> str | Rejected:
    def tasks(question: Question) -> list[dict[str, str]]:
        asked = question.model_dump()
        return [
            task
            for task in fields["known"]
            if {**task, "digest": question.digest}.items() <= asked.items()
        ]

    def differs(question: Question) -> bool:
        return any(
            task.get("digest", question.digest) != question.digest for task in tasks(question)
        )

    narrower = {"max_episodes": "maxEpisodes", "max_episode_chars": "maxEpisodeChars"}
    given = {name: fields[spelt] for name, spelt in narrower.items() if spelt in fields}
    rules = admission.AdmissionRules(
        fields["swarm"], fields["receiver"], lambda asked: bool(tasks(asked)), differs, **given
    )
    return _hash(data[limits.SIGNATURE_BYTES :], admission.admit(data, rules))


def _announcement(data: bytes, fields: Fields) -> str | Rejected:
    message = codec.peek(data, Announcement)
    objection = (
        None if isinstance(message, Rejected) else codec.objection(data, message, fields["swarm"])
    )
    return _hash(data[limits.SIGNATURE_BYTES :], Rejected(objection) if objection else message)


def _card(data: bytes, fields: Fields) -> str | card.Refusal:
    chain = data.split(b"\n") if data else []
    newest = (
        card.Card.model_validate_json(bytes.fromhex(fields["newest"]))
        if "newest" in fields
        else None
    )
    found = card.follow(chain, fields["network"], fields["now"], newest)
    return (
        found if isinstance(found, card.Refusal) else codec.content_hash(codec.encode(found)).hex()
    )


def _made(data: bytes, fields: Fields) -> str | Rejected:
    """Hash of a message made of objects, as a node makes it: a Python text can hold half of a
    surrogate pair.
    """
    try:
        message = KINDS[fields["kind"]].model_validate(json.loads(data), strict=False)
    except ValidationError:
        return Rejected(Reason.MALFORMED)
    return codec.content_hash(codec.encode(message)).hex()


def _dials(data: bytes, fields: Fields) -> list[bool]:
    """Whether the gate of such a node lets each dial pass, one after another."""
    config = NetworkConfig(host=fields["listens"], peers=tuple(fields["given"]))
    networks = [ip_network(network, strict=False) for network in fields["networks"]]
    gate = make_gate(config, interfaces=lambda: networks)
    return [_dialled(gate, step) for step in fields["steps"]]


def _dialled(gate: DialGate, step: Fields) -> bool:
    address, now = step["address"], float(step["at"])
    if address.startswith("/dns") and not gate.where.is_given(address):
        return gate.may_look_up(now)
    choice = gate.choose([address], now)
    if choice.addresses and step["then"] == "fails":
        gate.failed(choice, now)
    if choice.addresses and step["then"] == "answers":
        gate.reached(choice, [step.get("where", address)], now)
    return bool(choice.addresses)


READERS: Mapping[str, Callable[[bytes, Fields], Any]] = {
    "announcement": _announcement,
    "card": _card,
    "dials": _dials,
    "environment-digest": lambda data, fields: codec.environment_digest(
        json.loads(data), fields["salt"]
    ),
    "held-out-seed": lambda data, fields: addressing.is_held_out(fields["seed"]),
    "held-out-text": lambda data, fields: addressing.is_held_out_text(data.decode()),
    "key-file": _or(
        Reason.MALFORMED, lambda data, fields: identity.Identity.from_key_bytes(data).peer_id
    ),
    "member": lambda data, fields: member.judge(
        data,
        PeerId(fields["holder"]),
        card.Card.model_validate_json(bytes.fromhex(fields["card"])),
        fields["now"],
    ),
    "message": _or(Reason.TOO_BIG, _made),
    "payload": lambda data, fields: _hash(data, codec.decode(data, KINDS[fields["kind"]])),
    "peer-id": _or(Reason.BAD_AUTHOR, _peer_id),
    "public-key": _or(Reason.MALFORMED, lambda data, fields: identity.peer_id(data)),
    "fixed-seed": lambda data, fields: addressing.fixed_seed(
        PeerId(fields["author"]), Round(fields["round"])
    ),
    "question-seed": lambda data, fields: addressing.question_seed(
        fields["swarm"], PeerId(fields["author"]), Round(fields["round"])
    ),
    "rollout-group": _group,
    "signature": _or(Reason.BAD_AUTHOR, _signature),
    "transcript": lambda data, fields: codec.trace(*json.loads(data)),
    "swarm-name": _or(Reason.MALFORMED, _swarm_name),
}


if __name__ == "__main__":
    for file, group, test, data in load():
        if not as_told(data, {**group, **test}):
            sys.exit(f"{file} {test['tcId']}: {test['comment']}")
