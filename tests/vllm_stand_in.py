"""A server process that speaks the part of vLLM's API that VllmGenerator uses, with a real model and no vLLM.

python tests/vllm_stand_in.py FOLDER: serves the model in FOLDER on a free loopback port, which it prints.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from swarm_node.algorithm.distribution import SamplingRule, log_distribution


class Engine:
    def __init__(self, folder: Path) -> None:
        self.folder, self.lock, self.calls = folder, Lock(), []
        self.model: Any = None

    def rpc(self, body: dict[str, Any]) -> dict[str, Any]:
        assert body == {"method": "reload_weights"}
        with self.lock:
            self.model = AutoModelForCausalLM.from_pretrained(self.folder).eval()
        return {"results": [None]}

    @torch.no_grad()
    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        assert body["model"] == str(self.folder) and body["return_token_ids"] and body["logprobs"] == 0
        rule = SamplingRule(body["temperature"], body["top_p"], max(0, body["top_k"]))
        generator = torch.Generator().manual_seed(body["seed"])
        with self.lock:
            return {"choices": [self._choice(body, rule, generator) for _ in range(body["n"])]}

    def _choice(self, body: dict[str, Any], rule: SamplingRule, generator: torch.Generator) -> dict[str, Any]:
        ids, log_probs = list(body["prompt"]), []
        for _ in range(body["max_tokens"]):
            log_p = log_distribution(self.model(torch.tensor([ids])).logits[0, -1], rule)
            token = int(torch.multinomial(log_p.exp(), 1, generator=generator))
            ids.append(token)
            log_probs.append(float(log_p[token]))
            if token in body["stop_token_ids"]:
                break
        said = ids[len(body["prompt"]) :]
        return {"token_ids": said, "logprobs": {"token_logprobs": log_probs}, "finish_reason": "stop"}


def main() -> None:
    engine = Engine(Path(sys.argv[1]))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # connections stay open, as vLLM's do

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            routes = {
                "/v1/completions": engine.complete,
                "/collective_rpc": engine.rpc,
                "/reset_prefix_cache": lambda _: {},
            }
            reply = json.dumps(routes[self.path](body)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)  # noqa: T201
    server.serve_forever()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
