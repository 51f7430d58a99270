"""One decoder serves all rounds of a policy with adapters, and generates what a new one would."""

from typing import ClassVar

import pytest
import torch

from swarm_node.generation import block
from swarm_node.generation import generator as module
from swarm_node.generation.generator import BatchGenerator
from swarm_node.policy import memory_plan
from swarm_node.policy.llama import llama_decoder
from swarm_node.policy.llama.llama_decoder import LlamaDecoder
from swarm_node.policy.memory_plan import fitted
from swarm_node.policy.plan import GIB
from swarm_node.rollouts.groups import Completions
from swarm_node.settings import GenerationConfig, LearningConfig, LimitsConfig, ModelConfig
from tests.groups import episodes_of, tokens_of
from tests.models import MANY_EOS, tiny_policy, with_lora

PROMPTS = ["1+1=", "a longer question:", "x"]
FAMILIES = ["Llama", "Qwen2", "Qwen3"]


def adapted(family: str = "Qwen2", **options):
    """A policy whose adapters have been trained for a while."""
    policy = with_lora(tiny_policy(family, eos=MANY_EOS, **options))
    trained(policy, 1)
    policy.keeps_decoder = True
    return policy


def trained(policy, seed: int) -> None:
    """As after an update: other adapters, and the next version."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in policy.model.parameters():
            if weight.requires_grad:
                weight.add_(0.1 * torch.randn(weight.shape, generator=random))
    policy.version += 1


@torch.inference_mode()
def logits(decoder: LlamaDecoder) -> torch.Tensor:
    found = [decoder.prefill([[3, 4, 5], [6, 7]], 2, 8)]
    decoder.reserve(2)
    running = torch.ones(4, dtype=torch.bool)
    found += [decoder.step(torch.tensor([5, 6, 7, 8]) + k, running).clone() for k in range(2)]
    return torch.cat(found)


@pytest.fixture
def made(monkeypatch) -> list[LlamaDecoder]:
    """The decoders that are made."""
    found, begin = [], LlamaDecoder.__init__

    def counted(self, *arguments, **options) -> None:
        found.append(self)
        begin(self, *arguments, **options)

    monkeypatch.setattr(LlamaDecoder, "__init__", counted)
    return found


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_adapters_beside_the_base_give_the_logits_of_merged_ones(
    family, packed, monkeypatch
) -> None:
    monkeypatch.setattr(llama_decoder, "PACKED_FROM", 0 if packed else 2**30)
    policy = adapted(family)
    merged, beside = logits(LlamaDecoder(policy)), logits(LlamaDecoder(policy, merged=False))
    assert (merged - beside).abs().max() <= 1e-4
    before = beside.clone()
    trained(policy, 2)
    assert (logits(LlamaDecoder(policy)) - before).abs().max() > 1e-2, "adapters change nothing"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_renewed_decoder_is_as_a_new_one(family) -> None:
    policy = adapted(family)
    decoder = LlamaDecoder(policy, merged=False)
    logits(decoder)
    for seed in (2, 3):
        trained(policy, seed)
        decoder.renew()
        assert torch.equal(logits(decoder), logits(LlamaDecoder(policy, merged=False)))
    with pytest.raises(ValueError, match="merged"):
        LlamaDecoder(policy).renew()


def test_one_decoder_generates_all_rounds_as_new_ones_would(made) -> None:
    policy, config = adapted(), GenerationConfig(max_completion_length=12)
    kept = BatchGenerator(policy, config, decoder="native")
    policy.keeps_decoder = False
    anew = BatchGenerator(policy, config, decoder="native")
    made.clear()
    for number in range(4):
        both = [each.generate(PROMPTS, 4, str(number)) for each in (kept, anew)]
        for ours, reference in zip(*both, strict=True):
            assert isinstance(ours, Completions) and isinstance(reference, Completions)
            assert episodes_of(ours) == episodes_of(reference)
            for mine, theirs in zip(tokens_of(ours), tokens_of(reference), strict=True):
                assert mine.ids == theirs.ids
                assert mine.log_probs == pytest.approx(theirs.log_probs, abs=1e-4)
        trained(policy, number)
    assert len(made) == 1 + 4, "one for all rounds, and a new one for each"


def test_between_rounds_a_decoder_holds_weights_alone() -> None:
    policy = adapted()
    generator = BatchGenerator(policy, GenerationConfig(), decoder="native")
    generator.generate(PROMPTS, 4, "s")
    ((decoder, _),) = generator._between
    buffers = (decoder._prefix, decoder._suffix, decoder._columns, decoder._before)
    assert not any(buffers)
    assert decoder._cos.numel() == decoder._bias.numel() == 0


def test_turns_have_a_decoder_of_their_own(made) -> None:
    """It knows the contexts of the turn before, which a round in between must not change."""
    policy = adapted()
    generator = BatchGenerator(policy, GenerationConfig(max_completion_length=4), decoder="native")
    ask = generator.open(goes_on=True)
    first = ask(PROMPTS[:2], 2, "s")
    generator.generate(PROMPTS, 2, "t")
    contexts = [[*group.prompt_ids, *tokens_of(group)[0].ids, 5] for group in first]
    alone = BatchGenerator(policy, GenerationConfig(max_completion_length=4), decoder="native")
    asking = alone.open(goes_on=True)
    asking(PROMPTS[:2], 2, "s")
    assert ask(contexts, 2, "u") == asking(contexts, 2, "u")


def test_after_a_shortage_of_memory_the_decoder_is_let_go(monkeypatch) -> None:
    policy = adapted()
    generator = BatchGenerator(policy, GenerationConfig(), decoder="native")
    whole = generator.generate(PROMPTS, 4, "s")
    prefill, failures = LlamaDecoder.prefill, iter([True])

    def short(self, *arguments):
        if next(failures, False):
            raise MemoryError
        return prefill(self, *arguments)

    monkeypatch.setattr(LlamaDecoder, "prefill", short)
    ((before, _),) = generator._between
    assert [episodes_of(each) for each in generator.generate(PROMPTS, 4, "s")] == [
        episodes_of(each) for each in whole
    ]
    assert generator._between[0][0] is not before


@pytest.mark.parametrize(
    ("completion", "kept"), [(module.UNMERGED_UP_TO, True), (module.UNMERGED_UP_TO + 1, False)]
)
def test_long_completions_have_adapters_merged(completion, kept, made) -> None:
    """Each of their tokens would pay for adapters that a round pays for once."""
    policy = adapted(max_position_embeddings=512)
    config = GenerationConfig(max_completion_length=completion)
    generator = BatchGenerator(policy, config, decoder="native")
    made.clear()
    for number in range(2):
        generator.generate(PROMPTS[:1], 2, str(number))
    assert len(made) == (1 if kept else 2)


@pytest.mark.parametrize(("room", "kept"), [(16 * GIB, True), (2 * GIB, False)])
def test_a_decoder_is_kept_where_memory_is_plentiful(room, kept, monkeypatch) -> None:
    monkeypatch.setattr(memory_plan, "room_of", lambda device, limits: float(room))
    policy = with_lora(tiny_policy())
    fitted(LearningConfig(model=ModelConfig(lora_rank=4)), policy, LimitsConfig())
    assert policy.keeps_decoder is kept
    full = tiny_policy()
    fitted(LearningConfig(), full, LimitsConfig())
    assert not full.keeps_decoder, "all weights change with each update"


# --- one copy of the base, as on a card -----------------------------------------------------------


@pytest.fixture
def as_on_a_card(monkeypatch) -> None:
    """The decoder multiplies by the base's own weights, in no layout of its own."""
    for place in (llama_decoder, module):
        monkeypatch.setattr(place, "shares", lambda device: True)
    monkeypatch.setattr(llama_decoder, "_worth_packing", lambda weight: False)


def storages(policy) -> set[int]:
    """Where the weights of the model lie."""
    return {weight.untyped_storage().data_ptr() for weight in policy.model.parameters()}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_decoder_has_no_weight_of_its_own(family, as_on_a_card) -> None:
    policy = adapted(family)
    wanted = [weight.clone() for weight in policy.model.parameters()]
    decoder = LlamaDecoder(policy, merged=False)
    assert all(map(torch.equal, policy.model.parameters(), wanted))
    for layer in decoder._layers:
        for product in (layer.qkv, layer.out, layer.gate_up, layer.down):
            assert product.weight.untyped_storage().data_ptr() in storages(policy)
    again = LlamaDecoder(policy, merged=False)
    for one, other in zip(decoder._layers, again._layers, strict=True):
        assert one.qkv.weight.data_ptr() == other.qkv.weight.data_ptr()
        assert torch.equal(one.gate_up.weight, other.gate_up.weight)


@pytest.mark.parametrize("family", FAMILIES)
def test_with_one_copy_log_probs_are_those_of_transformers_with_peft(family, as_on_a_card) -> None:
    policy, prompt = adapted(family), [3, 4, 5]
    policy.keeps_decoder = False
    config = GenerationConfig(max_completion_length=12)
    generator = BatchGenerator(policy, config, decoder="native")
    for number in range(3):
        (group,) = generator.open(goes_on=True)([prompt], 4, str(number))
        whole = generator.generate(PROMPTS, 4, str(number))
        for each in (group, *whole):
            assert isinstance(each, Completions)
            for tokens in tokens_of(each):
                ids = torch.tensor([[*each.prompt_ids, *tokens.ids]])
                with torch.no_grad():
                    scores = policy.model(input_ids=ids).logits[0, len(each.prompt_ids) - 1 : -1]
                chosen = torch.log_softmax(scores, -1).gather(1, torch.tensor(tokens.ids)[:, None])
                assert tokens.log_probs == pytest.approx(chosen[:, 0].tolist(), abs=1e-4)
        trained(policy, number)


def test_a_policy_trains_on_weights_that_its_decoder_shares(as_on_a_card) -> None:
    policy = adapted()
    with torch.inference_mode():  # as while it generates
        LlamaDecoder(policy, merged=False)
    loss = policy.model(input_ids=torch.tensor([[3, 4, 5]])).logits.sum()
    loss.backward()
    gradients = [weight.grad for weight in policy.model.parameters() if weight.requires_grad]
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients)


def test_long_completions_too_have_one_decoder_on_a_card(as_on_a_card, made) -> None:
    policy = adapted(max_position_embeddings=512)
    config = GenerationConfig(max_completion_length=module.UNMERGED_UP_TO + 1)
    generator = BatchGenerator(policy, config, decoder="native")
    made.clear()
    for number in range(3):
        generator.generate(PROMPTS[:1], 2, str(number))
    assert len(made) == 1


# --- recordings that serve all rounds ------------------------------------------------------------


class Standing:
    """Stands in for a recording, which only a card can make: takes the step, and finds what it
    reads and writes at the places of the first time.
    """

    made: ClassVar[list["Standing"]] = []

    def __init__(self, decoder, drawing, uniform, at, beside=None) -> None:
        self._decoder, self._drawing, self._at = decoder, drawing, at.clone()
        self._places = places_of(decoder)
        self.made.append(self)

    def __call__(self, uniform, at):
        assert places_of(self._decoder) == self._places
        self._at.copy_(at)
        after, taken = self._drawing(
            self._decoder.step(self._at.token, self._at.running), uniform, self._at
        )
        self._at.copy_(after)
        return self._at, taken


def places_of(decoder: LlamaDecoder) -> list[tuple]:
    """Where all that a step reads and writes lies, and its shapes."""
    tensors = [decoder._cos, decoder._sin, decoder._bias, decoder._at, decoder._embedding]
    tensors += [tensor for pair in (*decoder._prefix, *decoder._suffix) for tensor in pair]
    for layer in decoder._layers:
        for product in (layer.qkv, layer.out, layer.gate_up, layer.down):
            tensors += [product.weight, product.down, product.up]
        tensors += [layer.input_norm, layer.mlp_norm]
    return [(x.data_ptr(), tuple(x.shape)) for x in tensors if x is not None]


@pytest.fixture
def recorded(monkeypatch, as_on_a_card) -> list[Standing]:
    """The recordings that are made."""
    monkeypatch.setattr(block, "_Recorded", Standing)
    monkeypatch.setattr(Standing, "made", [])
    return Standing.made


def replaying(policy, **options) -> BatchGenerator:
    config = GenerationConfig(max_completion_length=40, **options)
    generator = BatchGenerator(policy, config, decoder="native")
    generator._block, generator.replays = block.BLOCK, True
    return generator


def asked(number: int) -> list[str]:
    """Prompts of other lengths each round."""
    return [text + "?" * (number + k) for k, text in enumerate(PROMPTS)]


@pytest.mark.parametrize("kind", ["adapters", "all weights in bfloat16"])
def test_a_step_is_recorded_once_for_twenty_rounds(kind, recorded) -> None:
    lora = kind == "adapters"
    policy = adapted() if lora else tiny_policy("Qwen2", autocast=torch.bfloat16)
    policy.eos_ids, policy.keeps_decoder = (
        frozenset({2**20}),
        True,
    )  # all are as long as they may be
    generator = replaying(policy)
    for number in range(20):
        generator.generate(asked(number), 4, str(number))
        if number == 1:
            first = len(recorded)
        with torch.no_grad():
            for weight in policy.model.parameters():
                if weight.requires_grad:
                    weight.mul_(1.01)
        policy.version += 1
    assert first == 1, "one size: 3 prompts, 4 completions, room for 40 tokens"
    assert len(recorded) == first, "made once"


@pytest.mark.parametrize("kind", ["adapters", "all weights"])
def test_replayed_rounds_are_those_of_new_decoders(kind, recorded, monkeypatch) -> None:
    """With natural endings, for which slots are moved together."""
    policy = adapted("Qwen3") if kind == "adapters" else tiny_policy("Qwen3", eos=MANY_EOS)
    policy.keeps_decoder = True
    generator = replaying(policy)
    for number in range(4):
        ours = generator.generate(asked(number), 4, str(number))
        reference = BatchGenerator(policy, generator._config, decoder="model")
        for mine, theirs in zip(
            ours, reference.generate(asked(number), 4, str(number)), strict=True
        ):
            assert episodes_of(mine) == episodes_of(theirs)
            for one, other in zip(tokens_of(mine), tokens_of(theirs), strict=True):
                assert one.log_probs == pytest.approx(other.log_probs, abs=1e-4)
        with torch.no_grad():
            for weight in policy.model.parameters():
                weight.mul_(1.02)
        policy.version += 1
    assert len(recorded) <= 6, "sizes are halves, and come again"


def test_where_memory_is_short_nothing_of_a_round_stays(recorded) -> None:
    policy = adapted()
    policy.keeps_decoder = False
    generator = replaying(policy)
    for number in range(2):
        generator.generate(asked(number), 4, str(number))
        ((decoder, graphs),) = generator._between
        assert not decoder._places._pieces and not graphs._recorded


def test_sizes_are_halved_where_a_step_is_recorded_for_each() -> None:
    running = torch.zeros(6, 8, dtype=torch.bool)
    running[1, 2] = running[4, [0, 5, 6]] = True
    slots = module.still_running(running, by_halves=True)
    assert slots.shape == (2, 4)
    assert {10, 32, 37, 38} <= {*slots.flatten().tolist()}
    running[5] = True
    slots = module.still_running(running, by_halves=True)
    assert slots.shape == (3, 8) and len({*slots.flatten().tolist()}) == 24
