"""What a contributor does with each server and environment of the table in servers.py."""

import re
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lab.benchmarks.served import api_on_loopback
from swarm_node.common.errors import UserError
from swarm_node.contribute.api import ApiGenerator
from swarm_node.contribute.budget import Budget
from swarm_node.rollouts.groups import Skipped
from swarm_node.settings.contribute import ContributeConfig
from swarm_node.settings.secret import Secret
from tests.core.contribute.servers import (
    ADAPTS,
    ENDS,
    KEY,
    LEAVES_OUT,
    MAIN,
    PUBLISHES,
    SAMPLES,
    TABLE,
    WAITS,
    Case,
)

PROMPT = "What is 1 + 1?"
VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


class Clock:
    """Seconds since 1970, which pauses put forward."""

    def __init__(self) -> None:
        self.now = 10 * 86400.0

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds


class Tried:
    """What came of two prompts."""

    def __init__(self, case: Case, folder: Path, patch: pytest.MonkeyPatch) -> None:
        if case.hidden:
            patch.setitem(sys.modules, case.hidden, None)
        for name in VARIABLES:
            patch.delenv(name, raising=False)
            patch.delenv(name.upper(), raising=False)
        clock, self.said, self.made = Clock(), list[str](), list[Any]()
        with api_on_loopback(case.respond) as api:
            here = api.address.removesuffix("/v1")
            words = {"here": here, "port": here.rpartition(":")[2]}
            for name, value in case.variables.items():
                patch.setenv(name, value.format_map(words))
            address = (case.host or here).format_map(words) + case.path
            config = ContributeConfig.model_validate(
                {"api": address, "model": MAIN, "samples": SAMPLES, "timeout": 20.0, **case.options}
            )
            budget = Budget(config, folder / "budget.json", clock)
            try:
                parts = (Secret(case.key), budget, clock.pause, self.said.append, Random(0), clock)
                generator = ApiGenerator(config, *parts)
                try:
                    self.made.append(generator.complete(PROMPT))
                    self.asked_first = len(api.asked)
                    self.made.append(generator.complete(PROMPT))
                finally:
                    generator.close()
            except UserError as error:
                self.made.append(error)
            self.asked = list(api.asked)
        self.counted, self.tokens = budget.used
        self.waited = clock.now - Clock().now

    @property
    def texts(self) -> list[list[str]]:
        """The texts of each prompt."""
        return [sorted(each.text for each in made) for made in self.made]

    @property
    def lines(self) -> str:
        """All that was said, with the error in the end."""
        errors = [str(made) for made in self.made if isinstance(made, UserError)]
        return "\n".join([*self.said, *errors])

    @property
    def does(self) -> str:
        """What the contributor did, as the table names it."""
        if isinstance(self.made[-1], UserError):
            return ENDS
        if any(isinstance(made, Skipped) for made in self.made):
            return LEAVES_OUT
        if not self.said:
            return PUBLISHES
        return WAITS if self.waited else ADAPTS


@pytest.mark.parametrize("name", TABLE)
def test_a_contributor_does_with_each_server_what_the_table_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = TABLE[name]
    tried = Tried(case, tmp_path, monkeypatch)
    assert tried.does == case.does, tried.lines
    assert re.search(case.words, tried.lines, re.DOTALL), tried.lines
    assert case.words or not tried.said
    if case.does in (PUBLISHES, ADAPTS, WAITS):
        assert tried.texts == [sorted(case.texts)] * 2
    if case.does == ENDS:
        assert "\n" not in str(tried.made[-1]) and len(tried.made) == 1, "at the first prompt"
    assert case.requests in (None, len(tried.asked)), len(tried.asked)
    assert case.tokens in (None, tried.tokens), tried.tokens


@pytest.mark.parametrize("name", [name for name, case in TABLE.items() if case.does == ADAPTS])
def test_what_a_server_wants_is_asked_once_and_remembered(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = TABLE[name]
    tried = Tried(case, tmp_path, monkeypatch)
    assert len(tried.said) == case.refused, "a line for each lesson, at the first prompt alone"
    for_second = len(tried.asked) - tried.asked_first
    assert tried.asked_first - for_second == case.refused
    assert tried.counted == len(tried.asked), "requests from which something was learnt count, too"


def test_no_line_holds_the_key_or_the_password_of_a_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = [name for name, case in TABLE.items() if "key" in name or "unseen" in name]
    assert len(shown) > 4
    for number, name in enumerate(shown):
        folder = tmp_path / str(number)
        folder.mkdir()
        lines = Tried(TABLE[name], folder, monkeypatch).lines
        assert not any(KEY[k : k + 4] in lines for k in range(len(KEY) - 3)), lines
        assert "swordfish" not in lines
