"""What `protocol` makes of the input of a vector: the output that the file names, or the reason why it is refused.

Raises AssertionError where something is taken that would not be sent so, and whatever else is a mistake of ours.
"""

from collections.abc import Callable, Mapping
from typing import Any

from protocol import addressing, admission, announcing, codec, identity, limits, wire
from protocol.messages import Announcement, Hello, Message, PeerId, Question, RolloutGroup, Round
from protocol.rejection import Reason, Rejected

Fields = Mapping[str, Any]
KINDS: Mapping[str, type[Message]] = {"rollout-group": RolloutGroup, "announcement": Announcement, "hello": Hello}


def read(data: bytes, fields: Fields) -> Any:
    """`fields` are those of the test and of its group."""
    return READERS[fields["type"]](data, fields)


def _peer_id(data: bytes, fields: Fields) -> Any:
    text = data.decode()
    try:
        public = identity.public_key(PeerId(text))
    except ValueError:
        return Rejected(Reason.BAD_AUTHOR)
    assert identity.peer_id(public) == text
    return public.hex()


def _or_malformed(make: Callable[[bytes, Fields], Any]) -> Callable[[bytes, Fields], Any]:
    """What raises ValueError, because it is a user's mistake and not a peer's."""

    def run(data: bytes, fields: Fields) -> Any:
        try:
            return make(data, fields)
        except ValueError:
            return Rejected(Reason.MALFORMED)

    return run


def _swarm_name(data: bytes, fields: Fields) -> str:
    name = data.decode()
    admission.AdmissionRules(name, PeerId(""), knows=lambda question: True)
    return wire.swarm_tag(name).hex()


def _signature(data: bytes, fields: Fields) -> Any:
    signature, message = codec.split(data)
    bound = identity.domain(fields["kind"], fields["swarm"])
    try:
        genuine = identity.verify(PeerId(fields["author"]), bound, message, signature)
    except ValueError:
        return Rejected(Reason.BAD_AUTHOR)
    return None if genuine else Rejected(Reason.BAD_SIGNATURE)


def _payload(data: bytes, fields: Fields) -> Any:
    message = codec.decode(data, KINDS[fields["kind"]])
    if isinstance(message, Rejected):
        return message
    assert codec.encode(message) == data
    return codec.content_hash(data).hex()


def _group(data: bytes, fields: Fields) -> Any:
    def knows(question: Question) -> bool:
        asked = question.model_dump()
        return any(task.items() <= asked.items() for task in fields["known"])

    narrower = {"max_completions": "maxCompletions", "max_completion_chars": "maxCompletionChars"}
    given = {name: fields[spelt] for name, spelt in narrower.items() if spelt in fields}
    rules = admission.AdmissionRules(fields["swarm"], fields["receiver"], knows, **given)
    group = admission.admit(data, rules)
    if isinstance(group, Rejected):
        return group
    assert codec.encode(group) == data[limits.SIGNATURE_BYTES :]
    return codec.content_hash(codec.encode(group)).hex()


def _announcement(data: bytes, fields: Fields) -> Any:
    announcement = announcing.peek(data)
    if isinstance(announcement, Rejected):
        return announcement
    assert codec.encode(announcement) == data[limits.SIGNATURE_BYTES :]
    objection = announcing.objection(data, announcement, fields["swarm"])
    return Rejected(objection) if objection else codec.content_hash(codec.encode(announcement)).hex()


def _exchange_request(data: bytes, fields: Fields) -> Any:
    request = wire.decode_exchange(data)
    if isinstance(request, Rejected):
        return request
    again = wire.encode_exchange(request)
    assert again == data or len(again) < len(data)  # a peer was named twice
    digest = {tag.hex(): seq for tag, seq in request.digest.items()}
    announced = request.announcement.hex()
    return {"tag": request.tag.hex(), "limit": request.limit, "digest": digest, "announcement": announced}


def _exchange_reply(data: bytes, fields: Fields) -> Any:
    items = wire.decode_items(data)
    if isinstance(items, Rejected):
        return items
    assert wire.encode_items(items) == data
    return [{"age": item.age, "sealed": item.sealed.hex()} for item in items]


def _pull_request(data: bytes, fields: Fields) -> Any:
    request = wire.decode_pull(data)
    if isinstance(request, Rejected):
        return request
    assert wire.encode_pull(*request) == data
    return {"tag": request[0].hex(), "hashes": [key.hex() for key in request[1]]}


def _pull_reply(data: bytes, fields: Fields) -> Any:
    envelopes = wire.decode_groups(data, fields["count"])
    if isinstance(envelopes, Rejected):
        return envelopes
    assert wire.encode_groups(envelopes) == data
    return [envelope.hex() for envelope in envelopes]


def _hello(data: bytes, fields: Fields) -> Any:
    hello = wire.decode_hello(data)
    if isinstance(hello, Rejected):
        return hello
    assert codec.encode(hello) == data
    return hello.model_dump(mode="json")


def _punch(data: bytes, fields: Fields) -> Any:
    endpoints = wire.decode_punch(data)
    if isinstance(endpoints, Rejected):
        return endpoints
    assert wire.encode_punch(endpoints) == data
    return [{"ip": str(each.ip), "port": each.port} for each in endpoints]


READERS: Mapping[str, Callable[[bytes, Fields], Any]] = {
    "announcement": _announcement,
    "exchange-reply": _exchange_reply,
    "exchange-request": _exchange_request,
    "held-out-seed": lambda data, fields: addressing.is_held_out(fields["seed"]),
    "held-out-text": lambda data, fields: addressing.is_held_out_text(data.decode()),
    "hello": _hello,
    "key-file": _or_malformed(lambda data, fields: identity.Identity.from_key_bytes(data).peer_id),
    "payload": _payload,
    "peer-id": _peer_id,
    "public-key": _or_malformed(lambda data, fields: identity.peer_id(data)),
    "pull-reply": _pull_reply,
    "pull-request": _pull_request,
    "punch": _punch,
    "question-seed": lambda data, fields: addressing.question_seed(PeerId(fields["author"]), Round(fields["round"])),
    "rollout-group": _group,
    "signature": _signature,
    "swarm-name": _or_malformed(_swarm_name),
}
