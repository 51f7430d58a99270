"""One word for one thing: docs/reference/glossary.md. A search for the words that were retired finds none."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RETIRED = {  # pattern -> what to write instead
    r"\bown (groups?|completions?|answers?|attempts?|texts?|rollouts?|tokens?|policy|questions?|ones?)\b": "local",
    r"\b(groups?|completions?|answers?|texts?|tokens?|rollouts?) of (others|other peers)\b": "external",
    r"\bothers' (\w+ )?(groups?|completions?|answers?|texts?|tokens?|rollouts?)\b": "external",
    r"\bforeign\b": "external",
    r"(?<![a-z])(over)?heard(?![a-z])|\bhears?\b|\bhearing\b": "received, collected",
    r"(?<![a-z])(?<!config\.)(?<!\")judg(e|es|ed|ing|ement)(?![a-z])": "score, scoring process",  # verifiers has judges
    r"\b(with|without|rare|more|some) signal\b|(?<![a-z])has_signal(?![a-z])|\bthe signal is\b": "informative",
    r"\bentry nodes?\b": "bootstrap node",
    r"\b(right|wrong|honest|hostile|better|local|external) attempts?\b|\bown attempts?\b": "completion",
    r"\b(drew|drawn|draws?) (\w+ )?groups?\b|\bdraws? (external|from others)\b": "select",
    r"\bgroups? (\w+ )?(drawn?|drew|draws)\b": "select",
    r"\b(polic(y|ies)|models?|weights) (that )?(has |have |had )?(wrote|writes?)\b|\bwho(ever)? wrote\b": "generate",
    r"\b(completions?|rounds?|tokens?|groups?) (\w+ )?(is|are|was|were|been|being) written\b": "generate",
    r"\bwritten by (the |a |an |other |hostile )?(polic|model|weights|peer|author|node)": "generate",
    r"(?<![a-z])(un)?(pays?|paid|paying)(?![a-z])": "score, reward",
    r"\battempts? (of|at|by) (the |a |an |its |their )?(polic|model|node|question|prompt)": "completion",
    r"\b(sharing|its|their|sampled|generated) attempts?\b": "completion",
    r"\b(sampled|generated|hostile|poisoned) answers?\b|\banswers of (the |a )?(model|polic|victim|peer)": "completion",
    r"\b(model|policy|victim)s?('s|') answers?\b|\bscore\(self, answers\b|\banswers: Sequence\[tuple": "completion",
    r"\b(nodes?|swarms?|peers?) (that )?(\w+ )?(learns?|learned) (from|together)\b": "train on",
    r"\blearn(s|ed)? from (others|peers|external)": "train on",
}
KEPT = (
    "swarm_node/common/renamed.py",
    "tests/unit/test_renamed.py",
    "docs/reference/glossary.md",
    "tests/unit/test_vocabulary.py",
)
FOLDERS = ("tests/data/",)


def searched() -> list[str]:
    listed = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True).stdout
    kinds = (".py", ".md", ".toml", ".sh", "Makefile", "Dockerfile")
    return [
        file
        for file in listed.splitlines()
        if file.endswith(kinds) and file not in KEPT and not file.startswith(FOLDERS) and (ROOT / file).exists()
    ]


@pytest.mark.parametrize("pattern", RETIRED)
def test_no_retired_word_is_left(pattern: str) -> None:
    word = re.compile(pattern, re.IGNORECASE)
    found = [
        f"{file}:{number}: {line.strip()[:120]}"
        for file in searched()
        for number, line in enumerate((ROOT / file).read_text().splitlines(), 1)
        if word.search(line.replace("_", " ") if "def test_" in line else line)  # names of tests are sentences
    ]
    assert not found, f"write {RETIRED[pattern]!r}:\n" + "\n".join(found)
