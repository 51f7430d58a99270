"""A contributor: its budget, its server that may be hostile, its person, and what it never says."""

import gzip
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks.served import Handler, Respond, api_on_loopback, choices
from protocol.messages import Completion, PeerId, Question, Round
from swarm_node.commands.contribute.api import ATTEMPTS, ApiGenerator
from swarm_node.commands.contribute.budget import Budget, take_key
from swarm_node.commands.contribute.human import Human, Left
from swarm_node.commands.contribute.session import Contributor, Rounds
from swarm_node.common.errors import UserError
from swarm_node.network.alone import Alone
from swarm_node.rollouts.groups import Skipped
from swarm_node.settings.contribute import ContributeConfig

KEY = "sk-very-secret"


class Clock:
    def __init__(self) -> None:
        self.now = 10 * 86400.0

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds


def ask(respond: Respond, folder: Path, **changes: Any) -> tuple[Any, list[str], list[dict[str, Any]]]:
    """What a generator makes of one prompt, what it says meanwhile, and what the server was asked."""
    clock, said = Clock(), []
    with api_on_loopback(respond) as api:
        config = ContributeConfig(api=api.address, model="m", samples=4, **{"timeout": 60.0, **changes})
        budget = Budget(0, 60, folder / "budget.json", clock)
        generator = ApiGenerator(config, KEY, budget, clock.pause, said.append, Random(0))
        try:
            made = generator.complete("What is 1 + 1?")
        except UserError as error:
            made = error
        finally:
            generator.close()
        assert set(api.keys) <= {f"Bearer {KEY}"}
        return made, said, api.asked


def test_samples_come_at_once_or_one_by_one(tmp_path: Path) -> None:
    many, _, asked = ask(lambda h, body: h.say(choices(*"abcd"[: body["n"]])), tmp_path)
    assert [each.text for each in many] == list("abcd") and len(asked) == 1
    single, _, asked = ask(lambda h, body: h.say(choices("x")), tmp_path)
    assert [each.text for each in single] == ["x"] * 4 and [body["n"] for body in asked] == [4, 3, 2, 1]
    assert all(each.ended for each in single)


def endless(handler: Handler, body: dict[str, Any]) -> None:
    handler.send_response(200)
    handler.end_headers()
    while not handler.server.stopped.is_set():
        handler.wfile.write(b" " * 65536)


def dripping(handler: Handler, body: dict[str, Any]) -> None:
    handler.send_response(200)
    handler.end_headers()
    while not handler.server.stopped.wait(0.05):
        handler.wfile.write(b" ")


HOSTILE: dict[str, tuple[Respond, str]] = {
    "garbage": (lambda h, _: h.raw(b"\x00\xff not json"), "not of the form"),
    "another schema": (lambda h, _: h.say({"outputs": ["a"]}), "not of the form"),
    "wrong types": (lambda h, _: h.say({"choices": [{"message": {"content": 7}}]}), "not of the form"),
    "no choices": (lambda h, _: h.say({"choices": []}), "not of the form"),
    "too deep": (lambda h, _: h.raw(b"[" * 100_000), "not of the form"),
    "packed": (lambda h, _: h.raw(gzip.compress(bytes(1 << 20)), **{"Content-Encoding": "gzip"}), "not of the form"),
    "negative usage": (lambda h, _: h.say({**choices("a"), "usage": {"total_tokens": -9}}), "not of the form"),
    "busy": (lambda h, _: h.say({}, 503), "status 503"),
    "without end": (endless, "above 4 MB|takes more than"),
    "drop by drop": (dripping, "takes more than"),
    "hung up": (lambda h, _: h.connection.close(), "cannot be asked"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_a_server_that_talks_nonsense_is_asked_a_few_times_and_its_prompt_skipped(name: str, tmp_path: Path) -> None:
    respond, told = HOSTILE[name]
    began = time.monotonic()
    made, said, asked = ask(respond, tmp_path, timeout=0.5 if "takes more than" in told else 60.0)
    assert made == Skipped("api failed")
    assert len(asked) == len(said) == ATTEMPTS and all(re.search(told, line) for line in said), said
    assert time.monotonic() - began < 30.0
    assert KEY not in "".join(said)


def test_a_server_that_redirects_or_refuses_the_key_ends_the_contributor_without_the_key(tmp_path: Path) -> None:
    made, _, asked = ask(lambda h, _: h.say({}, 307, Location="http://127.0.0.1:9/v1/chat/completions"), tmp_path)
    assert isinstance(made, UserError) and "sends elsewhere" in str(made) and len(asked) == 1
    made, _, asked = ask(lambda h, _: h.say({"error": f"Incorrect API key provided: {KEY}"}, 401), tmp_path)
    assert isinstance(made, UserError) and "status 401" in str(made) and KEY not in str(made) and len(asked) == 1


def test_a_redirect_is_not_followed_whoever_waits_there(tmp_path: Path) -> None:
    with api_on_loopback(lambda h, _: h.say(choices(*"abcd"))) as other:
        made, _, asked = ask(lambda h, _: h.say({}, 302, Location=f"{other.address}/chat/completions"), tmp_path)
        assert isinstance(made, UserError) and len(asked) == 1 and not other.keys


def test_a_server_that_changes_its_schema_is_given_up_after_a_few_times(tmp_path: Path) -> None:
    def respond(handler: Handler, body: dict[str, Any]) -> None:
        handler.say(choices("a") if len(handler.server.asked) == 1 else {"version": 2, "outputs": [{"text": "a"}]})

    made, said, asked = ask(respond, tmp_path)
    assert made == Skipped("api failed") and len(asked) == 1 + ATTEMPTS
    assert all("not of the form" in line for line in said)


def test_a_server_comes_back_after_a_failure(tmp_path: Path) -> None:
    def respond(handler: Handler, body: dict[str, Any]) -> None:
        handler.say(choices(*"abcd"), 200 if len(handler.server.asked) > 2 else 429)

    made, said, asked = ask(respond, tmp_path)
    assert len(made) == 4 and len(said) == 2 and len(asked) == 3


def test_completions_that_no_message_can_hold_are_left_out(tmp_path: Path) -> None:
    long = "x" * 20_000
    made, _, _ = ask(lambda h, body: h.say(choices("a", long, "b", "c", "d\ud800", "e")), tmp_path)
    assert [each.text for each in made] == ["a", "b", "c", "e"]
    assert ask(lambda h, _: h.say({"choices": [{"message": {"content": None}}]}), tmp_path)[0] == Skipped(
        "api said nothing"
    )


def test_a_budget_counts_requests_a_minute_and_tokens_a_day_over_restarts(tmp_path: Path) -> None:
    clock = Clock()
    budget = Budget(100, 2, tmp_path / "b.json", clock)
    for _ in range(2):
        assert budget.wait() == 0.0
        budget.request()
    assert budget.wait() == 60.0
    clock.pause(60.0)
    assert budget.wait() == 0.0
    budget.spend(100)
    assert budget.wait() == 86400.0 - 60.0
    again = Budget(100, 2, tmp_path / "b.json", clock)
    assert (again.used, again.wait()) == (100, 86400.0 - 60.0)
    clock.pause(86400.0)
    assert again.wait() == 0.0


def test_a_key_leaves_the_environment_and_a_file_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWARM_NODE_API_KEY", KEY)
    assert take_key(None) == KEY
    assert take_key(None) == "", "no process started later inherits it"
    (tmp_path / "key").write_text("sk-file\n\n")
    assert take_key(tmp_path / "key") == "sk-file"


class Sums:
    """An environment of one question: what is 1 + 1?"""

    def sample(self, author: PeerId, now: Round, count: int) -> list[Question]:
        return [
            Question(environment="sums", version="1", dataset="sums", config_id="one", seed=now, index=k)
            for k in range(count)
        ]

    def prompts(self, questions: Sequence[Question]) -> list[str | Skipped]:
        return ["1 + 1 = ?\x1b[2J"] * len(questions)

    def score(self, asked: Sequence[tuple[Question, Sequence[str]]]) -> list[tuple[float, ...] | Skipped]:
        return [tuple(float(text == "2") for text in texts) for _, texts in asked]


class Kept(Alone):
    def __init__(self) -> None:
        self.groups: list[Any] = []

    def publish(self, groups: Sequence[Any], now: Round) -> None:
        self.groups += groups


def contributor(folder: Path, network: Kept) -> Contributor:
    return Contributor(PeerId("me"), Sums(), network, Rounds(folder / "rounds.json"), 1)  # type: ignore[arg-type]


def typed(*lines: str) -> Iterator[str]:
    yield from lines


def test_drafts_of_a_person_with_different_rewards_become_a_group(tmp_path: Path) -> None:
    lines, said, network = typed("3", "3", "2", "", "5", "6", "", "1", "2"), [], Kept()

    def read() -> str:
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    person, me = Human(read, said.append, 8), contributor(tmp_path, network)

    def complete(question: Question, prompt: str) -> tuple[Completion, ...]:
        return person.drafts(question, prompt, me.score)

    assert [me.round(complete) for _ in range(3)] == [1, 0, 1], "the last ends with the input"
    with pytest.raises(Left):
        me.round(complete)
    assert [[each.text for each in group.completions] for group in network.groups] == [["3", "2"], ["1", "2"]]
    assert "you had that already" in said and "reward 1.00: right" in said
    assert not any("\x1b" in line for line in said)
    assert me.skipped == {"uninformative": 1}


def test_no_round_is_begun_twice_over_restarts(tmp_path: Path) -> None:
    rounds = [Rounds(tmp_path / "rounds.json").begin() for _ in range(3)]
    assert rounds == [0, 1, 2]
