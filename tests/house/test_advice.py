"""What messages and remedies tell users to type is taken by the commands that say it, with the values they name."""

import re
import tomllib
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from swarm_node.commands.table import entries, group, load
from swarm_node.common.errors import UserError
from swarm_node.settings import with_sections
from swarm_node.settings.command_line import find_flag, flags_of, from_command_line

ROOT = Path(__file__).parents[2]
# Flags of hf, pip, torchrun and vllm.
OTHERS = {"--nnodes", "--max-restarts", "--local-dir", "--force-reinstall"}
OTHERS |= {"--logprobs-mode", "--enable-prefix-caching"}
PAGES = {"--help", "--help-all"}
TRAINING = ("run", "check", "simulate")
SIMULATIONS = ("simulate",)
NETWORK = ("run", "bootstrap", "contribute", "doctor")
# The commands that say what a file of the code says, by the beginning of its path in swarm_node; the longest counts.
SAID_BY = {
    "commands/backup.py": ("home id", "home backup", "home restore"),
    "commands/bundle.py": ("doctor",),
    "commands/check.py": ("check",),
    "extensions/completion/command.py": ("completion",),
    "commands/doctor.py": ("doctor",),
    "commands/evaluate.py": ("model eval",),
    "commands/home.py": ("run", "bootstrap", "contribute", "home id"),
    "commands/run": ("run",),
    "commands/status.py": ("status", "peers", "doctor", "pause", "resume"),
    "environments": (*TRAINING, "model eval"),
    "extensions/contribute": ("contribute",),
    "extensions/dataset": (*TRAINING, "model eval"),
    "extensions/dataset/command.py": ("task try",),
    "extensions/fp8": TRAINING,
    "extensions/gpus": ("run",),
    "extensions/hub": ("model export", "model push"),
    "extensions/hub/gguf.py": ("model export",),
    "extensions/hub/push.py": ("model push",),
    "extensions/lessons": ("run",),
    "extensions/lessons/ask.py": ("ask",),
    "extensions/libp2p": NETWORK,
    "extensions/page": ("page",),
    "extensions/ray": SIMULATIONS,
    "extensions/simulation": SIMULATIONS,
    "extensions/simulation/plot_command.py": ("view plot",),
    "extensions/taskset": (*TRAINING, "model eval"),
    "extensions/temporal_clue": (*TRAINING, "model eval"),
    "extensions/temporal_clue/command.py": ("task solve",),
    "extensions/temporal_clue/solve.py": ("task solve",),
    "extensions/trackers": TRAINING,
    "extensions/vllm": TRAINING,
    "generation": TRAINING,
    "network/trial.py": ("doctor",),
    "network": NETWORK,
    "network/process/control.py": ("run", "bootstrap", "contribute"),
    "node": TRAINING,
    "node/asynchronous.py": ("run", "check"),
    "node/checkpoints.py": ("run",),
    "policy": TRAINING,
    "policy/device.py": ("run",),
    "policy/hub.py": (*TRAINING, "model eval"),
    "policy/loading.py": (*TRAINING, "model eval"),
    "starters": TRAINING,
    "training": TRAINING,
}
ATTACKS_ALONE = ("--attack.", "an attack needs")  # beginnings of messages in files that simulations have in common
NO_VALUES = {"to", "or", "is", "for", "in", "and", "out", "of", "removes", "keeps", "needs", "names", "says", "leaves"}
NO_VALUES |= {"does", "above", "too", "with", "answers", "are", "smaller", "sets", "another", "at"}
STAND_FOR = {"FOLDER": "folder", "FILE": "file", "NAME": "name", "URL": "http://127.0.0.1:1/v1"}
STAND_FOR |= {"HOST:PORT": "127.0.0.1:8420", "MULTIADDR": "/ip4/127.0.0.1/tcp/1", "MODEL": "model"}
FILES = re.compile(r"\.(py|md|json|jsonl|toml|log|key|txt|safetensors|csv|parquet)$")


def advice() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Each message and its remedy, with the commands that say it."""
    spec = spec_from_file_location("messages", ROOT / "docs" / "reference" / "messages.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    written = tomllib.loads((ROOT / "docs" / "reference" / "messages.toml").read_text())
    remedies = {text: remedy for section in written.values() for text, remedy in section.items()}
    for text, file in module.messages().items():
        yield text, remedies[text], commands_that_say(text, file)


def commands_that_say(text: str, file: str) -> tuple[str, ...]:
    if text.startswith(ATTACKS_ALONE):
        return SIMULATIONS
    place = file.removeprefix("swarm_node/")
    known = [beginning for beginning in SAID_BY if place.startswith(beginning)]
    return SAID_BY[max(known, key=len)] if known else tuple(entries())


ADVICE = list(advice())


def flags_in(text: str) -> Iterator[tuple[str, str]]:
    """Every flag that a text names, with the word behind it. `section.option` counts as its flag."""
    whole = re.sub(r"--[a-z]+\.…|swarm-node [a-z]+ --[\w-]+|swarm_node\.|e\.g\.", "", text)  # sections, other commands
    for found in re.finditer(r"(?<![\w-])(--[a-z][\w.-]*\w)(?:[ =]([^\s…]+))?", whole):
        yield found[1], found[2] or ""
    for found in re.finditer(r"(?<![\w./-])([a-z_]+(?:\.[a-z_0-9]+)+)`?(?: ([\w/]+))?", whole):
        if not FILES.search(found[1]):
            yield f"--{found[1]}".replace("_", "-"), found[2] or ""


def takes(command: str, flag: str, word: str) -> bool:
    """Whether the real command line of this command takes it. AssertionError where it refuses the value."""
    kind = load(entries()[command]).options
    if not hasattr(kind, "model_fields"):
        return False
    try:
        find_flag(flags_of(with_sections(kind)), flag, command)
    except UserError:
        return False
    value = STAND_FOR.get(word.strip("'`,;.:()"), word.strip("'`,;.:()"))
    if not value or value in NO_VALUES:
        return True
    try:
        from_command_line(kind, [flag, value], command)
    except UserError as error:
        assert "is no flag of" in str(error), f"{command} {flag} {value}: {error}"  # a switch, and words behind it
    return True


def test_there_is_advice_to_look_at() -> None:
    assert len(ADVICE) > 100
    assert sum("--" in text for text, _, _ in ADVICE) > 20


@pytest.mark.parametrize(("text", "commands"), [(t, c) for t, _, c in ADVICE if [*flags_in(t)]])
def test_every_command_that_says_it_takes_the_flags_that_a_message_names(text: str, commands: tuple[str, ...]) -> None:
    for flag, word in flags_in(text):
        if flag not in OTHERS | PAGES:
            assert [each for each in commands if not takes(each, flag, word)] == [], f"{flag} of: {text}"


@pytest.mark.parametrize(("remedy", "commands"), [(r, c) for _, r, c in ADVICE if [*flags_in(r)]])
def test_a_command_that_says_it_takes_the_flags_that_the_remedy_names(remedy: str, commands: tuple[str, ...]) -> None:
    for flag, word in flags_in(remedy):
        assert flag in OTHERS or [each for each in commands if takes(each, flag, word)], f"{flag} of: {remedy}"


@pytest.mark.parametrize("text", [each for t, r, _ in ADVICE for each in (t, r) if "swarm-node " in each])
def test_every_command_that_a_text_names_exists_with_the_words_behind_it(text: str) -> None:
    for found in re.finditer(r"swarm-node ((?:home|model|task|view) )?([a-z…]+)((?: +[^\s`;,.()…]+)*)", text):
        name, words = (found[1] or "") + found[2], found[3].split()
        if name in {"is", "again"}:
            continue
        if "…" in name:
            assert name == "…" or group(name.split()[0]), text
            continue
        assert name in entries(), text
        if words and words[0].startswith("--") and words[0] not in PAGES:
            assert takes(name, words[0], words[1] if len(words) > 1 else ""), text
        elif words and words[0].isupper():
            assert words[0] in load(entries()[name]).page.splitlines()[0], text
