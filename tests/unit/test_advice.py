"""What messages tell users to type exists: flags, commands, options and extras."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from swarm_node.commands.table import COMMANDS, load
from swarm_node.settings.command_line import KINDS
from swarm_node.settings.flags import options_of
from swarm_node.settings.programs import DoctorConfig

ROOT = Path(__file__).parents[2]
# Pages of ours, and flags of hf, pip and vllm.
OTHERS = {"--help", "--help-all", "--local-dir", "--force-reinstall", "--logprobs-mode", "--enable-prefix-caching"}
TAKEN = (*KINDS, DoctorConfig, *(load(name).options for name in COMMANDS))
FLAGS = {flag for kind in TAKEN if hasattr(kind, "model_fields") for flag in options_of(kind)}


def messages() -> list[str]:
    spec = spec_from_file_location("messages", ROOT / "docs" / "reference" / "messages.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(module.messages())


MESSAGES = messages()


def test_there_is_advice_to_look_at():
    assert len(MESSAGES) > 100
    assert sum("--" in text for text in MESSAGES) > 20


@pytest.mark.parametrize("text", [text for text in MESSAGES if "--" in text])
def test_every_flag_that_a_message_names_exists(text):
    whole = re.sub(r"--[a-z]+\.…", "", text)  # an option of a section that the message fills in
    for flag in re.findall(r"(?<![\w-])(--[a-z][a-z0-9._-]*[a-z0-9])", whole):
        assert flag.replace("_", "-") in FLAGS | OTHERS, text


@pytest.mark.parametrize("text", [text for text in MESSAGES if "swarm-node " in text])
def test_every_command_that_a_message_names_exists(text):
    for word in re.findall(r"swarm-node ([a-z]+)", text):
        assert word in COMMANDS or word == "is", text
