"""Bounds on what a model folder asks for, checked before a library reads it.

Libraries build what config.json says: three million layers take hours and all memory, and nothing
in them asks whether any model is so large. So each whole number in a model's and an adapter's
configuration has a bound, by what its key counts. A key that this file does not know counts as a
number of parts. The bounds are far above what models have (a test compares them with the defaults
of every configuration in transformers).

Some fields of adapter_config.json are regular expressions that peft matches against the name of
each module. One such as `(a|a)*$` takes longer than anybody waits, so a list of names or parts of
names is all that is taken. Others start a computation for each layer, or import a module by its
name.

`check_weights` in loading.py compares the size of the model with that of its files.
"""

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from swarm_node.common.files import read_plain

MAX_BYTES = 4 * 1024 * 1024  # of a configuration; a large one has some hundred kB
MAX_TOKENIZER = 256 * 1024 * 1024  # bytes of tokenizer.json that are looked at
TABLE = re.compile(rb'"precompiled_charsmap"\s*:\s*"([^"]*)"')
MAX_LIST = 16_384  # entries, such as kinds of layers, or names of modules
# What a number counts, by the first of these that is in its key, and the largest that is taken
BOUNDS = (
    (re.compile(r"layer_input|vocab|token|_id$|_ids$|index|seed|rate"), 2**27),
    (re.compile(r"position|seq_len|length|ctx|context|window|chunk|floor|max_dist|offset"), 2**27),
    (re.compile(r"version|quant|bits|step|group_size|revision"), 2**31),
    (re.compile(r"size|dim|dff|d_ff|embd|width|hidden_s|channel|rank|inner|model|output"), 2**20),
    (re.compile(r"layer|block|depth|stage|hidden_groups"), 1024),
    (re.compile(r""), 16_384),
)
LAYERS, EXPERTS = re.compile(r"layer|block|depth"), re.compile(r"experts")
MAX_EXPERTS = 2**19  # in all layers together
# Of adapter_config.json: these hold regular expressions, alone or as keys
PATTERNS = ("target_modules", "exclude_modules", "modules_to_save", "layers_pattern")
KEYED = ("rank_pattern", "alpha_pattern")
# A name of a module, or its end; peft's own word for all linear layers; anchors and plain dots
PLAIN_NAME = re.compile(r"\^?[A-Za-z0-9_.\\-]{1,200}\$?")
PLAIN_START = re.compile(r"[a-z_]{1,20}")  # how adapters begin; `pissa_niter_N` computes N times
REFUSED = ("megatron_config", "layer_replication", "eva_config", "corda_config", "loftq_config")


class TooLarge(ValueError):
    """A model folder asks for more than any model needs; the message says what, in a few words."""


def check_folder(folder: Path) -> None:
    """Raises TooLarge for a configuration in this folder that asks for too much, and for one that
    cannot be read.
    """
    for name in ("config.json", "generation_config.json"):
        if (folder / name).exists():
            check_config(read(folder / name), name)
    if (folder / "tokenizer.json").exists():
        check_tables(folder / "tokenizer.json")
    if (folder / "adapter_config.json").exists():
        check_adapters(read(folder / "adapter_config.json"))


def read(path: Path) -> dict[str, Any]:
    """The JSON object in this file. Raises TooLarge."""
    try:
        content = json.loads(read_plain(path, MAX_BYTES + 1))
    except OSError as error:
        raise TooLarge(f"{path.name} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise TooLarge(f"{path.name} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise TooLarge(f"{path.name} is not a JSON object")
    return content


def check_config(config: dict[str, Any], name: str = "config.json") -> None:
    """Raises TooLarge where a number or a list in this configuration is above its bound."""
    layers = experts = 1
    for key, value in _values(config, ""):
        if isinstance(value, list | dict) and len(value) > MAX_LIST:
            raise TooLarge(f"{name}: {key} has {len(value):,} entries, above {MAX_LIST:,}")
        if not isinstance(value, int | float) or isinstance(value, bool):
            continue
        most = next(bound for pattern, bound in BOUNDS if pattern.search(key.lower()))
        if isinstance(value, int) and abs(value) > most:
            raise TooLarge(f"{name}: {key} is {_written(value)}, above the bound of {most:,}")
        layers = max(layers, int(value)) if LAYERS.search(key) and value < 1e9 else layers
        experts = max(experts, int(value)) if EXPERTS.search(key) and value < 1e9 else experts
    if layers * experts > MAX_EXPERTS:
        raise TooLarge(f"{name}: {layers:,} layers of {experts:,} experts, above {MAX_EXPERTS:,}")


def check_adapters(config: dict[str, Any]) -> None:
    """Raises TooLarge where a field of adapter_config.json is a regular expression, computes
    something for each layer, or is above its bound.
    """
    name = "adapter_config.json"
    check_config(config, name)
    for key in (*PATTERNS, *KEYED):
        given = config.get(key) or ()
        for text in [given] if isinstance(given, str) else given:
            if not isinstance(text, str) or not PLAIN_NAME.fullmatch(text):
                raise TooLarge(
                    f"{name}: {key} has a regular expression, which may take for ever: list the "
                    "names of modules there"
                )
    start = config.get("init_lora_weights", True)
    if not isinstance(start, bool | None) and not PLAIN_START.fullmatch(str(start)):
        raise TooLarge(f"{name}: init_lora_weights is {start!r}: true is taken")
    for key in REFUSED:
        if config.get(key):
            raise TooLarge(f"{name}: {key} is not taken here")


def check_tables(path: Path) -> None:
    """Raises TooLarge where a normalizer's table in tokenizer.json begins with a length that is
    above its own: the Rust code takes so much memory before it looks, and ends the process where
    there is less.
    """
    try:
        tables = TABLE.findall(read_plain(path, MAX_TOKENIZER))
    except OSError as error:
        raise TooLarge(f"{path.name} cannot be read: {error.strerror}") from error
    for table in tables:
        try:
            packed = b64decode(table, validate=True)
        except ValueError:
            continue  # its library says so
        if int.from_bytes(packed[:4], "little") > len(packed):
            raise TooLarge(f"{path.name}: precompiled_charsmap is shorter than it says")


def _written(value: int) -> str:
    return f"{value:,}" if abs(value) < 10**30 else f"a number of {value.bit_length():,} bits"


def _values(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    """All that is in this value, at any depth, with the nearest key that has a name."""
    waiting = [(key, value)]
    while waiting:
        key, value = waiting.pop()
        yield key, value
        if isinstance(value, dict):
            waiting += [(key if k.isdecimal() else k, inner) for k, inner in value.items()]
        if isinstance(value, list):
            waiting += [(key, inner) for inner in value]
