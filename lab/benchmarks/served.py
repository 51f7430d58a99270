"""An OpenAI-compatible server on loopback, good or hostile, as the test or study wants it.

`python -m lab.benchmarks.served MODEL` serves a real model of ours, in a process of its own, and
prints its address.
"""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

Respond = Callable[["Handler", dict[str, Any]], None]


class Api(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, respond: Respond) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.respond = respond
        self.address = f"http://127.0.0.1:{self.server_address[1]}/v1"
        self.keys: list[str] = []
        self.asked: list[dict[str, Any]] = []
        self.stopped = threading.Event()


class Quiet(BaseHTTPRequestHandler):
    """Answers with JSON or bytes, and prints nothing."""

    def log_message(self, *_: object) -> None:
        pass

    def say(self, value: Any, status: int = 200, **headers: str) -> None:
        self.raw(
            json.dumps(value).encode(), status, **{"Content-Type": "application/json", **headers}
        )

    def raw(self, content: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, text in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


class Handler(Quiet):
    server: Api

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.keys.append(self.headers.get("Authorization", ""))
        self.server.asked.append(body)
        with suppress(OSError):  # the client has hung up
            self.server.respond(self, body)


def choices(*texts: str) -> dict[str, Any]:
    said = [
        {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        for text in texts
    ]
    return {"choices": said, "usage": {"total_tokens": 40}}


Server = TypeVar("Server", bound=ThreadingHTTPServer)


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def api_on_loopback(respond: Respond) -> Iterator[Api]:
    with serving(Api(respond)) as api:
        try:
            yield api
        finally:
            api.stopped.set()


def main() -> None:
    from swarm_node.generation.generator import BatchGenerator
    from swarm_node.policy.loading import load_policy
    from swarm_node.rollouts.groups import Completions
    from swarm_node.settings import GenerationConfig, ModelConfig

    policy, lock, count = load_policy(ModelConfig(name=sys.argv[1])), threading.Lock(), [0]

    def respond(handler: Handler, body: dict[str, Any]) -> None:
        config = GenerationConfig(
            temperature=body["temperature"], max_completion_length=min(body["max_tokens"], 16)
        )
        with lock:
            count[0] += 1
            generator = BatchGenerator(policy, config)
            (made,) = generator.generate(
                [body["messages"][0]["content"]], body["n"], f"served/{count[0]}"
            )
        assert isinstance(made, Completions), made
        handler.say(choices(*(sample.episode.text for sample in made.samples)))

    api = Api(respond)
    sys.stdout.write(f"{api.address}\n")
    sys.stdout.flush()
    api.serve_forever()


if __name__ == "__main__":
    main()
