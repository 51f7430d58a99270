"""The model that a first run trains on a graphics card, where its user names none. Loads no torch.

`CHOICES` says which model needs how much free memory, and how it is trained there. No figure is
below what the plan of policy/plan.py asks: a test plans each choice in the room that it claims,
where it has to fit with micro-batches of 8,192 tokens and all completions decoded at the same time.
Small models claim more than that, since what a driver and a desktop take of a small card counts for
more, and a larger micro-batch is faster. The largest choice that fits is taken, if a hub answers or
the model is here already.

All of these models have the licence Apache-2.0, as their cards on the hub say. Qwen2.5-3B, which
lies between them in size, has the Qwen Research License, which forbids commercial use, and so is no
default. Each model is pinned to a commit. A home continues with the commit that it began with, so
pins that were in an earlier version have to stay in `EARLIER`.

Nobody has run these choices on a card yet: docs/results/first_model.md.
"""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swarm_node.common import memory
from swarm_node.common.card_memory import GIB, Room
from swarm_node.common.errors import UserError, first_line
from swarm_node.policy import named
from swarm_node.policy.named import OfHub, Tell

GIGABYTE = 1e9  # bytes
BESIDE = 2.4e9  # bytes of this machine's memory that the processes of a node take beside a model
SPARE = 1e9  # bytes that a download leaves free on its disk
THINKING = "Think step by step between <think> and </think>."
NO_THINKING = '{"enable_thinking": false}'


@dataclass(frozen=True, slots=True)
class Model:
    """A model of the hub that a card may get."""

    hub: OfHub
    download: float  # bytes of all files that are fetched
    weights: float  # numbers
    template_arguments: str = ""

    @property
    def name(self) -> str:
        return self.hub.repository


@dataclass(frozen=True, slots=True)
class ModelForCard:
    """A model, the memory of a card that it needs, and how it is trained there."""

    model: Model
    least: float  # GiB that are free, where weights and products are bfloat16
    least_float32: float | None  # where they are float32; None: not offered there
    questions: int = 8
    completions: int = 8
    tokens: int = 256

    def fits(self, room: Room) -> bool:
        """Whether the memory of this device suffices."""
        least = self.least if room.bfloat16 else self.least_float32
        return least is not None and room.free >= least * GIB

    def lacks(self, room: Room) -> str:
        """What this machine lacks to get and load the model; "" where it lacks nothing. The weights
        are read into its memory on their way to the card.
        """
        size = self.model.weights * (2 if room.bfloat16 else 4)
        needed, there = BESIDE + (0 if room.shared else size), float(memory.available())
        if there < needed:
            return f"{_gb(needed)} of memory in addition to the card's, and {_gb(there)} is free"
        if not named.is_kept(self.model.hub):
            needed, there = self.model.download + SPARE, _free_disk(named.cache_of_hub())
            if there < needed:
                place = named.cache_of_hub()
                return f"{_gb(needed)} of disk in {place}, and {_gb(there)} is free"
        return ""

    def options(self) -> dict[str, dict[str, Any]]:
        """Options that suit the model on the card, by section."""
        return {
            "model": {"lora_rank": 16, "template_arguments": self.model.template_arguments},
            "generation": {
                "num_generations": self.completions,
                "max_completion_length": self.tokens,
            },
            "round": {"questions": self.questions, "local_groups": self.questions},
            "validation": {"every": 10},
            # No KL penalty: its reference is one more forward pass of a round
            "training": {"learning_rate": 1e-4, "beta": 0.0},
        }


# How such a model is asked to answer, where the user does not say
ANSWERS: Mapping[str, Any] = {"system": THINKING, "answer": "tags", "scoring": "graded"}


def _qwen(name: str, revision: str, *sizes: float, template_arguments: str = "") -> Model:
    download, weights = sizes
    return Model(
        OfHub(f"Qwen/{name}", revision, "Apache-2.0"), download, weights, template_arguments
    )


# Downloads: the weights as the hub lists them, and 16 MB for the tokenizer
QWEN2_5_0_5B = _qwen(
    "Qwen2.5-0.5B-Instruct", "7ae557604adf67be50417f59c2c2f167def9a775", 1.00e9, 0.494e9
)
QWEN2_5_1_5B = _qwen(
    "Qwen2.5-1.5B-Instruct", "989aa7980e4cf806f80c7fef2b1adb7bc71aa306", 3.10e9, 1.544e9
)
QWEN3_1_7B = _qwen(
    *("Qwen3-1.7B", "70d244cc86ccca08cf5af4e1e306ecf908b1ad5e", 4.08e9, 1.721e9),
    template_arguments=NO_THINKING,  # its own thinking takes thousands of tokens
)
QWEN3_4B = _qwen(
    "Qwen3-4B-Instruct-2507", "cdbee75f17c01a7cc42f958dc650907174af0554", 8.06e9, 4.022e9
)
# By the memory that they need, the least first
CHOICES = (
    ModelForCard(QWEN2_5_0_5B, 4.5, 4.5),
    ModelForCard(QWEN2_5_1_5B, 6.5, 10.25),
    ModelForCard(QWEN3_1_7B, 9.0, None),
    ModelForCard(QWEN3_4B, 13.25, None),
    ModelForCard(QWEN3_4B, 18.0, None, questions=16, tokens=384),
)
EARLIER: frozenset[tuple[str, str]] = frozenset()  # name and commit

# Whether a model that was chosen may be used now, after it was downloaded where it was missing
Get = Callable[[ModelForCard, Room], bool]
Agrees = Callable[[str], bool]  # to this question


def is_pinned(name: object, revision: object) -> bool:
    """Whether this is a model of ours at a commit that some version of this program pinned."""
    pins = {(choice.model.name, choice.model.hub.revision) for choice in CHOICES} | EARLIER
    return isinstance(name, str) and isinstance(revision, str) and (name, revision) in pins


def choice_of(name: object, room: Room | None = None) -> ModelForCard | None:
    """How a model that is already chosen is trained on a device with this room: the largest choice
    of its name that fits, else the smallest. None for models that no choice names.
    """
    ours = [choice for choice in CHOICES if choice.model.name == name]
    fitting = [choice for choice in ours if room and choice.fits(room)]
    return next(reversed(fitting or ours[:1]), None)


def chosen(room: Room, tell: Tell) -> ModelForCard | None:
    """The largest choice that this device and this machine have room for, and that can be had: the
    hub answers, or it is here. None where there is none. Tells what this machine lacks for a larger
    one.
    """
    answers: bool | None = None
    told = False
    for choice in reversed([choice for choice in CHOICES if choice.fits(room)]):
        if lacking := choice.lacks(room):
            if not told:
                tell(f"{choice.model.name} would fit into {room}, but needs {lacking}")
            told = True
            continue
        if named.is_kept(choice.model.hub):
            return choice
        if answers is None:
            answers = not named.unreachable(choice.model.name, choice.model.hub.revision)
        if answers:
            return choice
    return None


def line(choice: ModelForCard, room: Room) -> str:
    """What a first run trains, in one line: model, revision, licence, download, place, and how to
    choose otherwise.
    """
    hub = choice.model.hub
    size = f"a download of {_gb(choice.model.download)} to {named.cache_of_hub()}"
    fetched = "already here" if named.is_kept(hub) else size
    return (
        f"model for {room}: {hub}, {hub.licence}, {fetched}; for another give --model.name, such "
        f"as {named.OF_HUB}"
    )


def getting(tell: Tell, allowed: float, agrees: Agrees | None) -> Get:
    """Fetches a model that was chosen. Above `allowed` bytes it first asks whoever sits at the
    terminal; where nobody does, `agrees` is None, and it says how to allow the download instead.
    """

    def get(choice: ModelForCard, room: Room) -> bool:
        tell(line(choice, room))
        hub, size = choice.model.hub, choice.model.download
        flag = f"--limits.download {_megabytes(size)}"
        if named.is_kept(hub):
            return True
        if size > allowed:
            if agrees is None:
                tell(
                    f"{choice.model.name} is not downloaded, as nobody is at a terminal to agree: "
                    f"{flag} allows it, in a new home, as does the variable "
                    f"SWARM_NODE_LIMITS__DOWNLOAD={_megabytes(size)}"
                )
                return False
            if not agrees(f"download {_gb(size)}?"):
                tell(f"{choice.model.name} is not downloaded; {flag} allows it, in a new home")
                return False
        try:
            named.snapshot(hub, tell)
        except UserError as error:
            tell(f"{choice.model.name} cannot be downloaded: {first_line(error)}")
            return False
        return True

    return get


def looking(tell: Tell) -> Get:
    """Says which model a run would take, and fetches nothing."""

    def get(choice: ModelForCard, room: Room) -> bool:
        tell(line(choice, room))
        return True

    return get


def is_awaited(name: str, revision: str) -> bool:
    """Whether this is a choice of ours whose files are not here yet."""
    ours = (choice.model.hub for choice in CHOICES if choice.model.name == name)
    return any(hub.revision == revision and not named.is_kept(hub) for hub in ours)


def _free_disk(place: Path) -> float:
    """Bytes that are free where this folder is, or would be."""
    there = next(folder for folder in (place, *place.parents) if folder.exists())
    try:
        return float(shutil.disk_usage(there).free)
    except OSError:
        return 0.0


def _gb(size: float) -> str:
    return f"{size / GIGABYTE:.1f} GB"


def _megabytes(size: float) -> int:
    """Megabytes, rounded up to a hundred, so that they allow the download."""
    return -int(-size // 1e8) * 100
