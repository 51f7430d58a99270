"""Model folders of a stranger: does one of them run something, raise, hang, or control a terminal?

    python -m lab.fuzzing.models --json     # some minutes on one core
    python -m lab.fuzzing.models --some 20  # every twentieth folder
    python -m lab.fuzzing.models --kind templates
    python -m lab.fuzzing.models --holes    # mistakes that it has to find

Each folder is the starter `rare` with one thing changed. The kinds: a field, at any depth, of
config.json, generation_config.json, tokenizer_config.json and tokenizer.json, which holds each of
the values of VALUES; files that are no JSON; chat templates that fail, do not end or take all
memory, some for long questions only; adapters; weights; tokenizers whose Rust code panics or does
not end.

Each folder is read as a command reads it, in a process of its own that is forked for it: the model
is loaded, and its tokenizer and template take texts of several lengths. All that the process writes
is kept, below Python too. A folder passes if it is loaded, or refused in one line, within a time
and a memory; an audit hook of the interpreter sees what runs (lab/fuzzing/folders.py).
"""

import copy
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from lab.benchmarks import command
from lab.fuzzing.stranger import MARK, Where, places, replaced
from lab.fuzzing.watching import Ran, Watch
from swarm_node import starters
from swarm_node.commands import cli
from swarm_node.common import errors, terminal
from swarm_node.policy import bounds, loading, soundness, templates, tokenizer_trial
from swarm_node.policy.policy import Frame
from swarm_node.settings import ModelConfig

SECONDS = 45.0  # for a folder; on a busy machine a template that does not end takes ten
MEMORY = 6 << 30  # bytes of address space beyond what this process has
BASE = starters.folder("rare")
DOCUMENTS = ("config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json")
MOST_ENTRIES = 4  # of a vocabulary, that are fields of their own
# A title, colours, a bell, a new line that looks like ours, bidi overrides, zero width, C1
CONTROLS = (
    f"{MARK}\x1b]0;title\x07\x1b[31m\x1b[2J\r\nswarm-node: all is well\x0b\x0c\x08\x9b31m\x85"
    "\u202e\u2066\u200b\u200d\ufeff\u2028\u2029\U000e0041"
)
VALUES: Mapping[str, Any] = {
    "controls": CONTROLS,
    "module": f"{MARK}.{MARK}",
    "file": f"{MARK}.py",
    "huge": 3_000_000_000,
    "beyond": 10**400,
    "many": 3_000_000,
    "minus": -7,
    "zero": 0,
    "fraction": 1e300,
    "null": None,
    "list": [CONTROLS, {"x": CONTROLS}],
    "object": {CONTROLS: CONTROLS},
    "true": True,
}
LONG = "{% if messages[-1]['content']|length > 3000 %}"
TEMPLATES = {
    "power": "{{ 9**(9**9) }}",
    "centre": "{{ range(99999)|map('center', 99999)|join }}",
    "centre kept": "{{ range(99999)|map('center', 99999)|list }}",
    "loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "loops at long ones": LONG + "{% for a in range(99999) %}{% for b in range(99999) %}"
    "{% endfor %}{% endfor %}{% endif %}x",
    "power at long ones": LONG + "{{ 9**(9**9) }}{% endif %}x",
    "text at long ones": LONG + "{{ 'x' * 99999999 }}{% endif %}x",
    "fails at long ones": LONG + "{{ raise_exception(messages[-1]['content']) }}{% endif %}x",
    "raises controls": "{{ raise_exception('" + CONTROLS.replace("\r\n", "\\n") + "') }}",
    "raises markup": "{{ raise_exception('[link=http://x]a[/link] [/b]') }}",
    "text": "{{ 'x' * 99999999 }}",
    "repeats": "{{ messages[0]['content'] * 9999999 }}",
    "width": "{{ '%999999999d' % 1 }}",
    "format": "{{ '{:999999999}'.format(1) }}",
    "recursion": "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
    "nested": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "many blocks": "{% if 1 %}" * 3000 + "{% endif %}" * 3000,
    "long": "{# x #}" * 300_000,
    "broken": "{% for",
    "unknown": "{{ undefined.x.y }}",
    "system": "{{ cycler.__init__.__globals__.os.system('touch " + MARK + "-ran') }}",
    "import": "{% import '" + MARK + ".py' as x %}",
    "include": "{% include '/etc/passwd' %}",
    "attribute": "{{ (messages|attr('__class__')).__mro__ }}",
    "namespace": "{% set n = namespace(__init__=1) %}{{ n.__init__.__globals__ }}",
    "lorem": "{{ lipsum(99999) }}",
    "sorted": "{{ range(99999)|sort|reverse|list|string * 999 }}",
    "batch": "{{ range(99999)|batch(1)|list|tojson }}",
    "json": "{{ messages|tojson(indent=999999999) }}",
    "controls": CONTROLS,
    "empty": "",
}
ADAPTER: Mapping[str, Any] = {
    "peft_type": "LORA",
    "task_type": "CAUSAL_LM",
    "r": 2,
    "lora_alpha": 4,
    "target_modules": ["q_proj"],
    "base_model_name_or_path": str(BASE),
    "bias": "none",
}
ADAPTERS: Mapping[str, Mapping[str, Any]] = {
    "honest": {},
    "backtracking": {"target_modules": "(.*a|.*b|.*)*" * 9 + "$"},
    "backtracking list": {"target_modules": ["(.*.*)*x"]},
    "exclude": {"exclude_modules": "(.*.*.*)*x"},
    "pattern of layers": {"layers_to_transform": [0], "layers_pattern": "(.*.*)*x"},
    "pattern of ranks": {"rank_pattern": {"(.*.*.*)*x": 4}},
    "pattern of alphas": {"alpha_pattern": {"(.*.*.*)*x": 4}},
    "rank": {"r": 3_000_000},
    "rank of one": {"rank_pattern": {"q_proj": 3_000_000_000}},
    "start": {"init_lora_weights": "pissa_niter_999999999"},
    "replication": {"layer_replication": [[0, 3]] * 9999},
    "module": {"megatron_config": {"x": 1}, "megatron_core": MARK},
    "library": {"auto_mapping": {"base_model_class": MARK, "parent_library": MARK}},
    "kind": {"peft_type": CONTROLS},
    "names": {"target_modules": [CONTROLS]},
    "base": {"base_model_name_or_path": CONTROLS},
    "no base": {"base_model_name_or_path": None},
    "base of its own": {"base_model_name_or_path": "."},
    "tokens": {"trainable_token_indices": [3_000_000_000]},
    "virtual": {"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 3_000_000_000},
}
# Parts of tokenizer.json at which the Rust code has no check of its own
PANICS: dict[str, Mapping[str, Any]] = {
    "stride": {
        "truncation": {
            "direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 9,
        }
    },
    "multiple": {
        "padding": {
            "strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": 0,
            "pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>",
        }
    },
    "padding": {
        "padding": {
            "strategy": {"Fixed": 10**12}, "direction": "Right", "pad_to_multiple_of": None,
            "pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>",
        }
    },
    "template": {
        "post_processor": {
            "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "Q", "type_id": 0}}],
            "pair": [], "special_tokens": {},
        }
    },
    "strip": {"decoder": {"type": "Strip", "content": "a", "start": 10**9, "stop": 10**9}},
    "strips": {
        "decoder": {
            "type": "Sequence",
            "decoders": [{"type": "Strip", "content": "a", "start": 3, "stop": 3}],
        }
    },
    "pieces of none": {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
    "second sequence": {
        "post_processor": {
            "type": "TemplateProcessing", "single": [{"Sequence": {"id": "B", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}], "special_tokens": {},
        }
    },
    "prefix": {
        "model": {
            "type": "BPE", "continuing_subword_prefix": "####", "vocab": {"a": 0, "b": 1, "ab": 2},
            "merges": [["a", "b"]],
        }
    },
    "charsmap": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAAgA=="}},
    "charsmap short": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "/////w=="}},
    "unigram": {"model": {"type": "Unigram", "unk_id": 0, "vocab": [["a", 0.0]]}},
    "unigram without": {"model": {"type": "Unigram", "unk_id": None, "vocab": [["b", -1.0]]}},
    "unigram empty": {"model": {"type": "Unigram", "unk_id": None, "vocab": []}},
    "unigram far": {"model": {"type": "Unigram", "unk_id": 0, "vocab": [["", 1e308], ["", -9.0]]}},
    "wordpiece": {
        "model": {
            "type": "WordPiece", "unk_token": "[NO]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 9, "vocab": {"a": 0},
        }
    },
    "wordlevel": {"model": {"type": "WordLevel", "unk_token": "no", "vocab": {"a": 0}}},
    "backtracking": {
        "pre_tokenizer": {
            "type": "Split", "pattern": {"Regex": "(\\w*\\w*\\w*)*$x"}, "behavior": "Isolated",
            "invert": False,
        }
    },
    "replace": {
        "normalizer": {
            "type": "Replace", "pattern": {"Regex": ""}, "content": CONTROLS,
        }
    },
    "ids": {"model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 4_294_967_295}}},
    "added": {
        "added_tokens": [
            {
                "id": 4_294_967_295, "content": CONTROLS, "single_word": False, "lstrip": False,
                "rstrip": False, "normalized": False, "special": True,
            }
        ]
    },
}  # fmt: skip


def _doubled(piece: str, times: int) -> list[dict[str, Any]]:
    return [
        {"type": "Replace", "pattern": {"String": piece}, "content": 2 * piece}
        for _ in range(times)
    ]


def _split(regex: str) -> dict[str, Any]:
    return {
        "pre_tokenizer": {
            "type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False,
        }
    }  # fmt: skip


# Parts of tokenizer.json that take hours, or all memory: at every text, or at one that nobody tries
HANGING: dict[str, Mapping[str, Any]] = {
    "doubling": {"normalizer": {"type": "Sequence", "normalizers": _doubled("w", 40)}},
    "between all": {
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Replace", "pattern": {"String": ""}, "content": "xxxxxxxxxx"}
                for _ in range(12)
            ],
        }
    },
    # Below the million tries at which the library gives up, but at each character
    "many ways": _split(r"(?:(?:[a-z ]|[a-z ]|[a-z ]|[a-z ]){10}\n!)|[\s\S]"),
    "at one text": _split(r"(?:(?:x|x|x|x){10}y)|[\s\S]"),
    "growing decoder": {"decoder": {"type": "Sequence", "decoders": _doubled("w", 40)}},
}


def _chain(letter: str, length: int) -> str:
    """Merges that join one letter after the other to the end of a word: in Python each of them
    looks at the whole word.
    """
    return "".join(f"{letter} {letter * count}</w>\n" for count in range(1, length))


def _other_files(kind: str, merges: str, config: Mapping[str, Any]) -> Mapping[str, str]:
    """The files of a tokenizer of this class that is not a tokenizer.json."""
    vocabulary = json.loads((BASE / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    told = {"tokenizer_class": kind, "unk_token": "<eos>", **config}
    return {
        "vocab.json": json.dumps(vocabulary),
        "merges.txt": "\n".join(["#version: 0.2", *merges.splitlines(), ""]),
        "tokenizer_config.json": json.dumps(told),
    }


ENDS = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>"}
# Tokenizers that are no tokenizer.json: in Rust and in Python, honest and slow
OTHER_FILES: dict[str, Mapping[str, str]] = {
    "merges in Rust": _other_files("GPT2Tokenizer", "", ENDS),
    "merges in Python": _other_files("CTRLTokenizer", "a b\nab c</w>", {}),
    "bytes in Python": _other_files("ByT5Tokenizer", "", {"extra_ids": 0}),
    "a chain of merges": _other_files("CTRLTokenizer", _chain("w", 4000), {}),
    "a chain at one text": _other_files("CTRLTokenizer", _chain("x", 4000), {}),
    "no vocabulary": {"vocab.json": "[]", "merges.txt": "", "tokenizer_config.json": "{}"},
    "a class of nobody": _other_files(MARK, "a b", ENDS),
    "a sentencepiece model that is none": {
        "tokenizer.model": "\n" * 99, "tokenizer_config.json": '{"tokenizer_class": "T5Tokenizer"}',
    },
}  # fmt: skip
RAW = {  # files that are no JSON of ours
    "nested": b"[" * 100_000,
    "nested objects": b'{"a":' * 100_000,
    "empty": b"",
    "null": b"null",
    "list": b"[]",
    "number": b"9" * 5000,
    "controls": CONTROLS.encode(),
    "no text": b"\xff\xfe\x00" * 99,
    "spaces": b" " * (8 << 20),
}
WEIGHTS = {
    "header of nothing": b"\xff" * 8,
    "header beyond": (2**62).to_bytes(8, "little"),
    "header of controls": len(CONTROLS.encode()).to_bytes(8, "little") + CONTROLS.encode(),
    "empty": b"",
    "nested": (100_000).to_bytes(8, "little") + b"[" * 100_000,
}
TEXTS = (
    "a",
    "gcd of 4 and 6?",
    "wort " * 300,
    "x" * 3000,
    "é\u202e\x1b[31m\ud800",
    "<bos>x<eos>",
    "7" * 5000,
)


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of the corpus: its kind, its name, and what makes it out of the honest one."""

    kind: str
    name: str
    change: Callable[[Path], None]


@dataclass
class Found:
    """The figures of a run."""

    folders: Counter[str] = field(default_factory=Counter)  # by kind
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest: float = 0.0  # seconds


def folders() -> Iterator[Folder]:
    """The corpus."""
    for name in DOCUMENTS:
        yield from _fields(name)
        for label, content in RAW.items():
            yield Folder("no JSON", f"{name}: {label}", partial(_put, name, content))
    for label, template in TEMPLATES.items():
        yield Folder(
            "templates", label, partial(_put, "chat_template.jinja", template.encode("utf-8"))
        )
    for label, changed in ADAPTERS.items():
        yield Folder("adapters", label, partial(_adapt, {**ADAPTER, **changed}))
    for label, changed in (PANICS | HANGING).items():
        yield Folder("tokenizers", label, partial(_merge, "tokenizer.json", changed))
    for label, files in OTHER_FILES.items():
        yield Folder("tokenizers", label, partial(_with_other_files, files))
        both = partial(_with_other_files, files, beside=True)
        yield Folder("tokenizers", f"{label} beside", both)
    for label, content in RAW.items():
        for name in ("vocab.json", "merges.txt"):
            whole = {**OTHER_FILES["merges in Python"], name: content.decode("latin-1")}
            broken = partial(_with_other_files, whole)
            yield Folder("tokenizers", f"{name}: {label}", broken)
    for label, content in WEIGHTS.items():
        yield Folder("weights", label, partial(_put, "model.safetensors", content))
    yield from _shapes()


def _shapes() -> Iterator[Folder]:
    """Folders whose model is another than their weights are of, or comes with code."""
    for label, key in (("layers", "num_hidden_layers"), ("width", "hidden_size")):
        for number in (64, 512, 1024):
            yield Folder(
                "sizes", f"{label} {number}", partial(_merge, "config.json", {key: number})
            )
    for kind in ("gpt2", "mixtral", "mamba", "bloom", "gemma3", MARK, CONTROLS):
        yield Folder(
            "sizes", f"type {kind!r}", partial(_merge, "config.json", {"model_type": kind})
        )
    code = {"auto_map": {"AutoConfig": f"{MARK}.X", "AutoModelForCausalLM": f"{MARK}.X"}}
    yield Folder("code", "auto_map", partial(_merge, "config.json", {**code, "model_type": MARK}))
    yield Folder("code", "auto_map beside", partial(_merge, "config.json", code))
    for name in ("tokenizer_class", "processor_class", "feature_extractor_type"):
        yield Folder(
            "code",
            name,
            partial(
                _merge,
                "tokenizer_config.json",
                {name: MARK, "auto_map": {"AutoTokenizer": [f"{MARK}.X", None]}},
            ),
        )


def _fields(name: str) -> Iterator[Folder]:
    content = json.loads((BASE / name).read_text(encoding="utf-8"))
    for path, key in places(_few(content)):
        shown = ".".join(map(str, path))
        for label, value in VALUES.items():
            if key and not isinstance(value, str):
                continue
            yield Folder(
                name,
                f"{shown}{' (key)' if key else ''}: {label}",
                partial(_set, name, path, value, key),
            )


def _few(value: Any) -> Any:
    """The same with a few entries of each large object and list: of a vocabulary all are alike."""
    if isinstance(value, dict):
        few = dict(list(value.items())[: None if len(value) < 40 else MOST_ENTRIES])
        return {key: _few(inner) for key, inner in few.items()}
    return [_few(inner) for inner in value[:MOST_ENTRIES]] if isinstance(value, list) else value


def _set(name: str, path: Where, value: Any, key: bool, folder: Path) -> None:
    content = json.loads((folder / name).read_text(encoding="utf-8"))
    (folder / name).write_text(json.dumps(replaced(content, path, value, key)), encoding="utf-8")


def _merge(name: str, changed: Mapping[str, Any], folder: Path) -> None:
    content = json.loads((folder / name).read_text(encoding="utf-8"))
    (folder / name).write_text(json.dumps({**content, **copy.deepcopy(dict(changed))}))


def _with_other_files(files: Mapping[str, str], folder: Path, beside: bool = False) -> None:
    """Puts these files of a tokenizer in the place of tokenizer.json, or beside it."""
    if not beside:
        (folder / "tokenizer.json").unlink()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="latin-1" if "\xff" in text else "utf-8")


def _put(name: str, content: bytes, folder: Path) -> None:
    (folder / name).write_bytes(content)


def _adapt(config: Mapping[str, Any], folder: Path) -> None:
    from safetensors.torch import save_file

    for name in ("config.json", "model.safetensors"):
        (folder / name).unlink()
    (folder / "adapter_config.json").write_text(json.dumps(config))
    weights: dict[str, torch.Tensor] = {}
    for layer in range(3):
        place = f"base_model.model.model.layers.{layer}.self_attn.q_proj"
        weights |= {f"{place}.lora_A.weight": torch.zeros(2, 128)}
        weights |= {f"{place}.lora_B.weight": torch.zeros(128, 2)}
    save_file(weights, folder / "adapter_model.safetensors")


# Reading a folder


def read(folder: Path) -> None:
    """What commands do with a model: they load it, say what it is, and give it texts."""
    policy = loading.load_policy(ModelConfig(name=str(folder), device="cpu"))
    print(f"model {policy.name} {policy.arithmetic} {policy.model.config.model_type}")
    with suppress(errors.UserError):
        policy.take(Frame(system="Be brief."))
    policy.take(Frame())
    for text in TEXTS:
        ids = policy.encode_prompt(text)
        ids += policy.encode_completion(text, ended=True)
        ids += policy.encode_observations([text], ids[-1] if ids else 0)
        print(policy.decode([ids, [0, 1, 2]])[0])


def corpus(some: int = 1, kind: str = "", name: str = "") -> Found:
    """Reads all folders, or every `some`-th, or those of one kind, or of one name."""
    torch.set_num_threads(1)
    found, number = Found(), 0
    with tempfile.TemporaryDirectory(prefix="models-") as place:
        for folder in folders():
            if kind not in ("", folder.kind) or name not in ("", folder.name):
                continue
            number += 1
            if number % some == 0:
                _one(folder, Path(place), found)
    return found


def _one(case: Folder, place: Path, found: Found) -> None:
    folder, out = place / "model", place / "out"
    for each in (folder, out):
        shutil.rmtree(each, ignore_errors=True)
    shutil.copytree(BASE, folder)
    out.mkdir()
    evil = f"open({str(out / (MARK + '-ran'))!r}, 'w')\nclass X: ...\n"
    (folder / f"{MARK}.py").write_text(evil)
    case.change(folder)
    began = time.monotonic()
    outcome, ran = _apart(folder, out)
    found.slowest = max(found.slowest, time.monotonic() - began)
    said = (out / "said").read_bytes().decode(errors="surrogateescape")
    found.folders[case.kind] += 1
    found.outcomes[outcome] += 1
    label = f"{case.kind} {case.name}"
    found.faults += [f"executed: {label}: {what}" for what in ran]
    if outcome not in ("loaded", "refused"):
        found.faults.append(f"{outcome}: {label}: {said[-300:]!r}")
    if "Traceback" in said:
        found.faults.append(f"traceback: {label}: {said[-300:]!r}")
    if obeyed := {char for char in said if char != "\n" and _controls(char)}:
        found.faults.append(f"controls: {label}: {sorted(obeyed)!r} in {said[-300:]!r}")
    lines = [line for line in said.splitlines() if line.startswith("swarm-node: ")]
    if outcome == "refused" and len(lines) != 1:
        found.faults.append(f"not one line: {label}: {lines!r}")


def _controls(char: str) -> bool:
    return unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}


def _apart(folder: Path, out: Path) -> tuple[str, list[str]]:
    """Reads the folder in a process of its own. Returns how that ended, and what ran."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        os.setsid()
        _child(folder, out, writer)
    os.close(writer)
    ready = select.select([reader], [], [], SECONDS)[0]
    told = os.read(reader, 1 << 16) if ready else b""
    os.close(reader)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    if not ready:
        return "hangs", []
    if not told:
        return "died", []
    answer: dict[str, Any] = json.loads(told)
    left = [file.name for file in out.glob(f"{MARK}-*")]
    return answer["outcome"], [*answer["ran"], *left]


def _child(folder: Path, out: Path, writer: int) -> None:
    """The life of that process; never returns."""
    outcome, watch = "raised", Watch(out)
    try:
        _confine()
        said = os.open(out / "said", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said, 2)
        sys.stdout, sys.stderr = (
            open(number, "w", closefd=False, errors="replace")  # noqa: SIM115  (as in a command)
            for number in (1, 2)
        )
        terminal.guard_streams()
        terminal.guard_libraries()
        templates._children.clear()  # those of the parent
        tokenizer_trial._trials.clear()
        sys.addaudithook(watch.hook)
        watch.on = True
        with suppress(Ran):
            outcome = {0: "loaded", 2: "refused", 75: "refused"}.get(
                cli.outcome([], lambda _: read(folder)), "raised"
            )
    except BaseException:  # noqa: BLE001  (told to the parent)
        import traceback

        watch.on = False
        traceback.print_exc()
    finally:
        watch.on = False
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(writer, json.dumps({"outcome": outcome, "ran": watch.ran}).encode())
        templates.close()
        tokenizer_trial.close()
        os._exit(0)


def _confine() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    room = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (room, room))


@dataclass(frozen=True, slots=True)
class Hole:
    """A mistake that the corpus has to find: the folder that shows it, and what is replaced."""

    kind: str
    folder: str
    places: tuple[tuple[Any, str], ...]
    instead: Callable[..., Any]


def _as_it_is(text: str) -> str:
    return text


HOLES: Mapping[str, Hole] = {
    "layers": Hole(
        "config.json",
        "num_hidden_layers: many",
        ((bounds, "check_folder"), (loading, "_check_weights")),
        lambda folder: None,
    ),
    "patterns": Hole(
        "adapters", "pattern of ranks", ((bounds, "check_adapters"),), lambda config: None
    ),
    "panics": Hole("tokenizers", "prefix", ((soundness, "is_panic"),), lambda error: False),
    "lines": Hole(
        "sizes", f"type {CONTROLS!r}", ((errors, "escaped"), (terminal, "escaped")), _as_it_is
    ),
    "native": Hole(
        "tokenizer.json",
        "added_tokens.1.lstrip (key): controls",
        ((loading, "native_kept"),),
        nullcontext,
    ),
}


@contextmanager
def hole(name: str) -> Iterator[Hole]:
    """Puts in a mistake that the corpus has to find."""
    made = HOLES[name]
    before = [getattr(module, function) for module, function in made.places]
    for module, function in made.places:
        setattr(module, function, made.instead)
    try:
        yield made
    finally:
        for (module, function), honest in zip(made.places, before, strict=True):
            setattr(module, function, honest)


def main() -> None:
    parser = command.parser("lab.fuzzing.models", __doc__)
    parser.add_argument("--some", type=int, default=1, help="every Nth folder only")
    parser.add_argument("--kind", default="", help="folders of this kind only")
    parser.add_argument("--holes", action="store_true", help="put each hole in, in turn")
    options = parser.parse_args()
    if options.holes:
        holes = {}
        for name in HOLES:
            with hole(name) as made:
                holes[name] = len(corpus(1, made.kind, made.folder).faults)
        print(*(f"{name}: {count} faults" for name, count in holes.items()), sep="\n")
        command.finish(options, holes)
        sys.exit(not all(holes.values()))
    found = corpus(options.some, options.kind)
    print(*found.faults, sep="\n")
    print(
        f"{found.folders.total()} folders ({dict(found.folders)}): {dict(found.outcomes)}, "
        f"{len(found.faults)} faults, the slowest {found.slowest:.1f} s"
    )
    faults = Counter(fault.partition(":")[0] for fault in found.faults)
    command.finish(
        options,
        {
            "folders": found.folders.total(),
            "kinds": dict(found.folders),
            "loaded": found.outcomes["loaded"],
            "refused": found.outcomes["refused"],
            "executions": faults["executed"],
            "tracebacks": faults["traceback"],
            "raised": faults["raised"] + faults["died"],
            "hangs": faults["hangs"],
            "controls": faults["controls"] + faults["not one line"],
        },
    )
    sys.exit(bool(found.faults))


if __name__ == "__main__":
    main()
