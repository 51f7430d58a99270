"""From log-probs to tokens: one uniform number per row and token, sampled ahead from a named
stream.

Uniform numbers are float64, and lie where float64 can be computed: on the device of the log-probs,
or on the CPU beside a device that has none, such as Apple's. Then only a few numbers of each row
cross over for each token.
"""

import hashlib

import torch
import torch.nn.functional as F
from torch import Tensor

# Tokens whose probabilities are added up first; divides the vocabularies of Qwen, Llama and SmolLM
CHUNK = 128


def uniforms(stream: str, steps: int, rows: int) -> Tensor:
    """Uniform numbers [steps, rows], float64 in [0, 1). A row's numbers do not depend on how many
    rows follow it.
    """
    digest = hashlib.sha256(stream.encode()).digest()
    seed = int.from_bytes(digest[:8], "big") >> 1
    generator = torch.Generator().manual_seed(seed)
    by_row = torch.rand(rows, steps, dtype=torch.float64, generator=generator)
    return by_row.T.contiguous()


def draw(log_probs: Tensor, uniform: Tensor) -> Tensor:
    """Tokens [rows] from [rows, vocabulary], on the device of the log-probs: in two levels where
    float64 over the vocabulary is slow.
    """
    # It has fewer operations
    exact = log_probs.device.type == "cpu" and log_probs.shape[-1] <= 32 * CHUNK
    tokens = (inverse_cdf if exact else in_two_levels)(log_probs, uniform)
    # Of log-probs that are no numbers a draw may be one too far, which would end a GPU's process.
    return tokens.clamp_max_(log_probs.shape[-1] - 1)


def inverse_cdf(log_probs: Tensor, uniform: Tensor) -> Tensor:
    """Sample [rows] from [rows, vocabulary] with one uniform number each.

    float64, since the sum over a large vocabulary loses digits; the draw is scaled by the sum
    itself, so the token found always has a positive probability.
    """
    # In place: large, and again for each token
    cumulative = log_probs.double().exp_().cumsum_(dim=-1)
    total = cumulative[:, -1:]
    point = _below(uniform[:, None] * total, total)
    return torch.searchsorted(cumulative, point, right=True)[:, 0]


def in_two_levels(log_probs: Tensor, uniform: Tensor) -> Tensor:
    """Draws tokens as `inverse_cdf` does, with float64 only for the sums of chunks and for one
    chunk of each row, and not for the whole vocabulary.

    Sums of chunks are rounded to float32, which moves the edges between tokens by some 1e-8: about
    one draw in a million falls on the other side.
    """
    exact, here = uniform.device, log_probs.device
    padding = -log_probs.shape[-1] % CHUNK
    padded = F.pad(log_probs, (0, padding), value=float("-inf")) if padding else log_probs
    chunks = padded.view(len(padded), -1, CHUNK)
    sums = chunks.exp().sum(dim=-1).to(exact).double()
    cumulative = sums.cumsum(dim=-1)
    total = cumulative[:, -1:]
    point = _below(uniform[:, None] * total, total)
    which = torch.searchsorted(cumulative, point, right=True)
    before = cumulative.gather(1, which) - sums.gather(1, which)
    index = which.to(here)[:, :, None].expand(-1, -1, CHUNK)
    chunk = chunks.gather(1, index)[:, 0]
    within = chunk.to(exact).double().exp().cumsum(dim=-1)
    point_in_chunk = _below((point - before).clamp_min(0.0), within[:, -1:])
    place = torch.searchsorted(within, point_in_chunk, right=True)
    return (which * CHUNK + place)[:, 0].to(here)


def _below(point: Tensor, total: Tensor) -> Tensor:
    """The point, kept strictly below the total, so that a token with a positive probability is
    found.
    """
    return point.minimum(torch.nextafter(total, torch.zeros_like(total)))
