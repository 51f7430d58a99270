"""The memory that a node needs on its device, estimated from its model's shape, and the options
chosen to fit it.

Bytes per token were counted by tracing what autograd keeps of blocks of Llama's family.
docs/results/memory_plan.md compares the figures with traces of whole models and with measured
peaks. Other families are assumed to need the same.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, TypeVar

from swarm_node.policy.log_probs import CHUNK_BYTES, FROZEN_BYTES, is_large
from swarm_node.settings import MICRO_BATCH, LearningConfig

MIB, GIB, LITTLE = 2**20, 2**30, 3 * 2**30  # bytes
LEAST_BUDGET = 512  # tokens of a micro-batch
C = TypeVar("C", bound=LearningConfig)
PROMPT, HEARD = 256, 64  # tokens assumed for a prompt, and for what an environment says to a turn
USABLE = 0.92  # share of a device: allocators leave gaps
# Torch and its libraries, before any model; CUDA's context
PROCESS = {"cpu": 500 * MIB, "cuda": 700 * MIB}
# Bytes that autograd keeps of one token in one block, per unit of: hidden, feed-forward, queries,
# keys and values
KEPT = {
    "float32, native": (16.0, 16.0, 12.25, 22.0),
    "float32": (24.0, 16.0, 12.25, 22.0),
    "mixed": (26.0, 8.0, 8.25, 0.0),
    "adapters": (18.0, 8.0, 10.25, 0.0),
    "mixed, adapters": (26.0, 8.0, 10.25, 0.0),
}
# Per parameter; 8-bit: two bytes, and two scales for 256 numbers
STATE_BYTES = {"adamw": 8.0, "adamw_8bit": 2.06}
# Of an entry of the logits that tokens are drawn from: float32 three times; in
# small vocabularies on a CPU float32 twice and float64 three times
DRAWN_BYTES, EXACT_BYTES, EXACT = 12, 32, 4096
NF4_BYTES = 0.53  # per weight: half a byte, and its share of scales


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a model, its adapters and its questions on which memory depends."""

    layers: int
    hidden: int
    feed_forward: int
    queries: int
    keys: int
    vocabulary: int
    parameters: int  # all but adapters
    tied: bool  # the output head is the embedding
    adapters: int = 0  # parameters
    turns: int = 1  # of a question, at most
    context: int = sys.maxsize  # tokens

    @property
    def embeddings(self) -> int:
        """Parameters of embedding and output head."""
        return self.vocabulary * self.hidden * (1 if self.tied else 2)

    @property
    def block(self) -> int:
        """Parameters of one block."""
        return max(0, self.parameters - self.embeddings) // max(1, self.layers)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The types in which a model is held and computed."""

    device: str  # cpu or cuda
    weight: float  # bytes of a weight of a block
    trained: int  # bytes of a trained parameter, and of its gradient
    product: int  # bytes of a number in matrix products
    native: bool = False  # the hand-written training forward
    # Under LoRA on a CPU: the decoder has a copy of the blocks and the head beside those of the
    # model
    merges: bool = False

    @property
    def four_bits(self) -> bool:
        """Whether weights of blocks have 4 bits: each is written out in full for its product."""
        return self.weight < 1


@dataclass(frozen=True, slots=True)
class FittingOptions:
    """The options that are chosen to fit memory."""

    optimizer: str
    checkpointing: bool
    budget: int  # tokens of a micro-batch
    concurrent: int = 0  # tokens decoded at the same time, 0 for a whole round


@dataclass(frozen=True, slots=True)
class Plan:
    """A choice, and the bytes that it takes for each purpose."""

    choice: FittingOptions
    weights: float  # also those of a reference model
    optimizer: float  # state
    gradients: float  # as large as what a checkpoint saves beside the state
    micro_batch: float  # beside weights, state and gradients
    # Beside weights and state: cache, logits, and a copy of weights in the decoder's layout
    generation: float
    process: float
    room: float  # of the device
    copy: float = 0.0  # of a frozen base's blocks, which the decoder may keep between rounds

    @property
    def total(self) -> float:
        """Bytes at the peak of a round."""
        return (
            self.process
            + self.weights
            + self.optimizer
            + max(self.gradients + self.micro_batch, self.generation)
        )

    def is_little(self, share: float = 1 / 5) -> bool:
        """Whether it takes at most this share of the device, and no more than a node should beside
        other programs.
        """
        return self.total <= min(self.room * share, max(LITTLE, self.room / 8))

    @property
    def keeps_copy(self) -> bool:
        """Whether it is little even with the decoder's copy there while the node trains."""
        return replace(self, weights=self.weights + self.copy).is_little()

    @property
    def keeps_generation(self) -> bool:
        """Whether it fits with all of what generation takes there while the node trains."""
        return replace(self, weights=self.weights + self.generation).fits

    @property
    def fits(self) -> bool:
        return self.total <= USABLE * self.room

    def lines(self) -> list[str]:
        """The plan for people."""
        choice = self.choice
        blocks = "computed again on the way back" if choice.checkpointing else "kept"
        decoded = f", {choice.concurrent} tokens decoded at a time" if choice.concurrent else ""
        parts = {
            "weights": self.weights,
            f"{choice.optimizer} state": self.optimizer,
            "gradients": self.gradients,
            f"a micro-batch of {choice.budget} tokens": self.micro_batch,
            "generation (not at the same time)": self.generation,
        }
        need = ", ".join(f"{name} {amount(size)}" for name, size in parts.items())
        smaller = "does not fit: try model.lora_rank 16, model.quantization nf4, or a smaller model"
        verdict = "fits" if self.fits else smaller
        return [
            f"memory: about {amount(self.total)} of {amount(self.room)}; {verdict}",
            f"    {need}",
            f"    blocks {blocks}{decoded}",
        ]

    def of_checkpoints(self, minutes: float) -> str:
        """What checkpoints take of the disk, for people, with so many minutes between two of them:
        a consumer's disk lasts for some hundred terabytes.
        """
        day = bytes_a_day(self.gradients + self.optimizer, minutes)
        return (
            f"    a checkpoint takes {amount(self.gradients)} of disk, and "
            f"{amount(self.optimizer)} for the state; one every {minutes:g} minutes writes "
            f"{amount(day)} a day (--checkpoint.minutes)"
        )


def amount(size: float) -> str:
    """A number of bytes for a person."""
    return f"{size / GIB:.1f} GiB" if size >= GIB else f"{size / MIB:.0f} MiB"


def plan(shape: Shape, how: Arithmetic, config: LearningConfig, room: float) -> Plan:
    """The plan with the fastest choice that fits; with the last choice if none fits. Adapters on a
    CPU take little memory, but more for a micro-batch of one group, whose prompt is then computed
    once.
    """
    frugal, group = (
        how.device == "cpu" and config.model.lora_rank > 0,
        config.generation.num_generations,
    )
    whole = PROMPT + group * (length(shape, config) - PROMPT)
    for choice in _choices(how, config, whole, frugal):
        made = with_choice(shape, how, config, choice, room)
        made = made if made.fits else _fewer_at_a_time(made, shape, how, config)
        little = made.is_little() or (choice.budget <= whole and made.is_little(1 / 2))
        if made.fits and (little or not frugal or choice.budget <= MICRO_BATCH["adapters"]):
            break
    return made


def with_choice(
    shape: Shape, how: Arithmetic, config: LearningConfig, choice: FittingOptions, room: float
) -> Plan:
    """The plan with one choice. A row of several turns is a micro-batch, however long it is."""
    tokens = length(shape, config)
    lora = config.model.lora_rank > 0
    trained = shape.adapters if lora else shape.parameters
    held = (
        shape.embeddings * (2 if how.weight < 2 else how.weight)
        + shape.block * shape.layers * how.weight
    )
    models = 2 if config.training.beta and not lora else 1  # with the reference
    weights = models * held + shape.adapters * how.trained
    return Plan(
        choice,
        weights,
        trained * STATE_BYTES[choice.optimizer],
        trained * how.trained,
        micro_batch(
            shape, how, lora, max(choice.budget, (shape.turns > 1) * tokens), choice.checkpointing
        ),
        generation(
            *(shape, how, lora, _completions(config, choice, tokens), tokens),
            config.generation.num_generations,
        ),
        PROCESS[how.device],
        room,
        shape.block * shape.layers * how.product if lora and not how.four_bits else 0.0,
    )


def bytes_a_day(saved: float, minutes: float) -> float:
    """What checkpoints of this size, so many minutes apart, write to the disk in a day."""
    return saved * 24 * 60 / minutes


def length(shape: Shape, config: LearningConfig) -> int:
    """Tokens of a completion in all its turns, with its prompt and what the environment says."""
    written = shape.turns * config.generation.max_completion_length
    return min(shape.context, PROMPT + written + (shape.turns - 1) * HEARD)


def micro_batch(
    shape: Shape, how: Arithmetic, lora: bool, tokens: int, checkpointing: bool
) -> float:
    """Bytes that a forward and backward pass takes at its peak, beside weights, state and
    gradients.
    """
    if how.product < 4:
        kind = "mixed, adapters" if lora else "mixed"
    elif lora:
        kind = "adapters"
    else:
        kind = "float32, native" if how.native else "float32"
    sizes = (shape.hidden, shape.feed_forward, shape.queries, shape.keys)
    kept = tokens * sum(size * unit for size, unit in zip(sizes, KEPT[kind], strict=True))
    residual = tokens * shape.hidden * 4
    table = shape.vocabulary * shape.hidden
    # Bytes per weight that autocast keeps for the backward pass
    copy = how.product if how.weight > how.product else 0
    copied, cast = float(shape.block * copy), float(table * copy)  # of a block, and of the head
    chunks = is_large(tokens, shape.vocabulary, shape.hidden, frozen=lora)
    if chunks:
        logits = 3.0 * (FROZEN_BYTES if lora else CHUNK_BYTES)
    else:
        logits = 5.0 * 4 * tokens * shape.vocabulary
    gradients = 0.0 if lora else 4.0 * shape.block  # of one block, before they are added up
    # Its gradient comes last, beside the one it is added to
    embedding = 0.0 if lora else 4.0 * table
    if checkpointing:
        inputs: float = shape.layers * residual
        return max(
            inputs + logits + cast,
            inputs + 1.5 * kept + 2 * copied + gradients,
            embedding + residual,
        )
    inputs = shape.layers * (kept + copied)
    return max(
        inputs + logits + cast, inputs + 0.5 * kept + copied + gradients, embedding + kept + copied
    )


def generation(
    shape: Shape, how: Arithmetic, lora: bool, completions: int, tokens: int, group: int = 1
) -> float:
    """The bytes that decoding this number of completions takes, in addition to the weights. Each
    completion has `tokens` tokens with its prompt. `group`: the number of completions of a prompt,
    whose keys and values are stored once.
    """
    prompts = PROMPT * completions / group
    written = completions * max(0, tokens - PROMPT)
    a_token = shape.layers * 2 * shape.keys * how.product
    cache = (prompts + written) * a_token
    # After a turn each completion has a context of its own. Also a copy to decode from, and a
    # layer's queries, output, keys and values on their way
    if shape.turns > 1:
        whole = completions * tokens
        cache = 2 * whole * a_token + 6 * whole * (shape.queries + shape.keys) * how.product
    exact = how.device == "cpu" and shape.vocabulary <= EXACT
    logits = (EXACT_BYTES if exact else DRAWN_BYTES) * min(completions * shape.vocabulary, 2**31)
    return cache + logits + decoder_weights(shape, how, lora) * how.product


def decoder_weights(shape: Shape, how: Arithmetic, lora: bool) -> float:
    """The weights that the decoder has copies of: those of the blocks and the output head, unless
    it shares them with a frozen base. Of a base in 4 bits it has one at a time.
    """
    if how.four_bits:
        return written_out(shape)
    if lora and not how.merges:
        return 0.0
    return float(shape.block * shape.layers + shape.vocabulary * shape.hidden)


def written_out(shape: Shape) -> float:
    """The largest weight of a block."""
    return float(shape.hidden * max(shape.feed_forward, shape.queries))


def _choices(
    how: Arithmetic, config: LearningConfig, whole: int, frugal: bool
) -> Iterator[FittingOptions]:
    """Choices, fastest first. `whole`: tokens of a group; `frugal`: adapters on a CPU."""
    training, most = config.training, MICRO_BATCH["gpu"]
    if how.device == "cpu":
        most = max(MICRO_BATCH["cpu"], min(whole, MICRO_BATCH["group"]))
    least = MICRO_BATCH["adapters"] if frugal else LEAST_BUDGET
    tops = most, min(whole, most) if frugal else most
    halves = sorted({top >> k for top in tops for k in range(16) if top >> k > least}, reverse=True)
    budgets = [given] if (given := training.token_budget) else [*halves, least]
    optimizers = (
        [training.optimizer]
        if training.optimizer != "auto"
        else ["adamw", "adamw_8bit"][: 1 + has_8bit()]
    )
    for optimizer in optimizers:
        for again in (False, True):
            # Computing again costs a third. Two passes of half the size cost less than that, many
            # small ones more.
            for budget in budgets if again or frugal else budgets[:2]:
                yield FittingOptions(optimizer, again, budget)


def _fewer_at_a_time(made: Plan, shape: Shape, how: Arithmetic, config: LearningConfig) -> Plan:
    """The plan with fewer tokens decoded at a time until it fits, if generation is what takes too
    much.
    """
    tokens, group = length(shape, config), config.generation.num_generations
    whole = _completions(config, made.choice, tokens)
    while made.generation > made.gradients + made.micro_batch and not made.fits and whole > group:
        whole = max(group, whole // 2)
        size = generation(shape, how, config.model.lora_rank > 0, whole, tokens, group)
        made = replace(
            made, generation=size, choice=replace(made.choice, concurrent=whole * tokens)
        )
    return made


def _completions(config: LearningConfig, choice: FittingOptions, tokens: int) -> int:
    """Completions that are decoded at the same time."""
    whole = config.round.questions * config.generation.num_generations
    some = max(config.generation.num_generations, choice.concurrent // tokens)
    return min(whole, some) if choice.concurrent else whole


def has_8bit() -> bool:
    """Whether the extra with 8-bit optimisers and 4-bit weights is installed."""
    return find_spec("bitsandbytes") is not None


def applied(config: C, made: Plan) -> C:
    """The configuration with the chosen options."""
    chosen = {"optimizer": made.choice.optimizer, "token_budget": made.choice.budget}
    return config.model_copy(update={"training": config.training.model_copy(update=chosen)})


def shape_of(config: Any, parameters: int, adapters: int = 0, turns: int = 1) -> Shape:
    """The shape of a transformers configuration's model. AttributeError or TypeError if it has no
    attention heads.
    """
    heads = config.num_attention_heads
    dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    return Shape(
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        feed_forward=getattr(config, "intermediate_size", None) or 4 * config.hidden_size,
        queries=heads * dim,
        keys=(getattr(config, "num_key_value_heads", None) or heads) * dim,
        vocabulary=config.vocab_size,
        parameters=parameters,
        tied=bool(getattr(config, "tie_word_embeddings", False)),
        adapters=adapters,
        turns=turns,
        context=getattr(config, "max_position_embeddings", None) or sys.maxsize,
    )
