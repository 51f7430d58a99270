"""A node knows within seconds whether it can get a model from the hub."""

import os
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest

from swarm_node import starters
from swarm_node.common.errors import UserError
from swarm_node.policy import named
from tests.commands import command, python
from tests.hub_stand_in import hub_on_loopback
from tests.socks import without_socksio


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path) -> None:
    named.only_here.cache_clear()
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that accepts connections and sends nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def cached(folder, name: str) -> None:
    place = folder / "hub" / f"models--{name.replace('/', '--')}" / "snapshots" / "abc"
    place.mkdir(parents=True)
    (place / "config.json").write_text("{}")


def test_a_hub_that_refuses_or_is_silent_costs_seconds_and_one_line(monkeypatch, silent):
    monkeypatch.setattr(named, "SECONDS", 0.5)
    for endpoint, said in (("http://127.0.0.1:1", "cannot be reached"), (silent, "")):
        named.only_here.cache_clear()
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        began = time.monotonic()
        with pytest.raises(UserError, match="hf download nobody/nothing") as caught:
            named.only_here("nobody/nothing")
        assert said in str(caught.value) and "\n" not in str(caught.value)
        assert time.monotonic() - began < 20.0


def test_a_model_that_is_here_is_loaded_from_here(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    cached(tmp_path, "some/model")
    assert named.only_here("some/model")


def test_offline_is_told_without_asking_anybody(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match="HF_HUB_OFFLINE is set"):
        named.only_here("nobody/nothing")


def test_a_hub_that_answers_has_the_word_whatever_it_says(monkeypatch):
    with hub_on_loopback() as empty:
        monkeypatch.setenv("HF_ENDPOINT", empty.address)
        assert not named.only_here("nobody/nothing")


def test_a_hub_on_this_machine_is_asked_without_a_proxy(monkeypatch):
    monkeypatch.delenv("no_proxy")
    monkeypatch.delenv("NO_PROXY", raising=False)
    with hub_on_loopback() as empty:
        monkeypatch.setenv("HF_ENDPOINT", empty.address)
        for variable in ("HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(variable, "socks5://127.0.0.1:1")
            named.only_here.cache_clear()
            assert not named.only_here("nobody/nothing")


@pytest.mark.parametrize(
    ("proxy", "told"),
    [
        ("socks5://127.0.0.1:1", "ALL_PROXY names a SOCKS proxy"),
        ("http://127.0.0.1:1", "through the proxy http://127.0.0.1:1 of ALL_PROXY"),
    ],
)
def test_a_proxy_that_keeps_a_hub_away_is_named_with_its_variable(proxy, told, monkeypatch):
    for variable in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)
    without_socksio(monkeypatch)
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.example")
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(UserError, match=told) as caught:
        named.only_here("nobody/nothing")
    assert "\n" not in str(caught.value)


def asked_of_the_library(tmp_path, endpoint: str) -> str:
    """What the hub's library gets, in a process that asked us first."""
    code = (
        "from swarm_node.policy import named\n"
        "from huggingface_hub import hf_hub_download\n"
        "assert named.unreachable('some/model') == ''\n"
        "print(open(hf_hub_download('some/model', 'config.json')).read())\n"
    )
    variables = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path)}
    done = python("-P", "-c", code, env=variables)
    return done.stdout.strip() or done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("proxy", ["http://127.0.0.1:1", "socks5://127.0.0.1:1"])
def test_the_hubs_own_library_asks_a_hub_on_this_machine_without_a_proxy(
    proxy, monkeypatch, tmp_path
):
    """It went to the proxy, or raised an ImportError for a SOCKS one."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy)
    with hub_on_loopback() as hub:
        hub.files["some/model"] = {"config.json": b"{7}"}
        assert asked_of_the_library(tmp_path, hub.address) == "{7}"


@pytest.mark.slow
def test_the_hubs_own_library_goes_through_the_proxy_that_a_variable_names(monkeypatch, tmp_path):
    for name in ("no_proxy", "NO_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    with hub_on_loopback() as hub:  # it takes what a client says to a proxy
        hub.files["some/model"] = {"config.json": b"{8}"}
        monkeypatch.setenv("HTTP_PROXY", hub.address)
        assert asked_of_the_library(tmp_path, "http://hub.example") == "{8}"


READ_ONLY = "mount --bind {0} {0} && mount -o remount,ro,bind {0} && ! touch {0}/x && exec {1}"


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("unshare") is None or os.getuid() != 0, reason="needs a mount of its own"
)
def test_a_model_of_the_hub_is_loaded_from_a_cache_that_is_mounted_read_only(tmp_path):
    starter, cache = starters.folder("rare"), tmp_path / "cache"
    cache.mkdir()
    with hub_on_loopback() as hub:
        hub.files["some/model"] = {file.name: file.read_bytes() for file in starter.iterdir()}
        variables = {**os.environ, "HF_ENDPOINT": hub.address, "HF_HOME": str(cache)}
        variables |= {"SWARM_NODE_HOME": str(tmp_path / "home"), "no_proxy": "*"}
        words = command("check", "--model.name", "some/model", "--environment.tasks", "gcd/easy")
        first = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
        assert first.returncode == 0, first.stderr
        hub.asked.clear()
        script = READ_ONLY.format(shlex.quote(str(cache)), shlex.join(words))
        second = subprocess.run(
            ["unshare", "-m", "sh", "-c", script],
            env=variables, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert second.returncode == 0, second.stderr
        assert "some/model" in second.stdout and "Traceback" not in second.stderr
        assert "model.safetensors" not in {file for _, file in hub.asked}, "it was there"
