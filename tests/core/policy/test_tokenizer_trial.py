"""A tokenizer is a stranger's program: it gets no more than its time and memory at any text."""

import json
import shutil
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.fuzzing.models import HANGING, OTHER_FILES, _with_other_files
from swarm_node import starters
from swarm_node.common.errors import UserError
from swarm_node.policy import tokenizer_trial
from swarm_node.policy.loading import load_policy
from swarm_node.policy.policy import Policy
from swarm_node.policy.tokenizer_trial import KNOWN_REGEXES, TooSlow, Trial, is_plain, trial_of
from swarm_node.settings import ModelConfig
from tests.commands import python

RARE = json.loads((starters.folder("rare") / "tokenizer.json").read_text(encoding="utf-8"))
# Slow at a row of x alone, which no text that models are tried with has
AT_ONE_TEXT = HANGING["at one text"]
OTHER = {  # honest, and not known
    "pre_tokenizer": {
        "type": "Split", "pattern": {"Regex": r"\w+|\s|[^\w\s]"}, "behavior": "Isolated",
        "invert": False,
    }
}  # fmt: skip


def folder_of(changed: Mapping[str, Any], folder: Path) -> Path:
    shutil.copytree(starters.folder("rare"), folder)
    (folder / "tokenizer.json").write_text(json.dumps({**RARE, **changed}), encoding="utf-8")
    return folder


def loaded(changed: Mapping[str, Any], folder: Path) -> Policy:
    return load_policy(ModelConfig(name=str(folder_of(changed, folder))))


def test_tokenizers_of_ours_and_of_well_known_models_need_no_child() -> None:
    for name in ("rare", "rare_large", "puzzler", "very_rare"):
        policy = load_policy(ModelConfig(name=name))
        assert trial_of(policy.tokenizer) is None
    gemma = {
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "pre_tokenizer": {
            "type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
            "invert": False,
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        },
    }  # fmt: skip
    assert is_plain({**RARE, **gemma})
    for regex in KNOWN_REGEXES:
        split = {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated"}
        assert is_plain({**RARE, "pre_tokenizer": split})


@pytest.mark.parametrize("name", HANGING)
def test_a_tokenizer_that_hangs_is_not_plain(name: str) -> None:
    assert not is_plain({**RARE, **HANGING[name]})


def test_a_change_of_any_kind_of_part_is_not_plain() -> None:
    parts: list[dict[str, Any]] = [
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": ""}},
        {"normalizer": {"type": "Unheard"}},
        {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 9}},
        {"normalizer": {"type": "Prepend", "prepend": "x" * 65}},
        {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a|a)*"}}},
        {"pre_tokenizer": {"type": "Split", "pattern": {"String": ""}}},
        {"decoder": {"type": "Strip", "content": "a", "start": 99, "stop": 0}},
        {"decoder": {"type": "Replace", "pattern": {"Regex": "a"}, "content": ""}},
        {"post_processor": {"type": "TemplateProcessing", "single": ["x" * 5000]}},
        {"model": {"type": "BPE", "dropout": 0.1}},
        {"model": {"type": "WordPiece", "max_input_chars_per_word": 10**9}},
        {"model": {"type": "Unigram", "vocab": [["x" * 300, 0.0]]}},
        {"model": {"type": "Unheard"}},
        {"model": None},
        {"truncation": {"max_length": 2}},
        {"padding": {"strategy": {"Fixed": 10**12}}},
    ]
    for changed in parts:
        assert not is_plain({**RARE, **changed}), changed


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in HANGING if name != "at one text"])
def test_a_model_whose_tokenizer_hangs_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    """Without the trial each of these takes hours, or ends the process for lack of memory."""
    with pytest.raises(UserError, match=r"its tokenizer (needs|takes|makes) ") as raised:
        loaded(HANGING[name], tmp_path / "model")
    assert "\n" not in str(raised.value)


@pytest.mark.slow
def test_a_text_at_which_a_tokenizer_hangs_is_left_out_and_the_node_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = loaded(AT_ONE_TEXT, tmp_path / "model")
    assert policy.encode_completion("forty-two", ended=True)
    assert policy.encode_completion("x" * 3000, ended=True) == []
    assert policy.encode_prompt("x" * 3000) == []
    assert policy.encode_completion("forty-two", ended=True), "a fresh child takes it"
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "such texts are skipped" in said
    trial = trial_of(policy.tokenizer)
    assert trial is not None
    trial.close()
    with pytest.raises(TooSlow):
        trial.encode("x" * 3000 + policy.frame.stop, special=False, split=True)
    assert not trial._child.runs, "the same text is not tried again"


@pytest.mark.slow
def test_an_unknown_tokenizer_gives_the_ids_that_it_gives_in_transformers(tmp_path: Path) -> None:
    policy = loaded(OTHER, tmp_path / "model")
    trial = trial_of(policy.tokenizer)
    assert trial is not None
    for text in ("", "a b\n c", "<eos> é 7", "\ud800", "\U0001f600" * 9):
        try:
            wanted = policy.tokenizer(
                text, add_special_tokens=False, split_special_tokens=True
            ).input_ids
        except TypeError:  # a lone surrogate
            wanted = []
        assert policy.encode_completion(text, ended=False) == wanted
        assert policy.decode([wanted]) == [
            policy.tokenizer.decode(wanted, clean_up_tokenization_spaces=False)
        ]
    trial.close()
    found: list[int] = []

    def ask() -> None:
        found.extend(len(policy.encode_completion("a b", ended=False)) for _ in range(5))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({*found}) == 1 and len(found) == 20


@pytest.mark.slow
def test_what_the_model_generates_is_written_out_in_time_or_ends_in_one_line(
    tmp_path: Path,
) -> None:
    policy = load_policy(ModelConfig(name="rare"))
    from transformers import PreTrainedTokenizerFast

    place = folder_of(HANGING["growing decoder"], tmp_path / "model")
    policy.tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(place / "tokenizer.json"))
    ids = policy.tokenizer.convert_tokens_to_ids(list("wwwwwwwww"))
    with pytest.raises(UserError, match="cannot write out what the model generates: needs more"):
        policy.decode([ids * 99])


@pytest.mark.slow
def test_a_child_is_confined_before_it_reads_its_tokenizer() -> None:
    trial = Trial(json.dumps({**RARE, **OTHER}))
    trial.encode("a", special=True, split=False)
    process = trial._child._process
    assert process is not None
    status = Path(f"/proc/{process.pid}/status").read_text()
    assert "Seccomp:\t2" in status and "NoNewPrivs:\t1" in status
    limits = Path(f"/proc/{process.pid}/limits").read_text().splitlines()
    rows = {row[:26].strip(): row[26:].split()[0] for row in limits}
    assert rows["Max address space"] == str(tokenizer_trial.MEMORY)
    assert int(rows["Max cpu time"]) <= tokenizer_trial.TEXT_SECONDS + 2
    assert rows["Max open files"] == rows["Max file size"] == "0"
    trial.close()


def loaded_of_other_files(name: str, folder: Path, beside: bool = False) -> Policy:
    shutil.copytree(starters.folder("rare"), folder)
    _with_other_files(OTHER_FILES[name], folder, beside)
    return load_policy(ModelConfig(name=str(folder)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["merges in Rust", "merges in Python"])
def test_an_honest_tokenizer_that_is_no_tokenizer_json_reads_and_writes_as_before(
    name: str, tmp_path: Path
) -> None:
    policy = loaded_of_other_files(name, tmp_path / "model")
    trial = trial_of(policy.tokenizer)
    assert (trial is None) == (name == "merges in Rust"), "a class in Python keeps its child"
    for text in ("abc a 12", "w" * 2000):
        wanted = policy.tokenizer(text, add_special_tokens=False, split_special_tokens=True)
        ids = list(wanted.input_ids)
        assert policy.encode_completion(text, ended=False) == ids
        written = policy.tokenizer.decode(ids, skip_special_tokens=True)
        assert policy.decode([ids]) == [written]
    if trial is not None:
        process = trial._child._process
        assert process is not None
        status = Path(f"/proc/{process.pid}/status").read_text()
        limits = Path(f"/proc/{process.pid}/limits").read_text()
        assert "Seccomp:\t2" in status and "NoNewPrivs:\t1" in status
        assert limits.partition("Max open files")[2].split()[0] == "0"
        trial.close()


@pytest.mark.slow
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside tokenizer.json"])
def test_a_slow_tokenizer_in_python_is_refused_in_one_line(beside: bool, tmp_path: Path) -> None:
    """An honest tokenizer.json beside it changes nothing: its class does not read that."""
    with pytest.raises(UserError, match=r"its tokenizer (needs|takes) ") as raised:
        loaded_of_other_files("a chain of merges", tmp_path / "model", beside)
    assert "\n" not in str(raised.value)


@pytest.mark.slow
def test_a_text_at_which_a_tokenizer_in_python_is_slow_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = loaded_of_other_files("a chain at one text", tmp_path / "model")
    assert policy.encode_completion("abc", ended=False)
    assert policy.encode_completion("x" * 8000, ended=False) == []
    assert policy.encode_completion("abc", ended=False), "a fresh child takes it"
    assert "such texts are skipped" in capsys.readouterr().err
    trial = trial_of(policy.tokenizer)
    assert trial is not None
    trial.close()


READS_ALONE = """if True:
    import os, socket, sys
    from pathlib import Path
    from swarm_node.policy.folder_child import only_read
    folder = Path(sys.argv[1])
    only_read(folder)
    print((folder / "config.json").read_text()[:1])
    for name, attempt in {
        "read": lambda: Path(sys.argv[2]).read_text(),
        "list": lambda: os.listdir(Path(sys.argv[2]).parent),
        "write": lambda: (folder / "new").write_text("x"),
        "socket": lambda: socket.socket(),
        "fork": os.fork,
        "run": lambda: os.execv("/bin/true", ["true"]),
        "kill": lambda: os.kill(os.getppid(), 0),
    }.items():
        try:
            attempt()
            print("did", name)
        except OSError:
            pass
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Landlock and seccomp are of Linux")
def test_while_a_folder_is_loaded_its_child_reads_that_folder_and_can_do_nothing_else(
    tmp_path: Path,
) -> None:
    shutil.copytree(starters.folder("rare"), tmp_path / "model")
    (tmp_path / "secret").write_text("secret")
    done = python("-P", "-c", READS_ALONE, tmp_path / "model", tmp_path / "secret")
    assert (done.returncode, done.stdout, done.stderr) == (0, "{\n", "")
