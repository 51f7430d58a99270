"""What people read most is written in words that they use.

Texts of options, summaries of commands, short help pages, messages, the page in a browser and the
pages of the documentation have none of the words on the list: each has a better one next to it.
Lab notes and the changelog are spared, since they keep what was written on their day. Documents
outside of the results name a commit in a sentence that begins with "Source:" alone, since nobody
can read a hash aloud.

The list is no dictionary of bad English. It holds what outside readers of this project stumbled
over, so a word joins it when the next one does.
"""

import re
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from swarm_node.commands.table import COMMANDS, GROUPS, load
from swarm_node.settings.command_line import KINDS
from swarm_node.settings.options import describe
from tests.house.messages import messages

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "swarm_node" / "page" / "static"
DOCS = ROOT / "docs"
# What pages may say: a page has room to say which card it means, and to name a method
CARD, OBJECT = r"(?<!model )(?<!graphics )(?<![.`])\bcards?\b", r"\bwhom\b"
METHOD = r"\b(dapo|sft)\b(?! *:)"
IN_PAGES = (CARD, OBJECT, METHOD)
# A pattern, and what to write in its place
WORDS = {
    r"\bmend(s|ed)?\b": "fix",
    r"\banew\b": "again",
    r"\brightly\b": "correctly",
    r"\blikewise\b": "also",
    r"\bseldom\b": "rarely",
    r"\bforetold\b": "predicted",
    r"\bif need be\b": "if there is none",
    r"\bin vain\b": "without success",
    OBJECT: "the peers that",
    r"\bshall\b": "should",
    r"\bbehind\b(?! (an? |the )?(NAT|proxy|API|router|relay|them\b|one relay))": "after",
    r"\bbeside\b": "next to, in addition to",
    r"\b(go|goes|going|went) on\b": "continue",
    r"\b(is|are) gone\b": "was removed, has ended",
    r"\b(is|are|was|were|and|this) left out\b": "skipped, ignored",
    r"\bcannot be had\b": "cannot be downloaded",
    r"\ban own\b": "its own",
    r"\bgoes? by\b": "follows",
    r"(?<!there )\b(is|are) no (?!better|longer|more)[a-z]": "is not a",
    r"\bthere (is|are) (…|\d)": "… is free, … exist",
    r"\bby `?--[a-z]": "with --",
    r"\bso many\b": "the number of",
    METHOD: "dynamic sampling, imitation",
    r"\b(?-i:SmolLM2-135M)\b(?!-Instruct)": "SmolLM2-135M-Instruct",
    # A card is a graphics card: of a swarm it is a manifest, in a repository a model card
    # The option limits.card and the extra `card` are names
    CARD: "GPU, manifest",
}
# Reasons of the protocol, which other implementations compare; `protocol.card.told` says them
OF_THE_PROTOCOL = ("protocol/card.py", "protocol/member.py")
# The name of a way to normalise the loss, as TRL has it
OF_OTHERS = ("dapo: the mean over all tokens", "'dapo'")
QUESTIONS = ("From whom?",)  # that the page asks, as a person would
HASH = re.compile(r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,10}\b")
NAMES = re.compile(r"`[^`]*`|(?<=\])\([^)]*\)")  # of code, and where links lead
BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def options() -> Iterator[tuple[str, str]]:
    """Every text of an option, and what a configuration is for; by where it stands."""
    kinds = {command: load(entry).options for command, entry in COMMANDS.items()}
    for name, kind in [*kinds.items(), *((each.__name__, each) for each in KINDS)]:
        yield f"{name}: its own text", " ".join((kind.__doc__ or "").split())
        yield from ((f"{name}: {key}", text) for key, text in describe(kind).items())


def pages() -> Iterator[tuple[str, str]]:
    """The summary and the short page of help of every command."""
    yield from ((f"swarm-node {name}", text) for name, text in GROUPS.items())
    for name, entry in COMMANDS.items():
        yield f"swarm-node {name}, its summary", entry.summary
        yield f"swarm-node {name} --help", load(entry).page


def said() -> Iterator[tuple[str, str]]:
    """Every message of the code."""
    for text, file in messages().items():
        if file not in OF_THE_PROTOCOL:
            yield file, text


def shown() -> Iterator[tuple[str, str]]:
    """Texts of the page in a browser that are sentences: with a capital letter and a space."""
    for file in sorted(STATIC.glob("*.js")):
        if not file.name.startswith("uPlot"):
            for text in re.findall(r'"([A-Z][^"\n]* [^"\n]*)"', file.read_text(encoding="utf-8")):
                if text not in QUESTIONS:
                    yield file.name, text


def read() -> Iterator[tuple[str, str]]:
    """The sentences of every page, but of lab notes and the changelog. What stands in backticks,
    or is the target of a link, was not written for readers alone.
    """
    folders = ("docs", "docker", "protocol", "examples", "deploy")
    pages = [page for folder in folders for page in (ROOT / folder).rglob("*.md")]
    for page in [*ROOT.glob("*.md"), *pages]:
        lab_note = page.parent == DOCS / "results" and page.name != "README.md"
        if lab_note or page.name == "CHANGELOG.md":
            continue
        for sentence in sentences(page.read_text(encoding="utf-8")):
            yield str(page.relative_to(ROOT)), NAMES.sub("a name", sentence)


def strange(text: str, spared: Collection[str] = ()) -> list[str]:
    """The words of this text that are on the list, each with what to write in its place."""
    if any(other in text for other in OF_OTHERS):
        text = re.sub("dapo", "", text)
    return [
        f"{found[0]!r}: write {better!r}"
        for pattern, better in WORDS.items()
        if pattern not in spared and (found := re.search(pattern, text, re.IGNORECASE))
    ]


@pytest.mark.parametrize("texts", [options, pages, said, shown])
def test_what_people_read_most_has_no_word_that_readers_stumbled_over(texts) -> None:
    found = list(texts())
    assert len(found) > 20
    wrong = [
        f"{where}: {words} in {text[:200]!r}" for where, text in found if (words := strange(text))
    ]
    assert wrong == [], "\n".join(wrong)


def test_no_page_has_a_word_that_readers_stumbled_over() -> None:
    found = list(read())
    assert len(found) > 1000
    wrong = [
        f"{where}: {words} in {text[:200]!r}"
        for where, text in found
        if (words := strange(text, IN_PAGES))
    ]
    assert wrong == [], "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the file is broken: mend it", ["'mend': write 'fix'"]),
        ("rows.csv is no list", ["'is no l': write 'is not a'"]),
        ("there is no home here", []),
        ("name it by --dataset.file", ["'by --d': write 'with --'"]),
        ("this node is behind a NAT, and goes on", ["'goes on': write 'continue'"]),
        ("take the card of this swarm", ["'card': write 'GPU, manifest'"]),
        ("a model card, and 5 discards", []),
    ],
)
def test_the_list_finds_what_it_should(text: str, words: list[str]) -> None:
    assert strange(text) == words


def sentences(page: str) -> Iterator[str]:
    """The sentences of a page outside of blocks of code, and the cells of its tables."""
    text = BLOCK.sub("", page)
    text = re.sub(r"^ {4}.*$", "", text, flags=re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n|^[|#-]", text, flags=re.MULTILINE):
        yield from re.split(r"(?<=[.!?:])\s+(?=[A-Z])", " ".join(paragraph.split()))


def unsourced(page: str) -> list[str]:
    """The sentences of a page that name a commit and are no line of sources."""
    return [
        sentence
        for sentence in sentences(page)
        if HASH.search(sentence) and not sentence.startswith("Source:")
    ]


def test_a_commit_is_named_in_a_line_of_sources_and_in_no_other_sentence() -> None:
    files = [*DOCS.rglob("*.md"), ROOT / "ARCHITECTURE.md", ROOT / "SECURITY.md"]
    told = [
        f"{file.relative_to(ROOT)}: {sentence[:200]}"
        for file in files
        if DOCS / "results" not in file.parents
        for sentence in unsourced(file.read_text(encoding="utf-8"))
    ]
    assert told == [], "\n".join(told)


def test_a_hash_within_a_sentence_is_found_and_one_in_a_source_or_a_block_of_code_is_not() -> None:
    page = "We ran it at commit bb564e9.\n\nSource: commit bb564e9.\n\n    git show bb564e9\n"
    assert unsourced(page) == ["We ran it at commit bb564e9."]
