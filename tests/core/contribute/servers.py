"""Servers and environments as contributors have them, one behaviour each, and what becomes of it.

Every server is a real one on loopback. Its words are those of the servers that it stands for, where
these are known.
"""

import gzip
import json
import socket
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.benchmarks.served import Handler, Respond, choices

Body = dict[str, Any]
Wrong = Callable[[Body], Any]

PUBLISHES = "publishes"  # every prompt has its completions, and nothing is said
ADAPTS = "adapts"  # the same, after a line; what was learnt is remembered
WAITS = "waits"  # the same, after pauses
LEAVES_OUT = "leaves out"  # the prompt, says why, and goes on
ENDS = "ends"  # with one line

MAIN = "m"  # the model's name
KEY = "sk-zq81-xw49-pv27"
TEXTS = "abcd"
SAMPLES = len(TEXTS)
USED = 40  # tokens, as `choices` reports them for an answer


@dataclass(frozen=True)
class Case:
    """A server, and what the contributor does."""

    respond: Respond
    does: str
    words: str = ""  # that are said: a regular expression
    refused: int = 0  # requests that the server refused before it was understood
    requests: int | None = None  # of two prompts
    tokens: int | None = None  # that are counted for them
    options: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    key: str = KEY
    texts: tuple[str, ...] = tuple(TEXTS)
    host: str = ""  # in place of the server's address
    hidden: str = ""  # a package that is not there
    path: str = "/v1"


def text_of(handler: Handler) -> str:
    """A text that differs from request to request."""
    return TEXTS[len(handler.server.asked) % SAMPLES]


def answers(handler: Handler, body: Body) -> None:
    """As the description of the API has it."""
    many = body.get("n", 1)
    handler.say(choices(*(TEXTS if many == SAMPLES else [text_of(handler)] * many)))


def refuses(status: int, message: Any, **more: Any) -> Respond:
    """Refuses everything, in OpenAI's form."""
    return lambda handler, _: handler.say({"error": {"message": message, **more}}, status)


def picky(wrong: Wrong, refusal: Respond, right: Respond = answers) -> Respond:
    """Refuses what is wrong for it, and answers the rest."""
    return lambda handler, body: (refusal if wrong(body) else right)(handler, body)


def says(*messages: Any, usage: Any = None, finish: Any = "stop") -> Respond:
    """Answers with these messages, or with texts."""
    made = [{"content": one} if isinstance(one, str) else one for one in messages]
    said = [{"message": message, "finish_reason": finish} for message in made]
    reported = {"total_tokens": USED} if usage is None else usage
    return lambda handler, _: handler.say({"choices": said, "usage": reported})


def counted(usage: Any) -> Respond:
    """Answers, and reports this usage."""
    return lambda handler, _: handler.say({**choices(*TEXTS), "usage": usage})


def first(bad: Respond, then: Respond = answers) -> Respond:
    """Does one thing at the first request, and another afterwards."""
    return lambda handler, body: (bad if len(handler.server.asked) == 1 else then)(handler, body)


def raw(content: bytes, status: int = 200, **headers: str) -> Respond:
    return lambda handler, _: handler.raw(content, status, **headers)


def events(*data: Any, done: bool = True, between: str = "\n\n") -> Respond:
    """Answers with a stream of events."""
    lines = [f"data: {json.dumps(one)}" for one in data] + ["data: [DONE]"] * done
    content = ": a comment" + between + between.join(lines) + between
    return raw(content.encode(), **{"Content-Type": "text/event-stream"})


def pieces(*texts: str, name: str = "delta", last: Any = "stop") -> list[Body]:
    """The events of completions that come in two pieces each."""
    made: list[Body] = []
    for index, text in enumerate(texts):
        for part, finish in ((text[:1], None), (text[1:], last)):
            choice = {"index": index, name: {"content": part}, "finish_reason": finish}
            made.append({"choices": [choice]})
    return made


COUNTED = {"choices": [], "usage": {"total_tokens": USED}}
STREAM = events(*pieces("a1", "b2", "c3", "d4"), COUNTED)
STREAMED = ("a1", "b2", "c3", "d4")


def streams(handler: Handler, body: Body) -> None:
    """Answers with a stream, which counts where it is asked to."""
    asked = body.get("stream_options", {}).get("include_usage")
    many = [COUNTED] if asked else []
    events(*pieces(*STREAMED), *many)(handler, body)


def chunked(handler: Handler, body: Body) -> None:
    handler.protocol_version = "HTTP/1.1"
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    content = json.dumps(choices(*TEXTS)).encode()
    for start in range(0, len(content), 7):
        part = content[start : start + 7]
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
    handler.wfile.write(b"0\r\n\r\n")
    handler.close_connection = True


def resets(handler: Handler, body: Body) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()


def hangs(handler: Handler, body: Body) -> None:
    handler.server.stopped.wait()


def cut_off(handler: Handler, body: Body) -> None:
    handler.raw(b'{"choices": [', **{"Content-Length": "5000"})


def packed(handler: Handler, body: Body) -> None:
    content = gzip.compress(json.dumps(choices(*TEXTS)).encode())
    handler.raw(content, **{"Content-Encoding": "gzip"})


def deflated(handler: Handler, body: Body) -> None:
    content = zlib.compress(json.dumps(choices(*TEXTS)).encode())
    handler.raw(content, **{"Content-Encoding": "deflate"})


def at_path(handler: Handler, body: Body) -> None:
    """Answers where the API is, and elsewhere as FastAPI does."""
    if handler.path == "/v1/chat/completions":
        answers(handler, body)
    else:
        handler.say({"detail": "Not Found"}, 404)


def detail(status: int, *where: Any, words: str) -> Respond:
    """Refuses in the form of FastAPI."""
    return lambda handler, _: handler.say({"detail": [{"loc": list(where), "msg": words}]}, status)


def think(before: str) -> tuple[str, ...]:
    return tuple(f"{before}{text}" for text in TEXTS)


def in_parts(*parts: Any) -> Respond:
    return says(*({"content": [*parts, {"type": "text", "text": text}]} for text in TEXTS))


def many(body: Body) -> bool:
    return bool(body.get("n", 1) > 1)


UNSUPPORTED = {"type": "invalid_request_error", "code": "unsupported_parameter"}
OLD_LENGTH = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. "
    "Use 'max_completion_tokens' instead."
)
SYSTEM = {"environment": {"system": "Be brief."}}
LONG = "This model's maximum context length is 128 tokens. However, you requested 600 tokens"
PAGE = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
WEB_UI = b"<!doctype html><html><title>Chat UI</title></html>"
REASONS = {"reasoning_content": "1 and 1 is 2"}
FOUR_TIMES = {"requests": 2 * SAMPLES, "tokens": 2 * SAMPLES * USED}
ONCE = {"requests": 2, "tokens": 2 * USED}
REFUSED_ONCE = {"refused": 1, "requests": 3, "tokens": 2 * USED}
SINGLE = {"refused": 1, "requests": 1 + 2 * SAMPLES, "tokens": 2 * SAMPLES * USED}
# Four texts of a letter and a prompt of 14: what was used is guessed by them
GUESSED = {"requests": 2, "tokens": 2 * (14 // 4 + 4 // 4)}
WITHOUT_STREAM = (
    "This model only support stream mode, please enable the stream parameter to access the model."
)

FORMS: dict[str, Case] = {
    "as described": Case(answers, PUBLISHES, **ONCE),
    "wants max_completion_tokens, as OpenAI": Case(
        picky(lambda b: "max_tokens" in b, refuses(400, OLD_LENGTH, param="max_tokens")),
        ADAPTS, "expects max_completion_tokens in place of max_tokens", **REFUSED_ONCE,
    ),
    "knows no max_tokens, with 422": Case(
        picky(
            lambda b: "max_tokens" in b,
            detail(422, "body", "max_tokens", words="Extra inputs are not permitted"),
        ),
        ADAPTS, "expects max_completion_tokens", **REFUSED_ONCE,
    ),
    "refuses max_tokens in an error with status 200": Case(
        picky(lambda b: "max_tokens" in b, refuses(200, OLD_LENGTH, code=400)),
        ADAPTS, "expects max_completion_tokens", **REFUSED_ONCE,
    ),
    "refuses both lengths": Case(
        refuses(400, "unsupported: max_tokens, max_completion_tokens"), ENDS,
        r"max_tokens, max_completion_tokens$",
        requests=2, tokens=0,
    ),
    "allows fewer tokens": Case(
        refuses(400, "max_tokens is too large: 512. This model supports at most 256"), ENDS,
        r"max_tokens is too large: 512.*lower --max-tokens \(512\)", requests=1, tokens=0,
    ),
    "refuses n > 1, as llama.cpp": Case(
        picky(many, refuses(500, "Only one completion choice is allowed")),
        ADAPTS, "makes one completion for each request", **SINGLE,
    ),
    "refuses n > 1, as Groq": Case(
        picky(many, refuses(400, "'n' : number must be at most 1")),
        ADAPTS, "makes one completion for each request", **SINGLE,
    ),
    "refuses n > 1, as FastAPI": Case(
        picky(
            many, detail(422, "body", "n", words="Input should be less than or equal to 1")
        ),
        ADAPTS, "makes one completion for each request", **SINGLE,
    ),
    "knows no n at all": Case(
        picky(lambda b: "n" in b, refuses(400, "Unrecognized request argument supplied: n")),
        ADAPTS, "makes one completion for each request", **SINGLE,
    ),
    "makes one choice, whatever n is": Case(
        lambda h, _: h.say(choices(text_of(h))), PUBLISHES, **FOUR_TIMES
    ),
    "makes more choices than n": Case(says(*"abcdefgh"), PUBLISHES, **ONCE),
    "streams alone": Case(
        picky(lambda b: not b["stream"], refuses(400, WITHOUT_STREAM), streams),
        ADAPTS, "answers only as a stream", texts=STREAMED, **REFUSED_ONCE,
    ),
    "streams alone, and knows no stream_options": Case(
        picky(
            lambda b: not b["stream"],
            refuses(400, "stream must be true"),
            picky(
                lambda b: "stream_options" in b,
                refuses(400, "Unknown field: stream_options"),
                streams,
            ),
        ),
        ADAPTS, "answers only as a stream.*refuses stream_options",
        texts=STREAMED, refused=2, requests=4, tokens=2 * (14 // 4 + 8 // 4),
    ),
    "streams unasked": Case(STREAM, PUBLISHES, texts=STREAMED, **ONCE),
    "streams with other line ends": Case(
        events(*pieces(*STREAMED), COUNTED, between="\r\n\r\n"), PUBLISHES,
        texts=STREAMED, **ONCE,
    ),
    "streams without [DONE]": Case(
        events(*pieces(*STREAMED), COUNTED, done=False), PUBLISHES, texts=STREAMED, **ONCE
    ),
    "streams as plain text": Case(
        raw(b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}\n\n'),
        PUBLISHES, texts=("a",) * SAMPLES, requests=8,
    ),
    "streams and breaks off": Case(
        events(*pieces(*STREAMED, last=None), done=False), LEAVES_OUT, "ends before it is done"
    ),
    "streams an error": Case(
        events({"error": {"message": "engine is dead", "code": 500}}), LEAVES_OUT,
        "status 500: engine is dead",
    ),
    "sends content in parts": Case(in_parts(), PUBLISHES, **ONCE),
    "sends content in parts, reasoning among them": Case(
        in_parts({"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}),
        PUBLISHES, **ONCE,
    ),
    "sends one part, no list": Case(
        says(*({"content": {"type": "text", "text": text}} for text in TEXTS)), PUBLISHES, **ONCE
    ),
    "wants content in parts": Case(
        picky(
            lambda b: isinstance(b["messages"][0]["content"], str),
            detail(422, "body", "messages", 0, "content", words="Input should be a valid list"),
        ),
        ADAPTS, "expects the content of a message in parts", **REFUSED_ONCE,
    ),
    "knows no system role": Case(
        picky(
            lambda b: b["messages"][0]["role"] == "system",
            refuses(400, "System role not supported"),
        ),
        ADAPTS, "has no system role", options=SYSTEM, **REFUSED_ONCE,
    ),
    "refuses temperature": Case(
        picky(
            lambda b: "temperature" in b,
            refuses(400, "Unsupported value: 'temperature' does not support 1 with this model."),
        ),
        ADAPTS, "refuses temperature: from now on it samples with its own", **REFUSED_ONCE,
    ),
    "allows lower temperatures": Case(
        refuses(400, "temperature must be less than or equal to 1"), ENDS,
        r"give another --temperature than 1\.5", options={"temperature": 1.5},
    ),
    "refuses stop": Case(
        picky(
            lambda b: "stop" in b,
            refuses(400, "Unsupported parameter: 'stop'", **UNSUPPORTED),
            says("a#1", "b#2", "c", "d"),
        ),
        ADAPTS, "refuses stop: from now on completions are cut", 
        options={"stop": ["#"]}, **REFUSED_ONCE,
    ),
    "knows no way to switch thinking off": Case(
        picky(
            lambda b: "chat_template_kwargs" in b,
            refuses(400, "property 'chat_template_kwargs' is unsupported"),
            picky(
                lambda b: "reasoning_effort" in b,
                refuses(400, "Unsupported value: 'reasoning_effort' does not support 'none'"),
            ),
        ),
        ADAPTS, "refuses chat_template_kwargs.*refuses reasoning_effort",
        options={"thinking": False}, refused=2, requests=4, tokens=2 * USED,
    ),
    "refuses a seed that the user adds": Case(
        refuses(400, "seed is not supported"), ENDS, "take seed out of --extra-body",
        options={"extra_body": '{"seed": 1}'},
    ),
    "refuses log-probs that the user adds": Case(
        refuses(400, "logprobs are not available for this model"), ENDS,
        "take logprobs out of --extra-body", options={"extra_body": '{"logprobs": true}'},
    ),
    "refuses whatever is asked, with words that fit each lesson": Case(
        refuses(400, "unknown: max_tokens, n > 1, only stream, temperature, system role"), ENDS,
        "status 400", requests=5, tokens=0,
    ),
}  # fmt: skip

THINKING: dict[str, Case] = {
    "thinks in the text": Case(says(*think("<think>\nhm: 7\n</think>\n\n")), PUBLISHES, **ONCE),
    "thinks in the text, its tag in the template": Case(
        says(*think("hm: 7\n</think>\n\n")), PUBLISHES, **ONCE
    ),
    "thinks between other tags": Case(
        says(*think("<thinking>hm</thinking>\n")), PUBLISHES, **ONCE
    ),
    "thinks between brackets": Case(says(*think("[THINK]hm[/THINK]")), PUBLISHES, **ONCE),
    "thinks without an end": Case(
        says(*["<think>hm, that is"] * SAMPLES, finish="length"), LEAVES_OUT,
        "raise --max-tokens, or switch its thinking off",
    ),
    "thinks in a field of its own": Case(
        says(*({"content": text, **REASONS} for text in TEXTS)), PUBLISHES, **ONCE
    ),
    "thinks in a field of its own, uncounted": Case(
        says(*({"content": text, **REASONS} for text in TEXTS), usage={}), PUBLISHES,
        requests=2, tokens=2 * (14 // 4 + 4 * (1 + 12) // 4),
    ),
    "thinks in a field of its own, and is cut off": Case(
        says(*[{"content": None, **REASONS}] * SAMPLES, finish="length"), LEAVES_OUT,
        "raise --max-tokens",
    ),
    "refuses in a field of its own": Case(
        says(*[{"content": None, "refusal": "I will not count."}] * SAMPLES), LEAVES_OUT,
        "refuses to answer: I will not count.; name other tasks",
    ),
    "calls a tool": Case(
        says(*[{"content": None, "tool_calls": [{"id": "1"}]}] * SAMPLES, finish="tool_calls"),
        LEAVES_OUT, "calls a tool.*take tools out",
    ),
    "withholds by a filter": Case(
        says(*[{"content": None}] * SAMPLES, finish="content_filter"), LEAVES_OUT,
        "filter of contents withheld",
    ),
    "cuts off at the length": Case(says(*TEXTS, finish="length"), PUBLISHES, **ONCE),
    "says eos_token": Case(says(*TEXTS, finish="eos_token"), PUBLISHES, **ONCE),
    "says nothing": Case(
        says(*[{"content": None}] * SAMPLES), LEAVES_OUT, "says nothing; name another --model"
    ),
    "makes one of four empty": Case(
        says("a", "b", "", "d"), PUBLISHES, texts=("a", "b", "", "d"), **ONCE
    ),
}  # fmt: skip

USAGES: dict[str, Case] = {
    f"reports the usage {json.dumps(usage)}": Case(counted(usage), PUBLISHES, **counts)
    for usage, counts in (
        (None, GUESSED),
        ({"total_tokens": None}, GUESSED),
        ({"total_tokens": -9}, GUESSED),
        ({"total_tokens": "many"}, GUESSED),
        ({"total_tokens": [1]}, GUESSED),
        ({"total_tokens": True}, GUESSED),
        ([], GUESSED),
        ("40 tokens", GUESSED),
        ({"total_tokens": "40"}, ONCE),
        ({"total_tokens": 40.0}, ONCE),
        ({"prompt_tokens": 10, "completion_tokens": 30}, ONCE),
        ({"prompt_tokens": None, "completion_tokens": 30}, {"requests": 2, "tokens": 60}),
        ({"total_tokens": 1}, GUESSED),
    )
}
USAGES["reports no usage"] = Case(
    lambda h, _: h.say({"choices": choices(*TEXTS)["choices"]}), PUBLISHES, **GUESSED
)

STATUSES: dict[str, Case] = {
    "an error with status 200": Case(
        refuses(200, "upstream is on fire"), LEAVES_OUT, "upstream is on fire", tokens=0
    ),
    "an error with status 200, a text": Case(
        lambda h, _: h.say({"error": "no such quant"}), LEAVES_OUT, "no such quant"
    ),
    "an error with status 200, of old vLLM": Case(
        lambda h, _: h.say({"object": "error", "message": "cuda died", "code": 500}), LEAVES_OUT,
        "status 500: cuda died",
    ),
    "no credit, with status 200": Case(
        refuses(200, "Insufficient credits", code=402), ENDS,
        r"\(status 402\): Insufficient credits; add credit", requests=1,
    ),
    "an error in the choice": Case(
        lambda h, _: h.say({"choices": [{"error": {"message": "overloaded", "code": 502}}]}),
        LEAVES_OUT, "status 502: overloaded",
    ),
    "an error with status 200, once": Case(first(refuses(200, "try again")), WAITS, "try again"),
    "400 without words": Case(
        lambda h, _: h.say({}, 400), ENDS, r"refuses \(status 400\): look at what the server logs"
    ),
    "400, the context too long": Case(refuses(400, LONG), ENDS, "lower --max-tokens"),
    "400, a prompt that is too long, after answers": Case(
        lambda h, b: (answers if len(h.server.asked) == 1 else refuses(400, LONG))(h, b),
        LEAVES_OUT, "maximum context length.*this prompt is skipped", requests=2, tokens=USED,
    ),
    "400, a prompt that is filtered": Case(
        refuses(400, "flagged", code="content_filter"), LEAVES_OUT, "flagged", requests=2
    ),
    "400, http at a port of https": Case(
        raw(b"<html><title>400 The plain HTTP request was sent to HTTPS port</title>", 400), ENDS,
        "write https:// in --api",
    ),
    "401 with a key": Case(
        refuses(401, f"Incorrect API key provided: {KEY[:9]}..."), ENDS,
        r"refuses the key \(status 401\): set SWARM_NODE.*Incorrect API key provided: \*\*\*",
    ),
    "401 without a key": Case(
        refuses(401, "You didn't provide an API key"), ENDS, "needs a key.*--key-file", key=""
    ),
    "402": Case(refuses(402, "Insufficient Balance"), ENDS, "Insufficient Balance.*add credit"),
    "403, another country": Case(
        refuses(403, "Country, region, or territory not supported"), ENDS,
        "territory not supported.*where the provider serves",
    ),
    "403, another model": Case(
        refuses(403, "Project does not have access to model m"), ENDS, "name another --model"
    ),
    "404, no such model": Case(
        refuses(404, 'model "m" not found, try pulling it first'), ENDS,
        "try pulling it first.*name a --model that the server has: m is not among them",
    ),
    "404, no /v1": Case(at_path, ENDS, "Not Found.*ends in /v1", path=""),
    "404, /v1 twice": Case(at_path, ENDS, "write /v1 in --api once", path="/v1/v1"),
    "404, the whole address": Case(
        at_path, ENDS, "leave /chat/completions away", path="/v1/chat/completions"
    ),
    "404, an address with a slash at the end": Case(at_path, PUBLISHES, path="/v1/", **ONCE),
    "405": Case(lambda h, _: h.say({"detail": "Method Not Allowed"}, 405), ENDS, "status 405"),
    "408, once": Case(first(refuses(408, "too slow")), WAITS, "status 408: too slow"),
    "413": Case(refuses(413, "Request too large"), ENDS, r"lower --max-tokens \(512\)"),
    "422": Case(
        detail(422, "body", "messages", words="Field required"), ENDS,
        r"\(status 422\): body.messages: Field required",
    ),
    "429 with Retry-After": Case(
        first(lambda h, _: h.say({"error": "slow down"}, 429, **{"Retry-After": "7"})), WAITS,
        "status 429: slow down, and asks this .* wait 7 s", refused=1, requests=3, tokens=2 * USED,
    ),
    "429 for ever": Case(refuses(429, "slow down"), LEAVES_OUT, "status 429: slow down"),
    "429, no quota": Case(
        refuses(429, "You exceeded your current quota", code="insufficient_quota"), ENDS,
        "exceeded your current quota.*add credit", requests=1,
    ),
    "500, once": Case(first(refuses(500, "oops")), WAITS, "status 500: oops"),
    "501": Case(refuses(501, "not implemented"), ENDS, r"\(status 501\): not implemented"),
    "502, a page": Case(
        raw(PAGE, 502, **{"Content-Type": "text/html"}), LEAVES_OUT,
        "status 502: 502 Bad Gateway;",
    ),
    "503, a model that loads": Case(
        first(refuses(503, "Loading model")), WAITS, "status 503: Loading model"
    ),
    "504": Case(raw(b"", 504), LEAVES_OUT, "status 504;"),
    "201": Case(lambda h, _: h.say(choices(*TEXTS), 201), PUBLISHES, **ONCE),
    "301": Case(
        lambda h, _: h.say({}, 301, Location="https://m.example/v1/chat/completions"), ENDS,
        r"redirects requests to https://m.example/v1 \(status 301\)",
    ),
    "308 without an address": Case(
        lambda h, _: h.say({}, 308), ENDS, r"redirects requests \(status 308\)"
    ),
    "an error of several": Case(
        lambda h, _: h.say({"errors": [{"message": "bad one"}, {"message": "bad two"}]}, 400),
        ENDS, "bad one; bad two",
    ),
    "an error that paints": Case(refuses(400, "\x1b[31mred\u202e"), ENDS, r"\?\[31mred\?"),
    "an error that holds the key": Case(refuses(400, f"no {KEY} here"), ENDS, r"no \*\*\* here"),
    "an error of which the cut goes through the key": Case(
        refuses(400, "x" * 155 + KEY), ENDS, r"x{155}\*\*\*"
    ),
}  # fmt: skip

TRANSPORT: dict[str, Case] = {
    "gzip, unasked": Case(packed, PUBLISHES, **ONCE),
    "deflate, unasked": Case(deflated, PUBLISHES, **ONCE),
    "brotli, unasked": Case(
        raw(b"abc", **{"Content-Encoding": "br"}), LEAVES_OUT, "packed as br, unasked"
    ),
    "gzip that is none": Case(
        raw(b"abc", **{"Content-Encoding": "gzip"}), LEAVES_OUT, "not packed as gzip, as it says"
    ),
    "gzip of 400 MB": Case(
        raw(gzip.compress(bytes(400 << 20), 9), **{"Content-Encoding": "gzip"}), LEAVES_OUT,
        "above 4 MB",
    ),
    "chunked": Case(chunked, PUBLISHES, **ONCE),
    "another content type": Case(
        lambda h, _: h.say(choices(*TEXTS), **{"Content-Type": "text/plain"}), PUBLISHES, **ONCE
    ),
    "a page of a web interface": Case(
        raw(WEB_UI, **{"Content-Type": "text/html"}), LEAVES_OUT,
        "answers with a web page: Chat UI;",
    ),
    "resets": Case(resets, LEAVES_OUT, "breaks off: Connection reset by peer"),
    "resets, once": Case(first(resets), WAITS, "breaks off"),
    "ends in the middle": Case(cut_off, LEAVES_OUT, "breaks off"),
    "hangs": Case(
        hangs, LEAVES_OUT, r"takes more than 0\.2 s", options={"timeout": 0.2}
    ),
    "too much": Case(raw(b" " * (5 << 20)), LEAVES_OUT, "above 4 MB"),
    "empty": Case(raw(b""), LEAVES_OUT, "not of the form of chat/completions, as it is not JSON"),
    "no choices": Case(
        lambda h, _: h.say({"choices": []}), LEAVES_OUT, "as it has no choices"
    ),
    "choices that are no list": Case(
        lambda h, _: h.say({"choices": 7}), LEAVES_OUT, "its choices are not a list"
    ),
}  # fmt: skip

DEAD = "http://127.0.0.1:1"  # nothing listens there
SOCKS = {"ALL_PROXY": "socks5://127.0.0.1:1"}
ENVIRONMENTS: dict[str, Case] = {
    "a SOCKS proxy, the server here": Case(answers, PUBLISHES, variables=SOCKS, **ONCE),
    "a SOCKS proxy in small letters": Case(
        answers, PUBLISHES, variables={"all_proxy": "socks5h://127.0.0.1:1"}, **ONCE
    ),
    "a SOCKS proxy, the server elsewhere": Case(
        answers, ENDS, r"ALL_PROXY names a SOCKS proxy.*httpx\[socks\].*NO_PROXY",
        variables=SOCKS, host="http://m.example", hidden="socksio",
    ),
    "a SOCKS proxy that is down": Case(
        answers, LEAVES_OUT,
        "through the proxy socks5://127.0.0.1:1 of ALL_PROXY: Connection refused.*see that",
        variables=SOCKS, host="http://m.example",
    ),
    "a SOCKS proxy, the server in NO_PROXY": Case(
        answers, LEAVES_OUT, "cannot be asked: ", variables={**SOCKS, "NO_PROXY": ".invalid"},
        host="http://m.invalid",
    ),
    "a proxy, the server here": Case(answers, PUBLISHES, variables={"HTTP_PROXY": DEAD}, **ONCE),
    "a proxy, the server at localhost": Case(
        answers, PUBLISHES, variables={"http_proxy": DEAD}, host="http://localhost:{port}", **ONCE
    ),
    "a proxy, the server at another address of loopback": Case(
        answers, PUBLISHES, variables={"HTTP_PROXY": DEAD}, host="http://127.1:{port}", **ONCE
    ),
    "a proxy, the server elsewhere": Case(
        answers, PUBLISHES, variables={"HTTP_PROXY": "{here}"}, host="http://m.example", **ONCE
    ),
    "a proxy without a scheme": Case(
        answers, PUBLISHES, variables={"HTTP_PROXY": "127.0.0.1:{port}"},
        host="http://m.example", **ONCE,
    ),
    "a proxy that is down": Case(
        answers, LEAVES_OUT,
        "through the proxy http://127.0.0.1:1 of HTTP_PROXY: Connection refused.*see that",
        variables={"HTTP_PROXY": DEAD}, host="http://m.example",
    ),
    "a proxy that is down, its password unseen": Case(
        answers, LEAVES_OUT, r"the proxy http://\*\*\*@127.0.0.1:1 of HTTP_PROXY",
        variables={"HTTP_PROXY": "http://ann:swordfish@127.0.0.1:1"}, host="http://m.example",
    ),
    "a proxy that wants a password": Case(
        raw(b"", 407), ENDS, r"the proxy http://127.0.0.1:\d+ of HTTP_PROXY refuses.*status 407",
        variables={"HTTP_PROXY": "{here}"}, host="http://m.example",
    ),
    "a proxy that fails": Case(
        raw(PAGE, 502), LEAVES_OUT, "502 Bad Gateway through the proxy .* of ALL_PROXY",
        variables={"ALL_PROXY": "{here}"}, host="http://m.example",
    ),
    "a proxy that is none": Case(
        answers, ENDS, "HTTP_PROXY is 'ftp://x', which is not an address of a proxy",
        variables={"HTTP_PROXY": "ftp://x"}, host="http://m.example",
    ),
    "a proxy that is none, the server here": Case(
        answers, PUBLISHES, variables={"HTTP_PROXY": "ftp://x"}, **ONCE
    ),
    "https through a proxy that knows no CONNECT": Case(
        answers, LEAVES_OUT, "the proxy http://127.0.0.1:.* of https_proxy, which answers: 501",
        variables={"https_proxy": "{here}"}, host="https://m.example",
    ),
    "https at a port of http": Case(
        answers, LEAVES_OUT, "write http:// in --api", host="https://127.0.0.1:{port}"
    ),
    "a name that is none": Case(
        answers, LEAVES_OUT, "cannot be asked.*see that the name in --api is right",
        host="http://m.invalid",
    ),
    "nothing listens": Case(
        answers, LEAVES_OUT, "cannot be asked: .*see that the server runs", host=DEAD, tokens=0
    ),
}  # fmt: skip

TABLE = FORMS | THINKING | USAGES | STATUSES | TRANSPORT | ENVIRONMENTS
