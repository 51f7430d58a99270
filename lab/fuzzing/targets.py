"""What a stranger's bytes can reach: every decoder and handler, as a function from bytes to a label
of what happened.

A target raises only if something is wrong. Seeds are valid inputs; `dress` makes a mutated input
acceptable again up to the point where it matters, by signing it or keeping it canonical.
"""

import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any

import msgspec

from lab.benchmarks import network
from lab.fuzzing.mutation import mutate_json
from lab.vectors.forms import load
from lab.vectors.keys import sealed
from lab.vectors.reading import read
from protocol import codec, limits, wire
from protocol.addressing import question_seed
from protocol.card import Refusal, Signed, go_on, network_id
from protocol.identity import Identity
from protocol.messages import Announcement, Episode, Question, Rejected, RolloutGroup, Round
from protocol.versions import CURRENT
from swarm_node.common import channel
from swarm_node.environments.episodes.source import begin
from swarm_node.environments.reasoning_gym.scorers.scorers import SCORERS, score
from swarm_node.network import varint
from swarm_node.network.actions import Action, CallPeer, Cards, Deliver, Remembered
from swarm_node.network.backend import Caller
from swarm_node.network.exchange.exchange import Exchange
from swarm_node.network.process import messages
from swarm_node.network.transport import multiaddr, relays
from swarm_node.rollouts.groups import Group
from swarm_node.scoring import children, client, contract, playing
from swarm_node.scoring.bound import answer_of
from swarm_node.scoring.contract import BrokenFrame, Reader, Replay, Turn, encode
from swarm_node.settings import NetworkConfig

SWARM = "fuzz"
PEERS = [Identity.from_seed_bytes(bytes([number]) * 32) for number in range(1, 41)]
US, AUTHOR = PEERS[0], PEERS[1]
LONGEST_SEED = 4096  # bytes
NO_DECODERS = ("message", "held-out-text", "environment-digest", "transcript")
SIGNED = {
    "rollout-group": "rollout-group",
    "announcement": "announcement",
    "signature": "rollout-group",
}

Dress = Callable[[Random, bytes], bytes]


@dataclass(frozen=True, slots=True)
class Target:
    seeds: Sequence[bytes]
    run: Callable[[bytes], str]
    dress: Dress = lambda rng, data: data


def targets() -> dict[str, Target]:
    envelope = codec.seal(_group(), AUTHOR, SWARM)
    items = wire.encode_items(
        [
            wire.CarriedAnnouncement(5, _announcement(AUTHOR, 3)),
            wire.CarriedAnnouncement(900, _announcement(PEERS[2], 8)),
        ]
    )
    addresses = [
        "/ip4/1.2.3.4/tcp/31330",
        "/ip6/2001:db8::1/udp/9/quic-v1",
        f"/dns/a.example/tcp/1/p2p/{US.peer_id}",
    ]
    handlers = Handlers()
    return decoders() | {
        "address": Target([text.encode() for text in addresses], _address_text),
        "binary address": Target([multiaddr.to_bytes(text) for text in addresses], _address_bytes),
        "relay message": Target([bytes.fromhex("0864120a0804120404010203041800")], _relay_message),
        "frame of the network process": Target(_process_frames(), _process_frame),
        "what a restart remembers": Target([_remembered()], _restore, _canonical),
        "reply of the scoring process": Target(
            [encode([1.0, 0.0]), encode({"skipped": "x"}), encode("text")], _scoring_frame
        ),
        "bytes of a scoring child": Target([children.SCORE.pack(1.0) * 2], _child_bytes),
        "episodes of a scoring child": Target([_played()], _child_episodes),
        "episodes of the scoring process": Target(
            [encode({"played": playing.read(_played(), _TURNS)})], _episodes_frame, _canonical_frame
        ),
        "answer": Target(
            [b"1/2", b"<answer>[1, 2]</answer>", b"2*x**3 - (x + 1)/7", b"3 - 4i"], _answer
        ),
        "cards of a peer": Target([wire.encode_cards(CHAIN[1:])], _cards, _with_another_card),
        "request, as handled": Target(handlers.requests(), handlers.request, handlers.dress),
        "reply, as handled": Target(
            [items, wire.encode_groups([envelope])], handlers.reply, handlers.dress_reply
        ),
    }


def decoders() -> dict[str, Target]:
    """The decoders of `protocol`. Seeds: the vectors that they accept; of signed messages, those
    that ANN signed.
    """
    seeds: dict[str, list[bytes]] = {}
    fields: dict[str, dict[str, Any]] = {}
    for _, group, test, data in load():
        kind = group["type"]
        told = fields.setdefault(kind, {**group, **test, "tests": ()})
        usual = kind not in (*NO_DECODERS, *SIGNED) or (
            kind in SIGNED and data == _signed(data, kind)
        )
        short = 0 < len(data) <= LONGEST_SEED
        if usual and short and test["result"] == "valid" and _label(read(data, told)) == "ok":
            seeds.setdefault(kind, []).append(data)
    return {kind: _decoder(seeds[kind], fields[kind]) for kind in seeds}


def _decoder(seeds: Sequence[bytes], fields: Mapping[str, Any]) -> Target:
    kind, signed = fields["type"], set[bytes]().union(*map(_certificates, seeds))

    def run(data: bytes) -> str:
        value = read(data, fields)
        assert isinstance(value, Rejected) or kind not in SIGNED or data == _signed(data, kind), (
            "nobody signed this"
        )
        assert kind != "card" or isinstance(value, Refusal) or data in seeds, (
            "no signer signed this"
        )
        assert kind != "member" or isinstance(value, StrEnum) or _certificates(data) <= signed, (
            "no issuer signed this"
        )
        return _label(value)

    def dress(rng: Random, data: bytes) -> bytes:
        """In half of the cases makes only the content wrong: a signature is right, and the form is
        canonical.
        """
        if rng.random() < 0.5 or kind not in {*SIGNED, "hello", "payload"}:
            return data
        if kind in SIGNED:
            return sealed(mutate_json(rng, codec.split(data)[1]), SIGNED[kind])
        return mutate_json(rng, data)

    return Target(seeds, run, dress)


def _certificates(proof: bytes) -> set[bytes]:
    return {proof[at : at + 100] for at in range(32, len(proof), 100)}


def _signed(data: bytes, kind: str) -> bytes:
    """The message with the one signature that its author ANN makes."""
    return sealed(codec.split(data)[1], SIGNED[kind])


def _group(index: int = 0, author: Identity = AUTHOR) -> RolloutGroup:
    address = {
        "environment": "reasoning_gym",
        "version": "0.1.25",
        "dataset": "gcd",
        "config_id": "easy",
    }
    question = Question(
        **address, digest="A" * 11, seed=question_seed(SWARM, author.peer_id, Round(7)), index=index
    )
    answers = (Episode.of(text="4", ended=True), Episode.of(text='é"\\\n', ended=False))
    return Group.of_text(author.peer_id, Round(7), question, answers).message()


def _announcement(author: Identity, seq: int) -> bytes:
    keys = [
        codec.to_text(codec.content_hash(codec.encode(_group(index, author)))) for index in range(3)
    ]
    value = Announcement(
        addresses=("/ip4/8.8.4.4/tcp/31330",),
        author=author.peer_id,
        groups=tuple(keys),
        held=("AAAAAAAAAAA",),
        round=7,
        seq=seq,
    )
    return codec.seal(value, author, SWARM)


CHAIN = network.cards(3)
FIRST_CARD = Signed.model_validate_json(CHAIN[0]).card


def _cards(data: bytes) -> str:
    cards = wire.decode_cards(data)
    if isinstance(cards, Rejected):
        return _label(cards)
    found = go_on(FIRST_CARD, cards)
    assert isinstance(found, Refusal) or cards == CHAIN[1 : 1 + len(cards)], "nobody signed this"
    return _label(found)


def _with_another_card(rng: Random, data: bytes) -> bytes:
    return data if rng.random() < 0.5 else wire.encode_cards([mutate_json(rng, CHAIN[1]), CHAIN[2]])


def _canonical(rng: Random, data: bytes) -> bytes:
    return mutate_json(rng, data) if rng.random() < 0.5 else data


def _label(value: object) -> str:
    return str(getattr(value, "reason", value)) if isinstance(value, Rejected | StrEnum) else "ok"


def _address_text(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    try:
        binary = multiaddr.to_bytes(text)
        assert multiaddr.to_bytes(multiaddr.from_bytes(binary)) == binary
        multiaddr.usefulness(text)
        relays.may_relay(text)
    except ValueError:
        return "no address"
    return "ok"


def _address_bytes(data: bytes) -> str:
    try:
        assert len(multiaddr.from_bytes(data)) <= 12 * len(data) + 1
    except ValueError:
        return "no address"
    return "ok"


def _relay_message(data: bytes) -> str:
    found = varint.fields(data[: relays._MAX_ANSWER])
    return f"{len(found)} fields" if len(found) < 5 else "many"


def _process_frames() -> list[bytes]:
    frames: list[messages.FromNetwork] = [
        Deliver(codec.encode(_group()), US.peer_id),
        messages.Memory(
            port=1, exchange=Remembered(seq=3, bans={US.peer_id: 0.5}), peers={US.peer_id: ("/x",)}
        ),
        messages.NetworkSnapshot(view={"peers": [{"addresses": ["/x"], "round": None}]}),
    ]
    return [messages.NETWORK.up.encode(frame) for frame in frames]


def _process_frame(data: bytes) -> str:
    frames, (head, body) = messages.NETWORK.up, (data[:4], data[4:])
    try:
        return type(frames.decode(body[: frames.size(head)])).__name__
    except channel.BrokenFrame:
        return "broken"


def _remembered() -> bytes:
    seen = codec.to_text(bytes(32))
    bans = f'"bans":{{"{US.peer_id}":3.5}}'
    received = f'"received":{{"{US.peer_id}":[3,1.5]}}'
    text = f'{{{bans},{received},"seen":["{seen}"],"seq":7}}'
    return text.encode()


def _restore(data: bytes) -> str:
    try:
        msgspec.json.decode(data, type=Remembered)
    except (ValueError, RecursionError):
        return "refused"
    return "ok"


def _scoring_frame(data: bytes) -> str:
    """Reads frames as a client that waits for the scores of two answers."""
    stream = io.BytesIO(data)
    reader = Reader(stream.read)
    try:
        while (frame := reader.read()) is not None:
            reply = client._checked(frame, ("gcd", "easy", 1, 0, ("1", "2")))
            if isinstance(reply, tuple):
                assert len(reply) == 2 and all(0.0 <= score <= 1.0 for score in reply)
    except BrokenFrame:
        return "broken"
    return "read"


def _child_bytes(data: bytes) -> str:
    whole = data[: len(data) // children.SCORE.size * children.SCORE.size]
    verdict = children.verdict([value for (value,) in children.SCORE.iter_unpack(whole)])
    assert isinstance(verdict, str) or all(
        math.isfinite(score) and 0 <= score <= 1 for score in verdict
    )
    return verdict if isinstance(verdict, str) else "scores"


_TURNS = ((Turn("100"), Turn("", (contract.Call("calculate", "{}"),) * 2), Turn("1")), (Turn("é"),))


def _played() -> bytes:
    """What an honest child writes for these turns."""
    return playing.play(begin("bisect", "hard", 1, 0), _TURNS)


def _child_episodes(data: bytes) -> str:
    try:
        played = playing.read(data, _TURNS)
    except ValueError:
        return "broken"
    return played if isinstance(played, str) else _sound(played)


def _episodes_frame(data: bytes) -> str:
    try:
        frame = Reader(io.BytesIO(data).read).read()
        reply = client._checked(frame, ("bisect", "hard", 1, 0, _TURNS))
    except BrokenFrame:
        return "broken"
    return _sound(reply) if isinstance(reply, list) else "skipped"


def _sound(played: Sequence[Replay | object]) -> str:
    """Asserts that observations are text, not too long, and right in number. Returns the label."""
    assert len(played) == len(_TURNS)
    for turns, each in zip(_TURNS, played, strict=True):
        if isinstance(each, Replay):
            said = "".join(text for turn in each.observations for text in turn).encode().decode()
            assert len(each.observations) == len(turns) and 0.0 <= each.score <= 1.0
            assert len(said) <= contract.MAX_OBSERVED_CHARS
    return "read"


def _canonical_frame(rng: Random, data: bytes) -> bytes:
    """In half of the cases makes only the content wrong, in a right frame."""
    body = mutate_json(rng, data[4:])
    return data if rng.random() < 0.5 else len(body).to_bytes(4) + body


_METADATA = {
    "result": [3, 4], "numbers": [2, 3, 5], "target": 11, "numerator": 6, "denominator": 8,
    "simplified_numerator": 3, "simplified_denominator": 4, "valid_answers": ["_ Q"],
    "variables": ["x"], "variable": "x", "integrand": "3*x**2",
}  # fmt: skip
ENTRY = {"answer": "3 × 5", "metadata": _METADATA}
_KEYS = {
    "number_sorting": "['1.0', '2.5']",
    "coin_flip": "0.125",
    "polynomial_multiplication": "x**2 - 1",
}


def _answer(data: bytes) -> str:
    """Scores a text by one of our scorers, chosen by the length of the input."""
    text = data.decode("utf-8", "surrogateescape")[: limits.MAX_EPISODE_CHARS]
    name = _NAMES[len(data) % len(_NAMES)]
    scored = score(SCORERS[name], answer_of(text), {**ENTRY, "answer": _KEYS.get(name, "3 × 5")})
    assert 0.0 <= scored <= 1.0
    return f"{name} {scored:.0f}"


_NAMES = sorted(SCORERS)


class Handlers:
    """One node that forty strangers ask and answer for as long as the run lasts, so that a growth
    of what it keeps of them shows.
    """

    def __init__(self) -> None:
        self._now = 1000.0
        self._node = self._exchange(US, 0)
        self._other = self._exchange(AUTHOR, 1)
        self._calls: list[CallPeer] = []
        self._callers = [
            Caller(peer.peer_id, f"/ip4/20.{k}.7.9/tcp/{k + 1}") for k, peer in enumerate(PEERS)
        ]
        self._turn = 0

    def requests(self) -> list[bytes]:
        """Valid requests. The first byte chooses the protocol."""
        tag = wire.swarm_tag(SWARM)
        exchange = [
            wire.encode_exchange(wire.ExchangeRequest(tag, 9, {}, announced))
            for announced in (b"", _announcement(AUTHOR, 5))
        ]
        key = codec.content_hash(codec.encode(_group(0, US)))
        return [b"\x00" + each for each in exchange] + [
            b"\x01" + wire.encode_pull(tag, [key, bytes(32)]),
            b"\x02" + wire.encode_hello(SWARM),
            b"\x03" + wire.encode_card_request(network_id(FIRST_CARD), 7),
        ]

    def dress(self, rng: Random, data: bytes) -> bytes:
        """The data, or an announcement of the next caller with its content changed and its
        signature right.
        """
        if rng.random() < 0.6 or not data:
            return data
        caller = PEERS[(self._turn + 1) % len(PEERS)]  # the next caller
        payload = mutate_json(rng, codec.split(_announcement(caller, self._turn))[1])
        sealed = caller.sign(CURRENT.domain("announcement", SWARM), payload) + payload
        return b"\x00" + wire.encode_exchange(
            wire.ExchangeRequest(wire.swarm_tag(SWARM), 9, {}, sealed)
        )

    def request(self, data: bytes) -> str:
        self._now += 0.3
        protocol = (wire.EXCHANGE, wire.PULL, wire.HELLO, wire.CARD, wire.ENTER)[
            data[0] % 5 if data else 0
        ]
        self._turn += 1
        caller = self._callers[self._turn % len(self._callers)]
        reply = self._node.answer(caller, protocol, data[1:], self._now)
        self._take(self._node.tick(self._now))
        return f"{wire.NAMES[protocol]} {'answered' if reply else 'refused'}"

    def dress_reply(self, rng: Random, data: bytes) -> bytes:
        """What an honest peer would say to the call under way, changed or not."""
        call = self._next_call()
        if call is None or rng.random() < 0.5:
            return data
        reply = self._other.answer(
            Caller(US.peer_id, "/ip4/9.9.9.9/tcp/1"), call.protocol, call.request, self._now
        )
        if reply and rng.random() < 0.5:
            place = rng.randrange(len(reply))
            reply = (
                reply[:place] + bytes([reply[place] ^ 1 << rng.randrange(8)]) + reply[place + 1 :]
            )
        return reply or data

    def reply(self, data: bytes) -> str:
        self._now += 0.5
        call = self._next_call()
        if call is None:
            return "nobody was asked"
        self._calls.remove(call)
        actions = self._node.replied(call.token, data, self._now)
        self._take(actions)
        taken = [card for action in actions if isinstance(action, Cards) for card in action.cards]
        assert taken == CHAIN[1 : 1 + len(taken)], "nobody signed this"
        return (
            f"{wire.NAMES[call.protocol]}: {sorted({type(action).__name__ for action in actions})}"
        )

    def _exchange(self, who: Identity, number: int) -> Exchange:
        exchange = Exchange(who, SWARM, NetworkConfig(), Random(number), self._now)
        exchange.go_by(CHAIN[: 1 + 2 * number], self._now)
        for peer in PEERS:
            exchange.learned(peer.peer_id, ["/ip4/20.1.7.9/tcp/1"])
        exchange.publish(
            [codec.seal(_group(index, who), who, SWARM) for index in range(3)],
            Round(7),
            4,
            self._now,
        )
        return exchange

    def _next_call(self) -> CallPeer | None:
        """The oldest open call of the node. Lets time and rounds pass until there is one; None if
        there is none.
        """
        for _ in range(20):
            if self._calls:
                return self._calls[0]
            self._now += 5.0
            self._take(self._node.tick(self._now))
            self._take(self._node.publish([], Round(int(self._now)), 4, self._now))
        return None

    def _take(self, actions: Sequence[Action]) -> None:
        self._calls = (
            [*self._calls, *(action for action in actions if isinstance(action, CallPeer))]
        )[-8:]
