"""`swarm-node model export`: a checkpoint as a model folder that others open, with a card of its
origin.
"""

import json
import re
import shutil
from pathlib import Path
from typing import Any

from swarm_node.common.command import Command
from swarm_node.common.errors import UserError, first_line
from swarm_node.common.files import has_holes, is_plain, open_to_read
from swarm_node.common.parsing import read_json
from swarm_node.hub.card import APART, Story, card, story
from swarm_node.hub.gguf import write
from swarm_node.node import defaults
from swarm_node.policy.bounds import TooLarge, check_folder
from swarm_node.settings import ModelConfig, Section
from swarm_node.settings.command_line import from_command_line

# In a checkpoint, not in a model
LEFT = {"state.json", "optimizer.safetensors", "README.md", "training_args.bin"}
# Tokens are any text, and may look like paths
VOCABULARIES = {"tokenizer.json", "vocab.json", "added_tokens.json"}
NAMES_OF_MODELS = "name_or_path"  # keys that end in this hold a model's name or path
# An absolute path of a file or folder
PLACE = re.compile(r"(?:~|[A-Za-z]:)?[/\\](?:[^/\\\n]+[/\\])+([^/\\\n]*)")
FOLDERS = {False: "checkpoints", True: "best"}

PAGE = """\
usage: swarm-node model export DIR [--flags]

Saves a trained model as a folder: weights, tokenizer, chat template, generation
config, and a model card with data, learning curve, swarm, base model and
licence.

  DIR             a folder that does not exist yet, or is empty
  --home FOLDER   home folder of the node that trained it (~/.swarm-node)
  --best          take the best validation instead of the newest checkpoint
  --merge         merge LoRA adapters into the weights
  --gguf          also write model.gguf, for llama.cpp and Ollama"""


class TakenConfig(Section):
    """Which model to take from which home folder."""

    home: Path = Path("~/.swarm-node")
    """Home folder of the node that trained the model."""
    best: bool = False
    """Take the checkpoint with the best validation instead of the newest one."""
    merge: bool = False
    """Merge LoRA adapters into the weights, so that the model needs neither its base model nor
    peft.
    """


class ExportConfig(TakenConfig):
    """Save a trained model as a folder."""

    folder: str = ""
    """Where to save the model: a folder that does not exist yet, or is empty."""
    gguf: bool = False
    """Also write model.gguf, for llama.cpp and Ollama (needs the extra gguf)."""


def newest(home: Path, best: bool = False) -> Path:
    """The checkpoint to take. Raises UserError where there is none."""
    remedy = (
        "switch validation on with --validation.every" if best else "a node saves one when it stops"
    )
    return defaults.newest(home / FOLDERS[best], remedy)


def export(
    home: Path, checkpoint: Path, out: Path, merge: bool = False, gguf: bool = False
) -> Story:
    """Write the model folder `out`, whole or not at all, and without a path of this machine in it.
    Returns what the card tells. Raises UserError where `out` is not empty or cannot be written, or
    where there are no adapters to merge.
    """
    out = out.expanduser()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} is not empty: name a folder that is new or empty")
    rounds, model = _made_by(checkpoint)
    try:
        check_folder(checkpoint)
    except TooLarge as error:
        raise UserError(
            f"checkpoint {checkpoint} is broken ({error}): use --best, or another home"
        ) from error
    part = out.with_name(f".{out.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(parents=True)
        if merge:
            _merge(checkpoint, model, part)
        else:
            for file in checkpoint.iterdir():
                if file.name not in LEFT and not file.is_dir():
                    _copy(file, part)
        told = story(home.expanduser(), rounds, model)
        told.merged = merge
        _forget_places(part, told)
        (part / "README.md").write_text(card(told), encoding="utf-8")
        if gguf:
            write(part, told.base.rpartition("/")[2], told.licence)
        if out.exists():
            out.rmdir()
        part.rename(out)
    except OSError as error:
        raise UserError(
            f"{out} cannot be written: {error.strerror or error}; make room there, or name another "
            "folder"
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return told


def _copy(file: Path, folder: Path) -> None:
    """Copies a file of a checkpoint. Raises UserError for a link: it may lead to any file of this
    user, which would then be published with the model.
    """
    if not is_plain(file):
        raise UserError(f"{file} is not a plain file: use --best, or another home")
    with open_to_read(file, follow=False) as content:
        if has_holes(content.fileno()):
            raise UserError(f"{file} is a sparse file, with holes: use --best, or another home")
        with (folder / file.name).open("wb") as out:
            shutil.copyfileobj(content, out)


def _made_by(checkpoint: Path) -> tuple[int, dict[str, Any]]:
    """Rounds and model of a checkpoint, read without torch. Raises UserError where it is broken."""
    try:
        state = read_json(checkpoint / "state.json", defaults.STATE_BYTES)
        model = state["extra"].get("model") or {}
        known = {name: value for name, value in model.items() if name in ModelConfig.model_fields}
        # Old options go
        return int(state["rounds"]), ModelConfig.model_validate(known).model_dump(mode="json")
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise UserError(
            f"checkpoint {checkpoint} is broken ({first_line(error, 120)}): use --best, or "
            "another home, such as a restored backup"
        ) from error


def _forget_places(folder: Path, told: Story) -> None:
    """Models' configurations name the folder that they were loaded from: only its last part leaves
    this machine.
    """
    for file in folder.glob("*.json"):
        if file.name in VOCABULARIES:
            continue
        try:
            content = read_json(file, defaults.STATE_BYTES)
        except ValueError as error:
            raise UserError(
                f"{file.name} of the checkpoint is broken: use --best, or start the node once, "
                "which goes back to the checkpoint before"
            ) from error
        clean = _placeless(content, told)
        if clean != content:
            file.write_text(
                json.dumps(clean, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
            )


def _placeless(value: Any, told: Story, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _placeless(inner, told, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [_placeless(inner, told, name) for inner in value]
    if not isinstance(value, str):
        return value
    if name.endswith(NAMES_OF_MODELS):
        given = {Path(told.given).name, told.base}
        return told.base if value == told.model or Path(value).name in given else Path(value).name
    return PLACE.sub(r"\1", value) if PLACE.fullmatch(value) else value


def _merge(checkpoint: Path, model: dict[str, Any], out: Path) -> None:
    from swarm_node.policy.loading import load_policy

    if not model["lora_rank"]:
        raise UserError(
            "nothing to merge: all weights were trained, there are no adapters; leave off --merge"
        )
    config = ModelConfig.model_validate({**model, "device": "cpu"})
    policy = load_policy(config, checkpoint)
    policy.model = policy.model.merge_and_unload()
    policy.save(out)


def command(argv: list[str]) -> None:
    """Prints where the model is. A first argument without dashes is the folder."""
    config = from_command_line(ExportConfig, argv, "swarm-node model export", first="folder")
    if not config.folder:
        raise UserError("name the folder to write: swarm-node model export DIR")
    checkpoint, out = newest(config.home, config.best), Path(config.folder).expanduser()
    told = export(config.home, checkpoint, out, config.merge, config.gguf)
    opened = APART if told.apart else f"AutoModelForCausalLM.from_pretrained({str(out)!r}) opens it"
    print(f"{checkpoint} is now in {out}: {opened}")


EXPORT = Command(ExportConfig, PAGE, command)
