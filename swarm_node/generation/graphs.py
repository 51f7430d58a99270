"""On a CUDA device a step of the decoder is recorded once and replayed, as a CUDA graph.

A step of a small model is hundreds of kernels that take less time to run than to launch: with 64 completions of a model
of 0.5 B on an H200 nine tenths of a step were launches (docs/results/speed.md).
"""

import torch
from torch import Tensor

from swarm_node.generation.block import Drawing, Slots, Work, block
from swarm_node.generation.pacing import Astray
from swarm_node.policy.device import probed
from swarm_node.policy.llama.llama_decoder import LlamaDecoder
from swarm_node.policy.policy import COARSE, Policy, agreement


class _Recorded:
    """A step with its inputs and outputs at fixed places."""

    def __init__(self, decoder: LlamaDecoder, drawing: Drawing, uniform: Tensor, at: Slots) -> None:
        self._uniform, self._at, self._graph = uniform.clone(), at.clone(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            after, self._taken = drawing(decoder.step(self._at.token, self._at.running), self._uniform, self._at)
            self._at.copy_(after)

    def __call__(self, uniform: Tensor, at: Slots) -> tuple[Slots, Tensor]:
        """As a step of `block`. The next call writes over what it returns."""
        self._uniform.copy_(uniform)
        if at is not self._at:
            self._at.copy_(at)
        self._graph.replay()
        return self._at, self._taken


class Graphs:
    """Implements block.Work for one prefill of our own decoder."""

    def __init__(self) -> None:
        self._known: tuple[int, int] | None = None  # moves of the buffers, and slots, of the latest step
        self._recorded: _Recorded | None = None

    def __call__(
        self, decoder: LlamaDecoder, drawing: Drawing, uniform: Tensor, at: Slots
    ) -> tuple[Slots, Tensor, Tensor]:
        """See `block`. The first step after the buffers have moved is not recorded: it loads and compiles kernels,
        which a recording cannot."""
        tokens = torch.empty(uniform.shape, dtype=at.token.dtype, device=uniform.device)
        log_probs = torch.empty(uniform.shape, device=uniform.device)
        for k, one in enumerate(uniform.unbind(0)):
            if self._known != (decoder.moves, len(one)):
                self._known, self._recorded = (decoder.moves, len(one)), None
                after, tokens[k : k + 1], log_probs[k : k + 1] = block(decoder, drawing, one[None], at)
            else:
                self._recorded = self._recorded or _Recorded(decoder, drawing, one, at)
                after, taken = self._recorded(one, at)
                tokens[k], log_probs[k] = after.token, taken
            at = after
        return at.clone(), tokens, log_probs


@torch.inference_mode()
def replays(policy: Policy) -> bool | None:
    """Whether steps that are replayed give the log-probs of those that are not. None where they fail."""
    vocabulary = policy.model.get_input_embeddings().weight.shape[0]
    prompts = [[7 % vocabulary, 11 % vocabulary, 3 % vocabulary], [5 % vocabulary]]
    drawing = Drawing(1.0, torch.tensor([-1], device=policy.device), Astray(0.0))
    uniform = torch.full((6, 4), 0.5, dtype=torch.float64, device=policy.device)

    def written(work: Work) -> Tensor:
        decoder = LlamaDecoder(policy)
        at, _ = drawing(decoder.prefill(prompts, 2, 6), uniform[0], Slots.start(4, policy.device))
        decoder.reserve(6)
        return work(decoder, drawing, uniform, at)[2]

    found = probed(lambda: (written(Graphs()), written(block)), "in trying CUDA graphs")
    return None if found is None else agreement(*found, COARSE)
