"""What a token costs a device, by decoder: operator calls and waits; and that a block can be one
graph.
"""

from unittest.mock import patch

import pytest
import torch

from swarm_node.generation import block as blocks
from swarm_node.generation import generator as generators
from swarm_node.generation import sampling
from swarm_node.generation.decoding import ModelDecoder, RecomputeDecoder
from swarm_node.generation.generator import BatchGenerator
from swarm_node.policy.llama.llama_decoder import LlamaDecoder
from swarm_node.policy.policy import Policy
from swarm_node.settings import GenerationConfig
from tests.groups import tokens_of
from tests.launches import Launches
from tests.models import MANY_EOS, VOCABULARY, tiny_policy, with_lora

PROMPTS = [[5] * 20, [6] * 12, [7] * 9]


def endless(lora: bool = False, **options) -> Policy:
    policy = tiny_policy("Qwen2", eos=(), **options)
    policy = with_lora(policy) if lora else policy
    policy.eos_ids = frozenset({VOCABULARY + 5})
    return policy


def counted(policy: Policy, decoder: type, length: int) -> Launches:
    generator = BatchGenerator(
        policy, GenerationConfig(max_completion_length=length), decoder="model"
    )
    generator._decoder_type, generator._block = decoder, blocks.BLOCK
    launches = Launches()

    def work(*arguments):
        with launches.block():
            return blocks.block(*arguments)

    with patch.object(generators, "block", work), launches:
        generator._begin(generator._stops)._decode(PROMPTS, 4, "x", 0)
    return launches


def between(policy: Policy, decoder: type) -> tuple[float, float, float, float]:
    """Per token of the second block: operator calls outside and inside blocks, waits outside and
    inside.
    """
    short, long = (counted(policy, decoder, 1 + blocks.BLOCK * k) for k in (1, 2))
    waits = (
        sum(long.waits.values()) - sum(short.waits.values()),
        long.waits_inside - short.waits_inside,
    )
    figures = (
        long.outside - short.outside,
        long.inside - short.inside,
        waits[0] - waits[1],
        waits[1],
    )
    outside, inside, wait_outside, wait_inside = (figure / blocks.BLOCK for figure in figures)
    return outside, inside, wait_outside, wait_inside


@pytest.mark.parametrize("lora", [False, True], ids=["weights", "adapters"])
@pytest.mark.parametrize("autocast", [None, torch.bfloat16], ids=["float32", "bfloat16"])
def test_a_token_of_our_decoder_waits_for_nothing_inside_a_block(lora, autocast) -> None:
    outside, inside, waits, waits_inside = between(endless(lora, autocast=autocast), LlamaDecoder)
    assert outside <= 4
    assert inside <= 2 * 30 + 30  # 30 for each of two layers, and 30 for drawing
    assert waits <= 3 / blocks.BLOCK and waits_inside == 0


def test_adapters_cost_a_token_nothing() -> None:
    assert between(endless(True), LlamaDecoder) == between(endless(), LlamaDecoder)


def test_the_models_forward_casts_no_weight_again() -> None:
    policy = endless(autocast=torch.bfloat16)
    assert counted(policy, ModelDecoder, 1 + blocks.BLOCK).cast_weights_inside == 0
    outside, _, _, waits_inside = between(policy, ModelDecoder)
    assert outside <= 10
    assert waits_inside <= 1  # transformers looks at its mask


def test_blocks_give_the_text_that_single_tokens_give() -> None:
    policy = tiny_policy("Qwen2", eos=MANY_EOS)
    for decoder in (LlamaDecoder, ModelDecoder, RecomputeDecoder):
        texts = []
        for size in (1, 5, blocks.BLOCK):
            generator = BatchGenerator(
                policy, GenerationConfig(max_completion_length=40, stop_below=-4.0)
            )
            generator._decoder_type, generator._block = decoder, size
            groups = generator.generate(["1+1=", "a longer question", "x"], 4, "s")
            texts.append([tokens.ids for group in groups for tokens in tokens_of(group)])  # type: ignore[union-attr]
        assert texts[0] == texts[1] == texts[2] and len(set(map(len, texts[0]))) > 3


@pytest.mark.slow
def test_a_block_is_one_graph_to_the_compiler() -> None:
    """The graph has no break, since nothing in a block needs the host."""
    policy = tiny_policy("Qwen2", eos=MANY_EOS)
    whole = torch.compile(blocks.block, fullgraph=True, backend="eager", dynamic=False)
    found = []
    for work in (blocks.block, whole):
        decoder = LlamaDecoder(policy)
        eos = torch.tensor(sorted(policy.eos_ids))
        drawing = blocks.Drawing(1.0, eos, blocks.Astray(-4.0, 0.9))
        with torch.no_grad():
            logits = decoder.prefill(PROMPTS, 2, 40)
            at, _ = drawing(
                logits, sampling.uniforms("x", 1, 6)[0], blocks.Slots.start(6, policy.device)
            )
            decoder.reserve(4)
            found.append(work(decoder, drawing, sampling.uniforms("y", 4, 6), at))
    for ours, compiled in zip(found[0][1:], found[1][1:], strict=True):
        assert torch.equal(ours, compiled)
    assert torch.equal(found[0][0].length, found[1][0].length)


def test_the_tied_head_is_the_embedding() -> None:
    tied = LlamaDecoder(tiny_policy("Qwen2"))
    assert tied._head.weight is tied._embedding
    untied = LlamaDecoder(tiny_policy("Llama"))
    assert untied._head.weight is not untied._embedding


@pytest.mark.parametrize("family", ["Qwen2", "Llama"])
def test_there_is_no_copy_of_the_embedding(family) -> None:
    """Where products are in another type, the head has a copy in it, and the embedding none."""
    policy = tiny_policy(family, autocast=torch.bfloat16)
    embedding = policy.model.get_input_embeddings().weight
    assert LlamaDecoder(policy)._embedding.data_ptr() == embedding.data_ptr()


@pytest.mark.parametrize("vocabulary", [100, 128, 1000, 20_000])
@pytest.mark.parametrize("spread", [0.1, 3.0])
def test_two_levels_draw_the_tokens_of_one(vocabulary, spread) -> None:
    generator = torch.Generator().manual_seed(vocabulary)
    log_p = torch.log_softmax(spread * torch.randn(400, vocabulary, generator=generator), -1)
    log_p[:, ::3] = float("-inf")  # as a nucleus leaves it
    uniform = torch.rand(400, dtype=torch.float64, generator=generator)
    assert torch.equal(sampling.in_two_levels(log_p, uniform), sampling.inverse_cdf(log_p, uniform))
    for end in (0.0, 1 - 2**-53):
        token = sampling.in_two_levels(log_p, torch.full((400,), end, dtype=torch.float64))
        assert torch.isfinite(log_p.gather(1, token[:, None])).all()
