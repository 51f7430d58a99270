"""Checks that libraries leave out: whether the contents of a checkpoint folder can be trained on.

An optimiser whose tensors have other shapes than the weights ends in a segmentation fault; a NaN
spreads over all weights with the next update.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from transformers import PreTrainedTokenizerBase

from swarm_node.common.errors import first_line, printable, reason_of
from swarm_node.common.files import is_plain
from swarm_node.common.parsing import read_whole
from swarm_node.policy import templates

# Of Adam, with the shape of their weight; counters and 8-bit state have others
MOMENTS = ("exp_avg", "exp_avg_sq")
# AdamW in 8 bits has these for large weights only
TABLES = {"absmax1", "absmax2", "qmap1", "qmap2"}
# Questions that a template is tried with: some templates fail at long ones only
TRIED = ("?", "What? " * 200, "word " * 4000)
# A chat that a template is tried with
SAID, NEXT = "<think>\nwhy\n</think>\n\nforty-two", "and then"
MAX_STATE_BYTES = 512 * 1024 * 1024  # an inbox in a large swarm is some megabytes

Number = Annotated[int, Field(ge=0, lt=2**63, strict=True)]


class Damaged(Exception):
    """A checkpoint cannot be used; the message says why in a few words."""


class Endless(Damaged):
    """A chat template takes too much time or memory."""


class StateFile(BaseModel):
    """The contents of state.json. Other keys are left as they are."""

    model_config = ConfigDict(extra="allow")

    format: int
    rounds: Number
    optimizer_steps: Number
    version: Number | None = None  # older checkpoints: one update a round
    extra: dict[str, Any]


def read_state(path: Path) -> dict[str, Any]:
    """The JSON object in this file. Raises Damaged."""
    try:
        return StateFile.model_validate_json(read_whole(path, MAX_STATE_BYTES)).model_dump()
    except OSError as error:
        raise Damaged(f"{path.name}: {reason_of(error)}") from error
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, problem["loc"]))
        raise Damaged(
            f"{path.name}: {where + ': ' if where else ''}{printable(problem['msg'].lower(), 100)}"
        ) from error


def check_plain(folder: Path) -> None:
    """Raises Damaged if anything in the folder is not a plain file: reading a pipe would take for
    ever, and a link may lead to any file of this user.
    """
    for path in folder.iterdir():
        if not is_plain(path):
            raise Damaged(f"{path.name} is not a plain file")


def check_adapters(folder: Path) -> None:
    """Raises Damaged if the folder has adapters in another format than safetensors: peft would
    unpickle them.
    """
    if (folder / "adapter_config.json").exists() and not (
        folder / "adapter_model.safetensors"
    ).is_file():
        raise Damaged("its adapters are not safetensors")


def check_optimizer(
    tensors: Mapping[str, torch.Tensor], parameters: list[torch.nn.Parameter]
) -> None:
    """Raises Damaged unless each of the optimiser's tensors fits its parameter and is finite, and
    no weight lacks its state. The keys are "INDEX.NAME", as in the checkpoint.
    """
    names: dict[str, set[str]] = {}
    for key, tensor in tensors.items():
        index, dot, name = key.partition(".")
        if not dot or not index.isdecimal() or int(index) >= len(parameters):
            raise Damaged(f"the optimiser has {key!r}, the model does not")
        names.setdefault(index, set()).add(name)
        if name in MOMENTS and tensor.shape != parameters[int(index)].shape:
            raise Damaged(
                f"the optimiser's {key!r} has the shape {tuple(tensor.shape)}, of no weight of "
                "this model"
            )
        if not bool(torch.isfinite(tensor).all()):
            raise Damaged(f"the optimiser's {key!r} is not finite")
    if len({frozenset(each - TABLES) for each in names.values()}) > 1 or any(
        each & TABLES and not each >= TABLES for each in names.values()
    ):
        raise Damaged("the optimiser lacks the state of some weights")


def check_template(
    tokenizer: Any, system: str = "", arguments: Mapping[str, Any] | None = None
) -> None:
    """Raises Damaged where the chat template fails, or does not end."""
    turns = [{"role": "system", "content": system}] if system else []
    for question in TRIED if tokenizer.chat_template else ():
        rendered(
            tokenizer,
            [*turns, {"role": "user", "content": question}],
            add_generation_prompt=True,
            **(arguments or {}),
        )


def rendered(tokenizer: Any, turns: list[dict[str, str]], **arguments: Any) -> str:
    """The text that the chat template makes of a chat. The template comes with the model, and is a
    program: it runs in a process of its own. Raises Damaged if it fails, or does not end.
    """
    try:
        # Mistral's tokenizers have no template, but code of their own in transformers
        if type(tokenizer).apply_chat_template is not PreTrainedTokenizerBase.apply_chat_template:
            return str(tokenizer.apply_chat_template(turns, tokenize=False, **arguments))
        given = {"tools": None, "documents": None, "add_generation_prompt": False}
        given |= {**tokenizer.special_tokens_map, **arguments}
        return templates.render(tokenizer.get_chat_template(), turns, given)
    except templates.TemplateEndless as error:
        raise Endless(f"its chat template {error}") from error
    except templates.TemplateFailed as error:
        raise Damaged(f"its chat template {error}") from error
    except Exception as error:
        raise Damaged(f"its chat template fails: {first_line(error, 100)}") from error


def is_panic(error: BaseException) -> bool:
    """Whether this error says that the tokenizer's Rust code ended at a bug of its own: Python
    libraries raise it as no Exception.
    """
    return type(error).__name__ == "PanicException"


def around_turns(
    tokenizer: Any, system: str, arguments: Mapping[str, Any]
) -> tuple[str, str] | None:
    """The text that the chat template writes between an answer and the next user turn, and the text
    between that turn and the next answer. None if the template changes earlier turns, or fails.
    """
    asked = [{"role": "system", "content": system}] if system else []
    asked.append({"role": "user", "content": "?"})
    later = [*asked, {"role": "assistant", "content": SAID}, {"role": "user", "content": NEXT}]
    try:
        start, whole = (
            rendered(tokenizer, turns, add_generation_prompt=True, **arguments)
            for turns in (asked, later)
        )
    except Damaged:
        return None
    before, found, behind = whole[len(start + SAID) :].partition(NEXT)
    return (before, behind) if whole.startswith(start + SAID) and found else None


def check_finite(model: torch.nn.Module) -> None:
    """Raises Damaged where a weight is NaN or infinite."""
    for name, weight in model.named_parameters():
        if weight.is_floating_point() and not bool(torch.isfinite(weight).all()):
            raise Damaged(f"weight {name} is not finite")
