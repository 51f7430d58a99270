"""The pages agree with the tree: what they link to and what they name is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("protocol", "swarm_node", "lab", "tests", "docs", "examples")
FOLDERS = ("docs", "docker", "protocol", "examples")
PAGES = sorted(
    [*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))]
)
EXAMPLES = ("my_", "FILE")  # names of files that a reader would write


def text_of(page: Path) -> str:
    """The page without blocks of code: the brackets and names in them are not checked."""
    return re.sub(
        r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )


def links(page: Path) -> list[str]:
    targets = re.findall(r"\]\(([^)\s]+)\)", text_of(page))
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def named(page: Path) -> list[str]:
    """Words in backticks that look like a path from the top, such as `docs/results/speed.md`."""
    rooms = "|".join(ROOMS)
    return re.findall(rf"`((?:{rooms})/[\w./-]*)`", text_of(page))


def modules(page: Path) -> list[str]:
    """Python files in backticks, with the end of their path or without."""
    return [
        name
        for name in re.findall(r"`([\w/]+\.py)[`:]", text_of(page))
        if not name.startswith(EXAMPLES)
    ]


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings
    }


def test_every_link_leads_to_a_file_and_to_a_heading_in_it() -> None:
    found = [(page, link) for page in PAGES for link in links(page)]
    assert len(found) > 100
    broken = []
    for page, link in found:
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert broken == []


def test_a_heading_stands_at_the_beginning_of_a_line() -> None:
    """A program that folds paragraphs may put one into a sentence."""
    inside = re.compile(r"\S +#{2,4} [A-Z].*")
    assert [
        f"{page.relative_to(ROOT)}: {found[0][:80]}"
        for page in PAGES
        if (found := inside.search(re.sub(r"`[^`]*`", "", text_of(page))))
    ] == []


def test_every_path_that_a_page_names_exists() -> None:
    found = [(page, name) for page in PAGES for name in named(page)]
    assert len(found) > 50
    assert [
        f"{page.relative_to(ROOT)}: {name}" for page, name in found if not (ROOT / name).exists()
    ] == []


def test_every_module_that_a_page_names_exists() -> None:
    files = [f"/{file.relative_to(ROOT)}" for room in ROOMS for file in (ROOT / room).rglob("*.py")]
    found = [(page, name) for page in PAGES for name in modules(page)]
    assert len(found) > 50
    missing = [
        (page, name) for page, name in found if not any(file.endswith(f"/{name}") for file in files)
    ]
    assert [f"{page.relative_to(ROOT)}: {name}" for page, name in missing] == []
