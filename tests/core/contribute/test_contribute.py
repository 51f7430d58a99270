"""A contributor: its budget, its server that may be hostile, and what it never says."""

import gzip
import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lab.benchmarks.served import Handler, Respond, api_on_loopback, choices
from protocol.messages import Episode, PeerId, Question, Round
from swarm_node.common.errors import UserError
from swarm_node.contribute.api import ATTEMPTS, ApiGenerator
from swarm_node.contribute.budget import Budget
from swarm_node.contribute.start import Contributor, take_key
from swarm_node.network.in_memory import Alone
from swarm_node.node.rounds import RoundCounter
from swarm_node.rollouts.groups import Catalogue, Plays, Skipped, ToPlay
from swarm_node.settings.contribute import ContributeConfig
from swarm_node.settings.secret import Secret, SecretUrl
from tests.commands import ended, killed_in_the_end, started
from tests.groups import lifted
from tests.waiting import PATIENCE, until

KEY = "sk-very-secret"


class Clock:
    def __init__(self) -> None:
        self.now = 10 * 86400.0

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds


def ask_often(
    prompts: int, respond: Respond, folder: Path, **changes: Any
) -> tuple[list[Any], list[str], list[dict[str, Any]], Clock]:
    """For this many prompts: what the generator made of each, the lines that it said, the requests
    that the server got, and the clock.
    """
    clock, said, made = Clock(), list[str](), list[Any]()
    with api_on_loopback(respond) as api:
        config = ContributeConfig.model_validate(
            {"api": api.address, "model": "m", "samples": 4, "timeout": 60.0, **changes}
        )
        budget = Budget(config, folder / "budget.json", clock)
        generator = ApiGenerator(
            config, Secret(KEY), budget, clock.pause, said.append, Random(0), clock
        )
        try:
            for _ in range(prompts):
                made.append(generator.complete("What is 1 + 1?"))
        except UserError as error:
            made.append(error)
        finally:
            generator.close()
        assert set(api.keys) <= {f"Bearer {KEY}"}
        return made, said, api.asked, clock


def ask(
    respond: Respond, folder: Path, **changes: Any
) -> tuple[Any, list[str], list[dict[str, Any]]]:
    """`ask_often` for one prompt, without the clock."""
    (made,), said, asked, _ = ask_often(1, respond, folder, **changes)
    return made, said, asked


def test_samples_come_at_once_or_one_by_one(tmp_path: Path) -> None:
    many, _, asked = ask(lambda h, body: h.say(choices(*"abcd"[: body["n"]])), tmp_path)
    assert [each.text for each in many] == list("abcd") and len(asked) == 1
    single, _, asked = ask(lambda h, body: h.say(choices("x")), tmp_path)
    assert [each.text for each in single] == ["x"] * 4 and [body["n"] for body in asked] == [
        4,
        3,
        2,
        1,
    ]
    assert all(each.ended for each in single)


def endless(begin: bytes, piece: bytes, pause: float = 0.0) -> Respond:
    """A server whose reply never ends."""

    def respond(handler: Handler, body: dict[str, Any]) -> None:
        handler.wfile.write(begin)
        while not handler.server.stopped.wait(pause):
            handler.wfile.write(piece)

    return respond


OK, MORE = b"HTTP/1.1 200 OK\r\n", b"X-More: " + b"a" * 4096 + b"\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n" + MORE + b"\r\n"


HOSTILE: dict[str, tuple[Respond, str]] = {
    "garbage": (lambda h, _: h.raw(b"\x00\xff not json"), "not of the form"),
    "another schema": (lambda h, _: h.say({"outputs": ["a"]}), "not of the form"),
    "wrong types": (
        lambda h, _: h.say({"choices": [{"message": {"content": 7}}]}),
        "not of the form",
    ),
    "no choices": (lambda h, _: h.say({"choices": []}), "not of the form"),
    "too deep": (lambda h, _: h.raw(b"[" * 100_000), "not of the form"),
    "packed": (
        lambda h, _: h.raw(gzip.compress(bytes(1 << 20)), **{"Content-Encoding": "gzip"}),
        "not of the form",
    ),
    "busy": (lambda h, _: h.say({}, 503), "status 503"),
    "5 MB": (lambda h, _: h.raw(b" " * (5 << 20)), "above 4 MB"),
    "without end": (endless(OK + b"\r\n", b" " * 65536), "above 4 MB|takes more than"),
    "drop by drop": (endless(OK + b"\r\n", b" ", 0.05), "takes more than"),
    "hung up": (lambda h, _: h.connection.close(), "breaks off"),
    "headers drop by drop": (endless(OK + b"X-Slow: ", b"a", 0.05), "takes more than"),
    "headers without end": (endless(OK, MORE), "breaks off|takes more than"),
    "headers of 90 kB": (
        lambda h, _: h.say(choices("a"), **{"X-Long": "x" * 90_000}),
        "headers are above 64 kB",
    ),
    "one answer before another, without end": (endless(b"", CONTINUE), "takes more than"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_a_server_that_talks_nonsense_is_asked_a_few_times_and_its_prompt_skipped(
    name: str, tmp_path: Path
) -> None:
    respond, told = HOSTILE[name]
    began = time.monotonic()
    made, said, asked = ask(respond, tmp_path, timeout=0.5 if "takes more than" in told else 60.0)
    assert made == Skipped("api failed")
    assert len(asked) == len(said) == ATTEMPTS and all(re.search(told, line) for line in said), said
    assert time.monotonic() - began < 30.0
    assert KEY not in "".join(said)


def test_a_redirect_is_not_followed_whoever_waits_there(tmp_path: Path) -> None:
    with api_on_loopback(lambda h, _: h.say(choices(*"abcd"))) as other:
        for status in (302, 307):
            where = f"{other.address}/chat/completions"
            made, _, asked = ask(lambda h, _, s=status, w=where: h.say({}, s, Location=w), tmp_path)
            assert (
                isinstance(made, UserError)
                and "redirects requests" in str(made)
                and len(asked) == 1
            )
        assert not other.keys


def test_completions_that_no_message_can_hold_are_left_out(tmp_path: Path) -> None:
    long = "x" * 20_000
    made, _, _ = ask(lambda h, body: h.say(choices("a", long, "b", "c", "d\ud800", "e")), tmp_path)
    assert [each.text for each in made] == ["a", "b", "c", "e"]


def test_a_budget_counts_requests_and_tokens_of_a_minute(tmp_path: Path) -> None:
    clock = Clock()
    budget = Budget(
        ContributeConfig(requests_per_minute=2, tokens_per_minute=50), tmp_path / "b.json", clock
    )
    for _ in range(2):
        assert budget.wait(10) == 0.0
        budget.reserve(10)
    assert budget.wait(10) == 60.0, "two requests were made"
    clock.pause(60.0)
    assert budget.wait(80) == 0.0, "a request that is dearer than a minute is made alone"
    budget.reserve(80)
    budget.settle(45)
    assert budget.wait(10) == 60.0 and budget.wait(5) == 0.0
    clock.pause(-86400.0)
    assert budget.wait(10) == 0.0, "a clock that is put back stops nothing for long"


def test_a_budget_of_all_ends_the_contributor_over_restarts_and_a_damaged_one_is_not_begun_anew(
    tmp_path: Path,
) -> None:
    default = ContributeConfig()
    assert all(
        (
            default.requests_per_minute,
            default.tokens_per_minute,
            default.total_requests,
            default.total_tokens,
        )
    )
    clock, file = Clock(), tmp_path / "b.json"
    config = ContributeConfig(total_requests=3, total_tokens=100)
    budget = Budget(config, file, clock)
    budget.reserve(70)
    again = Budget(config, file, clock)
    assert again.used == (1, 70), (
        "a request that never ended counts with the most that it may have taken"
    )
    with pytest.raises(UserError, match=r"100 tokens in all has no room .* raise --total-tokens"):
        again.wait(31)
    for _ in range(2):
        assert again.wait(15) == 0.0
        again.reserve(15)
    clock.pause(10 * 86400.0)
    with pytest.raises(UserError, match="3 requests in all is used: raise --total-requests"):
        again.wait(0)
    assert (
        Budget(ContributeConfig(total_requests=0, total_tokens=0), file, clock).wait(10**9) == 0.0
    )
    for damaged in (
        '{"total_requests": 2, "total_tok',
        '{"day": 20, "tokens": 7}',
        '{"total_requests": -1, "total_tokens": 0}',
    ):
        file.write_text(damaged)
        with pytest.raises(UserError, match="is damaged"):
            Budget(config, file, clock)


def test_the_budget_of_a_minute_is_kept_whatever_a_server_says_that_it_used(tmp_path: Path) -> None:
    """The finding that this test guards against: 147 requests and 2.94 million tokens in 8
    seconds.
    """

    def respond(handler: Handler, body: dict[str, Any]) -> None:
        handler.say({**choices(*"abcd"), "usage": {"total_tokens": 20_000}})

    began = Clock().now
    made, _, asked, clock = ask_often(30, respond, tmp_path)
    assert [len(each) for each in made] == [4] * 30 and len(asked) == 30
    minutes = (clock.now - began) / 60
    assert (minutes + 1) * 200_000 >= 30 * 20_000, minutes


UNUSABLE: dict[str, tuple[dict[str, Any], str]] = {
    "cut off while it thought": (
        {"message": {"content": None}, "finish_reason": "length"},
        "raise --max-tokens, or switch its thinking off",
    ),
    "empty": ({"message": {"content": ""}, "finish_reason": "length"}, "raise --max-tokens"),
    "nothing at all": ({"message": {}, "finish_reason": "stop"}, "name another --model"),
    "too long": (
        {"message": {"content": "x" * 20_000}, "finish_reason": "stop"},
        "lower --max-tokens",
    ),
    "half a pair": (
        {"message": {"content": "d\ud800"}, "finish_reason": "stop"},
        "no message can hold",
    ),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_model_that_says_nothing_usable_is_asked_once_a_prompt_and_a_circuit_opens(
    name: str, tmp_path: Path
) -> None:
    choice, advice = UNUSABLE[name]

    def respond(handler: Handler, body: dict[str, Any]) -> None:
        if len(handler.server.asked) > 50:  # ends the test where nothing else bounds the requests
            handler.say({}, 400)
        else:
            handler.say({"choices": [choice] * body["n"], "usage": {"total_tokens": 20_000}})

    began = Clock().now
    made, said, asked, clock = ask_often(50, respond, tmp_path)
    assert made[:-1] == [Skipped("api said nothing")] * 10, "three, then trials"
    assert (
        isinstance(made[-1], UserError)
        and advice in str(made[-1])
        and "11 prompts in a row" in str(made[-1])
    )
    assert len(asked) == 11, "a prompt each"
    assert advice in said[0], "the first one says what to change"
    assert "the next is asked in 1 min" in "".join(said)
    assert clock.now - began >= 60 * (1 + 2 + 4 + 8 + 16 + 32 + 60 + 60)


def test_one_usable_completion_closes_the_circuit(tmp_path: Path) -> None:
    def respond(handler: Handler, body: dict[str, Any]) -> None:
        many = len(handler.server.asked)
        handler.say(
            choices(*"abcd") if many % 5 == 0 else {"choices": [{"message": {"content": None}}]}
        )

    made, said, asked, _ = ask_often(40, respond, tmp_path)
    assert len(made) == len(asked) == 40 and sum(isinstance(each, tuple) for each in made) == 8
    assert not any("in 4 min" in line for line in said), "it opens anew each time"


def test_a_server_that_fails_for_long_is_asked_more_and_more_rarely_and_then_no_more(
    tmp_path: Path,
) -> None:
    made, said, asked, _ = ask_often(50, lambda h, _: h.say({}, 503), tmp_path)
    assert len(asked) == 3 * ATTEMPTS + 8 and made[:-1] == [Skipped("api failed")] * 10
    assert isinstance(made[-1], UserError) and "status 503" in str(made[-1])
    assert any("look at what the server logs" in line for line in said)


NO_TIME = (
    "Sat, 10 Jan 1970 00:00:00 GMT",
    "-5",
    "soon",
    "²",
    "Sun, 99 Jan 99999999 99:99:99 GMT",
    "1e9",
)
WAITS = [
    ("7", 7.0),
    ("86400", 3600.0),
    ("9" * 400, 3600.0),
    ("Sun, 11 Jan 2170 00:00:00 GMT", 3600.0),
]
WAITS += [
    (text, 90.0) for text in ("Sun, 11 Jan 1970 00:01:30 GMT", "Sunday, 11-Jan-70 00:01:30 GMT")
]


@pytest.mark.parametrize(("text", "seconds"), [*WAITS, *((text, 0.0) for text in NO_TIME)])
def test_retry_after_is_obeyed_within_bounds(text: str, seconds: float, tmp_path: Path) -> None:
    def respond(handler: Handler, body: dict[str, Any]) -> None:
        if len(handler.server.asked) == 1:
            handler.raw(b"{}", 429, **{"Retry-After": text.encode().decode("latin-1")})
        else:
            handler.say(choices(*"abcd"))

    began = Clock().now
    (made,), said, asked, clock = ask_often(1, respond, tmp_path)
    assert len(made) == 4 and len(asked) == 2
    assert max(seconds, 0.5) <= clock.now - began <= max(seconds, 1.0)
    assert (f"asks this node to wait {seconds:.0f} s" in said[0]) == (seconds > 0)


@pytest.mark.parametrize("status", [401, 404])
@pytest.mark.parametrize(
    "form", ["{0:.7}***{0[12]}{0[13]}", "{0}", "{0:.8}", "ends in {0[10]}{0[11]}{0[12]}{0[13]}"]
)
def test_a_server_that_repeats_part_of_the_key_is_not_shown_with_it(
    status: int, form: str, tmp_path: Path
) -> None:
    echoed = form.format(KEY)
    made, said, asked = ask(
        lambda h, _: h.say({"error": f"Incorrect API key: {echoed}"}, status), tmp_path
    )
    assert isinstance(made, UserError) and f"status {status}" in str(made) and len(asked) == 1
    shown = f"{made} {said}"
    assert not any(KEY[k : k + 4] in shown for k in range(len(KEY) - 3)), shown
    assert status != 404 or "Incorrect API key" in shown


def test_user_and_password_of_an_address_are_sent_and_never_shown(tmp_path: Path) -> None:
    keys, said, clock = list[str](), list[str](), Clock()
    with api_on_loopback(
        lambda h, _: h.say({"error": "ann:swordfish has no such model"}, 404)
    ) as api:
        address = api.address.replace("http://", "http://ann:swordfish@")
        config = ContributeConfig(api=SecretUrl(address), model="m")
        budget = Budget(config, tmp_path / "b.json", clock)
        generator = ApiGenerator(
            config, Secret(""), budget, clock.pause, said.append, Random(0), clock
        )
        with pytest.raises(UserError) as raised:
            generator.complete("1 + 1")
        generator.close()
        keys += api.keys
    assert keys == ["Basic YW5uOnN3b3JkZmlzaA=="]
    assert "swordfish" not in f"{raised.value} {said} {config!r} {config.model_dump_json()}"
    assert "http://***@127.0.0.1" in str(raised.value)


def test_a_key_leaves_the_environment_and_a_file_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWARM_NODE_API_KEY", KEY)
    taken = take_key(None)
    assert taken.get_secret_value() == KEY and KEY not in f"{taken} {taken!r}"
    assert not take_key(None), "no process started later inherits it"
    (tmp_path / "key").write_text("sk-file\n\n")
    assert take_key(tmp_path / "key").get_secret_value() == "sk-file"


KEYS = {  # content of a key file -> the key, or words of the refusal
    f"{KEY}\n": KEY,
    f"  {KEY}\r\nanother line": KEY,
    f"\n\n{KEY}": KEY,
    f"\ufeff{KEY}": KEY,
    f"Bearer {KEY}": KEY,
    f'"{KEY}"': "character 1 of the key is a quotation mark",
    f"{KEY} {KEY}": f"character {len(KEY) + 1} of the key is a space",
    "sk-sécret": "character 5 of the key is none of ASCII",
    "sk-\x1b[31m": "character 4 of the key is a control character",
    "\n \n": "is empty",
}


@pytest.mark.parametrize("content", KEYS)
def test_a_key_is_read_as_people_save_it_and_what_no_header_holds_is_one_line(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = KEYS[content]
    file = tmp_path / "key"
    file.write_bytes(content.encode())
    if wanted == KEY:
        assert take_key(file).get_secret_value() == KEY
        return
    with pytest.raises(UserError, match=wanted) as raised:
        take_key(file)
    assert "\n" not in str(raised.value) and KEY not in str(raised.value)
    if content.strip():
        monkeypatch.setenv("SWARM_NODE_API_KEY", content)
        with pytest.raises(UserError, match=f"SWARM_NODE_API_KEY: {wanted}"):
            take_key(None)


def test_a_key_file_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"\xff\xfes\0k\0")
    with pytest.raises(UserError, match="is not text"):
        take_key(tmp_path / "key")


class Sums:
    """An environment of one question: what is 1 + 1?"""

    def sample(self, author: PeerId, now: Round, count: int) -> list[Question]:
        return [
            Question(
                environment="sums",
                version="1",
                dataset="sums",
                config_id="c",
                digest="A" * 11,
                seed=now,
                index=k,
            )
            for k in range(count)
        ]

    def prompts(self, questions: Sequence[Question]) -> list[str | Skipped]:
        return ["1 + 1 = ?"] * len(questions)

    def score(
        self, asked: Sequence[tuple[Question, Sequence[str]]]
    ) -> list[tuple[float, ...] | Skipped]:
        return [tuple(float(text.strip() == "2") for text in texts) for _, texts in asked]

    catalogue = Catalogue()

    def play(self, asked: Sequence[ToPlay]) -> list[Plays]:
        return lifted(self.score, asked)


class Kept(Alone):
    def __init__(self) -> None:
        self.groups: list[Any] = []

    def publish(self, groups: Sequence[Any], now: Round) -> None:
        self.groups += groups


def contributor(folder: Path, network: Kept) -> Contributor:
    return Contributor(PeerId("me"), Sums(), network, RoundCounter(folder / "rounds.json"), 1)  # type: ignore[arg-type]


def test_completions_become_a_group_if_their_rewards_differ(tmp_path: Path) -> None:
    network = Kept()
    me = contributor(tmp_path, network)
    answers: list[tuple[str, ...] | Skipped] = [
        ("3", "2"),
        ("5", "6"),
        ("2",),
        Skipped("api failed"),
        ("1", "2"),
    ]

    def complete(prompt: str) -> tuple[Episode, ...] | Skipped:
        made = answers.pop(0)
        return (
            made
            if isinstance(made, Skipped)
            else tuple(Episode.of(text=text, ended=True) for text in made)
        )

    assert [me.round(complete) for _ in range(5)] == [1, 0, 0, 0, 1] and me.published == 2
    assert [[each.text for each in group.episodes] for group in network.groups] == [
        ["3", "2"],
        ["1", "2"],
    ]
    assert me.skipped == {"all wrong": 1, "one completion": 1, "api failed": 1}


@pytest.mark.parametrize(
    ("texts", "why", "remedy"),
    [
        (("3", "4"), "all wrong", "name easier tasks"),
        (("3", "3"), "of one text", "raise --temperature"),
        (("2", "2 "), "all right", "name harder tasks"),
    ],
)
def test_groups_that_teach_nothing_are_told_with_a_reason(
    texts: tuple[str, str], why: str, remedy: str, tmp_path: Path
) -> None:
    """The finding that this test guards against: 98 of 98 groups taught nothing, and the line said
    no more.
    """
    me, told = contributor(tmp_path, Kept()), list[str]()
    for _ in range(98):
        assert me.round(lambda *_: tuple(Episode.of(text=text, ended=True) for text in texts)) == 0
        told += filter(None, [me.why_in_vain()])
    assert me.skipped == {why: 98}
    assert [line.split()[0] for line in told] == ["8", "16", "32", "64"], "rarer and rarer"
    assert all(f"{why}, such as {texts[0]!r}: {remedy}" in line for line in told)
    assert (
        me.round(lambda *_: (Episode.of(text="2", ended=True), Episode.of(text="3", ended=True)))
        == 1
    )
    assert not me.why_in_vain()


def test_a_group_of_more_text_than_a_message_holds_is_told_and_ends_nothing(tmp_path: Path) -> None:
    me, told = contributor(tmp_path, network := Kept()), list[str]()
    texts = ("2", *(f"{number}{'é' * 9000}" for number in range(4)))
    for _ in range(8):
        assert me.round(lambda *_: tuple(Episode.of(text=text, ended=True) for text in texts)) == 0
        told += filter(None, [me.why_in_vain()])
    assert me.skipped == {"of more text than a message holds": 8} and not network.groups
    assert len(told) == 1 and told[0].endswith("lower --samples or --max-tokens")
    assert me.fits(["é" * 16_384]) and not me.fits(["\0" * 16_384])
    assert me.fits(texts[:3]) and not me.fits(texts)


def test_a_request_has_what_the_user_adds_to_it(tmp_path: Path) -> None:
    extra = {
        "extra_body": '{"top_p": 0.9, "temperature": null}',
        "stop": ["\\n", "#,"],
        "thinking": False,
    }
    system = {"environment": {"system": "Be brief."}}
    made, _, (body,) = ask(lambda h, body: h.say(choices(*"abcd")), tmp_path, **extra, **system)
    assert len(made) == 4
    assert (
        body["messages"][0] == {"role": "system", "content": "Be brief."}
        and len(body["messages"]) == 2
    )
    assert body["top_p"] == 0.9 and "temperature" not in body and body["stop"] == ["\n", "#,"]
    assert body["reasoning_effort"] == "none" and body["chat_template_kwargs"] == {
        "enable_thinking": False
    }
    _, _, (plain,) = ask(lambda h, body: h.say(choices(*"abcd")), tmp_path)
    assert plain.keys() == {"model", "messages", "n", "max_tokens", "temperature", "stream"}
    with pytest.raises(UserError, match="cannot set max_completion_tokens"):
        ask(lambda h, _: h.say(choices("a")), tmp_path, extra_body='{"max_completion_tokens": 9}')
    with pytest.raises(UserError, match="cannot set n, stream"):
        ask(lambda h, body: h.say(choices("a")), tmp_path, extra_body='{"n": 9, "stream": true}')


def test_no_round_is_begun_twice_over_restarts(tmp_path: Path) -> None:
    rounds = [RoundCounter(tmp_path / "rounds.json").begin() for _ in range(3)]
    assert rounds == [0, 1, 2]


PROXIED = {  # variables -> the address of the server, what is said, exit code
    "a SOCKS proxy, the server here": ({"ALL_PROXY": "socks5://127.0.0.1:1"}, "", "", 0),
    "a proxy, the server here": ({"HTTP_PROXY": "http://127.0.0.1:1"}, "", "", 0),
    "a SOCKS proxy, the server elsewhere": (
        {"ALL_PROXY": "socks5://127.0.0.1:1"},
        "https://api.example/v1",
        "ALL_PROXY names a SOCKS proxy",
        2,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROXIED)
def test_a_proxy_ends_no_contributor_in_a_traceback_and_keeps_no_server_of_this_machine_away(
    name: str, tmp_path: Path
) -> None:
    variables, address, told, code = PROXIED[name]
    # A start of Python reads this: the package that speaks to such a proxy is not there
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['socksio'] = None\n")
    variables = {**variables, "PYTHONPATH": str(tmp_path)}
    there = ("--network.no-enabled", "--environment.tasks", "gcd/tiny", "--home", tmp_path / "home")
    few = ("--max-rounds", 1, "--questions", 1, "--samples", 2, "--round-seconds", 0)
    kept = {key: text for key, text in os.environ.items() if not key.lower().endswith("_proxy")}
    with api_on_loopback(lambda h, body: h.say(choices("1", "2"))) as api:
        command = ("contribute", "--api", address or api.address, "--model", "m", *there, *few)
        done = ended(*command, env={**kept, **variables})
        assert bool(api.asked) == (not address)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert told in done.stderr and len(done.stderr.splitlines()) == (1 if told else 0)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_contributor_that_waits_for_its_server_ends_at_once_and_without_a_traceback(
    how: signal.Signals, tmp_path: Path
) -> None:
    there = ("--network.no-enabled", "--environment.tasks", "gcd/tiny", "--home", tmp_path / "home")
    with api_on_loopback(lambda handler, _: handler.server.stopped.wait()) as api:
        command = ("contribute", "--api", api.address, "--model", "m", *there)
        with killed_in_the_end(started(*command, stderr=subprocess.PIPE)) as process:
            until(lambda: api.asked)
            process.send_signal(how)
            _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (0, "")
