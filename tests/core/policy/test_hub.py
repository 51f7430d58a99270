"""Whether a model of the hub can be had is known within seconds."""

import http.server
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from swarm_node.common.errors import UserError
from swarm_node.policy import hub


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path) -> None:
    hub.only_here.cache_clear()
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def silent() -> Iterator[str]:
    """Takes connections, and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def cached(folder, name: str) -> None:
    place = folder / "hub" / f"models--{name.replace('/', '--')}" / "snapshots" / "abc"
    place.mkdir(parents=True)
    (place / "config.json").write_text("{}")


def test_a_hub_that_refuses_or_is_silent_costs_seconds_and_one_line(monkeypatch, silent):
    monkeypatch.setattr(hub, "SECONDS", 0.5)
    for endpoint, said in (("http://127.0.0.1:1", "cannot be reached"), (silent, "")):
        hub.only_here.cache_clear()
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        began = time.monotonic()
        with pytest.raises(UserError, match="hf download nobody/nothing") as caught:
            hub.only_here("nobody/nothing")
        assert said in str(caught.value) and "\n" not in str(caught.value)
        assert time.monotonic() - began < 20.0


def test_a_model_that_is_here_is_loaded_from_here(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    cached(tmp_path, "some/model")
    assert hub.only_here("some/model")


def test_offline_is_told_without_asking_anybody(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match="HF_HUB_OFFLINE is set"):
        hub.only_here("nobody/nothing")


def test_a_hub_that_answers_has_the_word_whatever_it_says(monkeypatch):
    class Nothing(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Nothing)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
    assert not hub.only_here("nobody/nothing")
    server.shutdown()
