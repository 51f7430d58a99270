"""A server process that speaks the part of vLLM's API that VllmGenerator uses, with a real model
and no vLLM.

python tests/vllm_stand_in.py --model FOLDER [--port N]: serves the model in FOLDER on loopback, and
prints its port. It ignores options of vLLM that it does not know.
"""

import argparse
import json
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from lab.benchmarks.served import Quiet
from swarm_node.policy.log_probs import log_distribution


class Engine:
    def __init__(self, folder: Path) -> None:
        self.folder, self.lock = folder, Lock()
        self.models: dict[str, Any] = {}
        self.asleep = False

    def rpc(self, body: dict[str, Any]) -> dict[str, Any]:
        assert not self.asleep
        assert body == {"method": "reload_weights"}
        with self.lock:
            self.models[str(self.folder)] = AutoModelForCausalLM.from_pretrained(self.folder).eval()
        return {"results": [None]}

    def load_adapter(self, body: dict[str, Any]) -> str:
        from peft import PeftModel

        assert body["load_inplace"] is True
        with self.lock:
            base = AutoModelForCausalLM.from_pretrained(self.folder)
            self.models[body["lora_name"]] = PeftModel.from_pretrained(
                base, body["lora_path"]
            ).eval()
        return "Success: LoRA adapter added successfully."  # in words, as vLLM does

    def sleep(self, _: dict[str, Any]) -> str:
        self.asleep = True
        return ""

    def wake(self, _: dict[str, Any]) -> str:
        self.asleep = False
        return ""

    @torch.no_grad()
    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        assert not self.asleep
        model = self.models[body["model"]]
        # vLLM refuses others
        assert max(body["stop_token_ids"], default=0) < model.config.vocab_size
        assert [body[name] for name in ("return_token_ids", "logprobs", "top_p", "top_k")] == [
            True,
            0,
            1.0,
            -1,
        ]
        generator = torch.Generator().manual_seed(body["seed"])
        with self.lock:
            return {"choices": [self._choice(model, body, generator) for _ in range(body["n"])]}

    def _choice(
        self, model: Any, body: dict[str, Any], generator: torch.Generator
    ) -> dict[str, Any]:
        ids, log_probs = list(body["prompt"]), []
        for _ in range(body["max_tokens"]):
            log_p = log_distribution(model(torch.tensor([ids])).logits[0, -1], body["temperature"])
            token = int(torch.multinomial(log_p.exp(), 1, generator=generator))
            ids.append(token)
            log_probs.append(float(log_p[token]))
            if token in body["stop_token_ids"] or self._stopped(body, ids[len(body["prompt"]) :]):
                break
        said = ids[len(body["prompt"]) :]
        return {
            "token_ids": said,
            "logprobs": {"token_logprobs": log_probs},
            "finish_reason": "stop",
        }

    def _stopped(self, body: dict[str, Any], said: list[int]) -> bool:
        """Whether a stop string has come. As with vLLM, its tokens are part of the completion."""
        text = AutoTokenizer.from_pretrained(self.folder).decode(said) if body["stop"] else ""
        return any(stop in text for stop in body["stop"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    options, _ = parser.parse_known_args()
    engine = Engine(options.model)

    class Handler(Quiet):
        protocol_version = "HTTP/1.1"  # connections stay open, as vLLM's do

        def do_GET(self) -> None:
            assert self.path == "/health"
            self.reply({})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            routes = {
                "/v1/completions": engine.complete,
                "/collective_rpc": engine.rpc,
                "/v1/load_lora_adapter": engine.load_adapter,
                "/reset_prefix_cache": lambda _: {"success": True},
                "/sleep": engine.sleep,
                "/wake_up": engine.wake,
            }
            self.reply(routes[self.path.partition("?")[0]](body))

        def reply(self, said: dict[str, Any] | str) -> None:
            reply = (said if isinstance(said, str) else json.dumps(said)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

    # As vLLM does; without one, the first weights come later
    if (options.model / "config.json").exists():
        engine.rpc({"method": "reload_weights"})
    server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    print(server.server_port, flush=True)  # noqa: T201
    server.serve_forever()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
