"""A page hides the characters that a command does not print."""

import json
import shutil
import subprocess
import unicodedata
from pathlib import Path

import pytest

from swarm_node.common.errors import escaped
from swarm_node.page import app

TOOLS = Path(app.__file__).with_name("static") / "tools.js"
NODE = shutil.which("node")
ASK = """
import { visible } from "./tools.mjs";
const every = Array.from({ length: 0x110000 }, (_, code) => code);
const stays = (char) => visible(char) === char;
console.log(JSON.stringify(every.filter((code) => stays(String.fromCodePoint(code)))));
"""


@pytest.mark.skipif(NODE is None, reason="needs Node.js")
def test_a_page_shows_no_character_that_a_command_does_not_print(tmp_path: Path) -> None:
    shutil.copy(TOOLS, tmp_path / "tools.mjs")
    (tmp_path / "ask.mjs").write_text(ASK)
    words = [str(NODE), str(tmp_path / "ask.mjs")]
    told = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    shown = set(map(chr, json.loads(told.stdout)))
    hidden = {char for char in map(chr, range(0x110000)) if escaped(char) != char}
    kept = {"\n", "\t"}
    assert kept <= shown
    # What this Python does not know yet, a newer engine may
    later = {char for char in hidden if unicodedata.category(char) == "Cn"}
    assert not (shown & hidden) - kept - later
    assert not (set(map(chr, range(32, 127))) | set("é漢あ🙂")) - shown
