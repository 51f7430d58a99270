"""vLLM as a generator: its OpenAI-compatible server, in a process and if wanted on a GPU of its own.

The server rather than the offline engine: it keeps its memory apart from the trainer's, survives it, and may be any
version that speaks this API. Started by the user, in the folder to which the weights are written here:

    VLLM_SERVER_DEV_MODE=1 vllm serve FOLDER --enable-prefix-caching --logprobs-mode processed_logprobs

Token ids go there and come back, so nothing is tokenised twice, and log-probs are those of the distribution sampled
from. After each update the weights are written to the folder, the server reloads them and forgets its prefixes.
"""

import hashlib
import shutil
import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import fmean
from typing import Any

import httpx
import torch

from protocol.limits import MAX_COMPLETION_CHARS
from protocol.messages import Completion
from swarm_node.algorithm.distribution import SamplingRule, log_probs_of
from swarm_node.common.errors import UserError
from swarm_node.compute.generation.pacing import Pace
from swarm_node.compute.policy import Policy
from swarm_node.rollouts.groups import GeneratedGroup, Skipped, Tokens
from swarm_node.settings import GenerationConfig

MOST_REQUESTS = 64  # at the same time; each is a prompt and its group
IDLE_SECONDS = 2.0  # until an unused connection is closed: the server does after 5, also when a request is on its way
DISAGREEMENT = 0.1  # nats per token on average that server and trainer may differ by; bfloat16 comes to 0.01 or 0.02


class ServerError(Exception):
    """The server refused, or could not be reached."""


class VllmGenerator:
    """Implements interfaces.Generator with a vLLM server that holds the policy's weights."""

    def __init__(self, policy: Policy, config: GenerationConfig) -> None:
        if hasattr(policy.model, "disable_adapter"):
            raise UserError("generation.vllm_url needs all weights trained: the server would not see LoRA adapters")
        self._policy, self._config = policy, config
        self._url = config.vllm_url.rstrip("/")
        self._folder = config.vllm_folder.expanduser()
        self._pace = Pace(config.max_concurrent_tokens, config.max_completion_length)
        self._client = httpx.Client(
            timeout=config.vllm_timeout,
            limits=httpx.Limits(max_connections=MOST_REQUESTS, keepalive_expiry=IDLE_SECONDS),
            follow_redirects=False,  # no other server has the weights
            verify=ssl.create_default_context(),  # the authorities that this machine trusts
        )
        self._served: int | None = None  # version of the weights that the server has
        self._checked = False

    @property
    def decoder_name(self) -> str:
        return "vLLM"

    def generate(self, prompts: Sequence[str], group_size: int, stream: str) -> list[GeneratedGroup | Skipped]:
        """See interfaces.Generator. Where the server fails, its prompts are skipped; where it cannot be had at all or
        serves another model, UserError."""
        self._refresh()
        encoded = [self._policy.encode_prompt(prompt) for prompt in prompts]
        length = fmean(map(len, encoded)) if encoded else 0.0
        workers = min(MOST_REQUESTS, max(1, self._pace.admits(length) // group_size))
        streams = [f"{stream}/{number}" for number in range(len(encoded))]
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(self._group, encoded, streams, [group_size] * len(encoded)))

    def close(self) -> None:
        self._client.close()

    def _group(self, prompt: list[int], stream: str, group_size: int) -> GeneratedGroup | Skipped:
        config = self._config
        if not 0 < len(prompt) <= self._policy.context_length - config.max_completion_length:
            return Skipped("prompt longer than the context")
        request = {
            "model": str(self._folder),
            "prompt": prompt,
            "n": group_size,
            "max_tokens": config.max_completion_length,
            "temperature": config.temperature,
            "top_p": config.top_p,
            "top_k": config.top_k or -1,
            "seed": int.from_bytes(hashlib.sha256(stream.encode()).digest()[:4], "big") >> 1,
            "logprobs": 0,
            "return_token_ids": True,
            "stop_token_ids": sorted(self._policy.eos_ids),
        }
        try:
            choices = self._ask("/v1/completions", request)["choices"]
            tokens = [_tokens(choice, self._policy.version) for choice in choices]
        except (ServerError, KeyError, TypeError, ValueError):
            return Skipped("vLLM failed")
        if len(tokens) != group_size:
            return Skipped("vLLM failed")
        self._check(prompt, tokens[0])
        self._pace.saw([len(one.ids) for one in tokens])
        return self._written(tokens)

    def _written(self, tokens: list[Tokens]) -> GeneratedGroup | Skipped:
        ended = [one.ids[-1] in self._policy.eos_ids for one in tokens]
        texts = self._policy.decode(
            [list(one.ids[: len(one.ids) - end]) for one, end in zip(tokens, ended, strict=True)]
        )
        if max(map(len, texts)) > MAX_COMPLETION_CHARS:
            return Skipped("completion longer than the protocol allows")
        completions = (Completion(text=text, ended=end) for text, end in zip(texts, ended, strict=True))
        return GeneratedGroup(tuple(completions), tuple(tokens))

    def _refresh(self) -> None:
        """Hand over the present weights, unless the server has them."""
        if self._served == self._policy.version:
            return
        partial = self._folder.with_name(self._folder.name + ".partial")
        self._policy.save(partial)
        self._folder.mkdir(parents=True, exist_ok=True)
        for file in partial.iterdir():
            file.replace(self._folder / file.name)
        shutil.rmtree(partial)
        try:
            self._ask("/collective_rpc", {"method": "reload_weights"})
            self._ask("/reset_prefix_cache", {})
        except ServerError as error:
            raise UserError(
                f"no vLLM server at {self._url} reloads its weights ({error}): start it with VLLM_SERVER_DEV_MODE=1 "
                f"vllm serve {self._folder} --enable-prefix-caching --logprobs-mode processed_logprobs"
            ) from error
        self._served = self._policy.version

    @torch.no_grad()
    def _check(self, prompt: list[int], tokens: Tokens) -> None:
        """Once: whether the server's log-probs are those of this policy."""
        if self._checked:
            return
        ids = torch.tensor([[*prompt, *tokens.ids]], device=self._policy.device)
        logits = self._policy.forward(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 : -1]
        rule = SamplingRule(self._config.temperature, self._config.top_p, self._config.top_k)
        ours = log_probs_of(logits, ids[0, len(prompt) :], rule)
        difference = (ours.cpu() - torch.tensor(tokens.log_probs)).abs().mean().item()
        if not difference <= DISAGREEMENT:
            raise UserError(
                f"the vLLM server's log-probs differ from the trainer's by {difference:.2f} nats per token: does it "
                f"serve {self._folder}, with --logprobs-mode processed_logprobs?"
            )
        self._checked = True

    def _ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        try:
            reply = self._client.post(self._url + path, json=body)
            if not reply.is_success:
                raise ServerError(f"HTTP error {reply.status_code}: {reply.reason_phrase}")
            return dict(reply.json()) if reply.content.strip() else {}
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise ServerError(str(error) or type(error).__name__) from error


def _tokens(choice: dict[str, Any], version: int) -> Tokens:
    """Raises KeyError, TypeError or ValueError where the server said something else."""
    ids = tuple(int(number) for number in choice["token_ids"])
    log_probs = tuple(float(number) for number in choice["logprobs"]["token_logprobs"])
    if not ids or len(ids) != len(log_probs):
        raise ValueError("as many log-probs as tokens, and at least one")
    return Tokens(ids, log_probs, (version,) * len(ids))
