"""How long a round would take on a graphics card, predicted by arithmetic, and the page of what a
first run trains there.

    python -m lab.benchmarks.foretold            # seconds of the shipped configurations
    python -m lab.benchmarks.foretold --page     # writes docs/results/first_model.md

Nobody ran these rounds on these cards. The only round that was measured is one of Qwen2.5-0.5B's
shape on an H200 (docs/results/speed.md): `MEASURED` has it, and a test holds what is predicted for
it against it. So a figure here is good for the choice between two models, and no promise.

What is added up, in seconds:

- *A step of the decoder* reads all weights and the cache once (bytes by bandwidth), multiplies
  (operations by the card's peak), starts `KERNELS` kernels a layer, each of which costs
  `LAUNCH` seconds however small it is, and passes over the logits `PASSES` times.
- *An update* multiplies each weight with each token: forward, once more where blocks are computed
  again, and backward, which counts once under adapters (no gradients of the base) and twice
  without. Large products reach `EFFICIENCY` of the peak. Beside them it moves the numbers that it
  keeps, `MOVED` times, and `LOGIT_BYTES` an entry of the logits. `FIXED` is what Python does.

Every completion has its full length, every group of the node's own is trained on, and none of
others.
Published figures of the cards: NVIDIA's data sheets, products of bfloat16 with sums in float32,
without sparsity. Consumer cards do those at half the speed of sums in float16.
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.benchmarks import command
from lab.benchmarks.shapes import shapes
from swarm_node.common.card_memory import GIB, MIB, Room
from swarm_node.node.defaults import suited
from swarm_node.policy import plan as plans
from swarm_node.policy.by_card import CHOICES, ModelForCard
from swarm_node.policy.memory_plan import parameters_of, plan_of
from swarm_node.settings import NodeConfig

PAGE = command.ROOT / "docs" / "results" / "first_model.md"
CONFIGS = command.ROOT / "configs"
KERNELS, LAUNCH, PASSES = 30, 2.5e-6, 7
EFFICIENCY, MOVED, LOGIT_BYTES, FIXED = 0.5, 20, 98, 0.3


@dataclass(frozen=True, slots=True)
class Card:
    """A card as its maker publishes it, and what a desktop leaves free of its memory."""

    name: str
    total: int  # MiB
    free: int
    bandwidth: float  # bytes a second
    peak: float  # operations a second, of bfloat16 with sums in float32

    @property
    def room(self) -> Room:
        return Room(self.name, self.free * MIB, self.total * MIB, bfloat16=True)


# By their size in GB
CARDS = {
    6: Card("NVIDIA GeForce RTX 3050", 6144, 5600, 168e9, 13.5e12),
    8: Card("NVIDIA GeForce RTX 3060 Ti", 8192, 7300, 448e9, 32.4e12),
    12: Card("NVIDIA GeForce RTX 3060", 12288, 11300, 360e9, 25.5e12),
    16: Card("NVIDIA GeForce RTX 4080", 16380, 15200, 717e9, 97.5e12),
    24: Card("NVIDIA GeForce RTX 4090", 24564, 23200, 1008e9, 165e12),
}
H200 = Card("NVIDIA H200", 143771, 143000, 4800e9, 989e12)
# Generation and update of a round of Qwen2.5-0.5B, all weights, 8 x 8 x 256 tokens, on the H200
MEASURED = (0.7, 0.7)


def seconds(config: NodeConfig, shape: Any, card: Card) -> tuple[float, float]:
    """Generation and update of a round, predicted. `shape`: the transformers configuration."""
    made, parameters = plan_of(config, shape, card.room.free), parameters_of(shape)
    sizes = plans.shape_of(shape, parameters)
    rows = config.round.questions * config.generation.num_generations
    trained = config.round.questions * plans.PROMPT + rows * config.generation.max_completion_length
    return _generation(sizes, config, card, rows), _update(sizes, config, card, made, trained)


def _generation(sizes: plans.Shape, config: NodeConfig, card: Card, rows: int) -> float:
    steps = config.generation.max_completion_length
    prompts = plans.PROMPT * config.round.questions
    cached = prompts + rows * steps / 2  # on the average
    cache = cached * sizes.layers * 2 * sizes.keys * 2
    read = (2 * sizes.parameters + cache + PASSES * 4 * rows * sizes.vocabulary) / card.bandwidth
    multiplied = 2 * sizes.parameters * rows / card.peak
    launched = (KERNELS * sizes.layers + KERNELS) * LAUNCH
    prefill = 2 * sizes.parameters * prompts / (EFFICIENCY * card.peak)
    return prefill + steps * (read + multiplied + launched)


def _update(
    sizes: plans.Shape, config: NodeConfig, card: Card, made: plans.Plan, tokens: int
) -> float:
    lora = config.model.lora_rank > 0
    passes = 1 + made.choice.checkpointing + (1 if lora else 2)
    multiplied = 2 * sizes.parameters * tokens * passes / (EFFICIENCY * card.peak)
    units = (sizes.hidden, sizes.feed_forward, sizes.queries, sizes.keys)
    kept = plans.KEPT["adapters" if lora else "mixed"]
    moved = MOVED * sizes.layers * sum(size * unit for size, unit in zip(units, kept, strict=True))
    logits = LOGIT_BYTES * sizes.vocabulary
    return multiplied + tokens * (moved + logits) / card.bandwidth + FIXED


def of_choice(choice: ModelForCard) -> NodeConfig:
    """The configuration of a first run with this choice."""
    model = {"name": choice.model.name, "revision": choice.model.hub.revision}
    return suited(NodeConfig.model_validate({"model": model}), choice=choice)


def of_file(file: Path) -> NodeConfig:
    """The configuration that a file has, with nothing from this machine."""
    return NodeConfig.model_validate(tomllib.loads(file.read_text()))


def named_card(text: str) -> int:
    """The size in GB of the card that the first lines of a configuration name; 0 for none."""
    found = re.search(r"(\d+) GB GPU", text)
    return int(found[1]) if found else 0


def told(config: NodeConfig, size: int) -> str:
    """What the first lines of a configuration say of memory and time on the card of this size."""
    shape, card = shapes()[config.model.name], CARDS[size]
    made = plan_of(config, shape, size * GIB)
    total = sum(seconds(config, shape, card))
    return (
        f"Memory by plan: {made.total / GIB:.1f} GiB. Time foretold: {total:.0f} s a round on an "
        f"{card.name.removeprefix('NVIDIA GeForce ')}. Nobody has run it on a card yet."
    )


def rows() -> Iterator[list[str]]:
    """The rows of the page: what a first run trains on a card of each size."""
    for size, card in CARDS.items():
        fitting = [choice for choice in CHOICES if choice.fits(card.room)]
        choice = fitting[-1]
        config = of_choice(choice)
        shape = shapes()[config.model.name]
        made = plan_of(config, shape, card.room.free)
        generation, update = seconds(config, shape, card)
        yield [
            f"{size} GB, {card.free / 1024:.1f} GiB free",
            f"{choice.model.name}, {choice.model.hub.revision[:8]}",
            f"{choice.questions} x {choice.completions} x {choice.tokens}",
            f"{choice.model.download / 1e9:.1f} GB",
            f"{made.total / GIB:.1f} GiB",
            f"{generation:.0f} + {update:.0f} s, {card.name.removeprefix('NVIDIA GeForce ')}",
            "nobody",
        ]


HEAD = ["card", "with a hub", "a round", "download", "memory by plan", "time foretold", "run by"]


def page() -> str:
    """The page with its table."""
    text, table = PAGE.read_text(encoding="utf-8"), command.table(HEAD, [*rows()])
    begin, end = text.index("| card "), text.index("\n\n", text.index("| card "))
    return text[:begin] + table + text[end:]


def main() -> None:
    parser = command.parser("lab.benchmarks.foretold", __doc__)
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.name}")
    arguments = parser.parse_args()
    if arguments.page:
        PAGE.write_text(page(), encoding="utf-8")
    lines = []
    for file in sorted(CONFIGS.glob("*.toml")):
        if size := named_card(file.read_text()):
            config = of_file(file)
            lines.append([file.name, config.model.name, told(config, size)])
    command.show(["configuration", "model", "foretold"], lines)
    measured = of_file(CONFIGS / "full_24gb.toml")
    half = measured.model.model_copy(update={"name": CHOICES[0].model.name})
    there = seconds(measured.model_copy(update={"model": half}), shapes()[half.name], H200)
    command.show(
        ["on the H200", "generation", "update"],
        [["measured", *map(str, MEASURED)], ["foretold", *(f"{part:.1f}" for part in there)]],
    )
    command.finish(arguments, {"rows": [*rows()]})


if __name__ == "__main__":
    main()
