"""The documentation as a site: `make docs`. Every page of the repository, in the order of purpose, into `.site/html`.

Pages link to each other by their paths in the repository, so they are put together in `.site/pages` as they lie there,
and Zensical makes a site of that folder. It stops at a link that leads nowhere. What it makes asks nothing of any other
machine: no font, no script. `python -m http.server -d .site/html` shows it; without a server all but the search works.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / ".site"
HOME = ("README.md", "docs/README.md")
SECTIONS = {  # heading -> pages, or a folder of them, whose README comes first
    "Tutorials": [f"docs/tutorials/{name}.md" for name in ("first_run", "two_machines", "own_model", "own_task")],
    "How-to": ["docs/how-to", "docker/README.md", "examples/plugin/README.md"],
    "Reference": ["docs/reference", "docs/platforms.md", "protocol/README.md"],
    "Explanation": ["docs/explanation", "ARCHITECTURE.md", "SECURITY.md"],
    "Results": ["docs/results"],
    "Project": ["CONTRIBUTING.md", "CHANGELOG.md"],
}
FOLDERS = ("docs", "docker", "protocol", "examples", "configs")
SHOWN = {".md", ".png", ".svg", ".csv", ".json", ".toml", ".yaml", ".py", ".sh"}
CONFIG = """[project]
site_name = "swarm-node"
docs_dir = "pages"
site_dir = "html"
use_directory_urls = false  # so that it can be read from the folder, without a server
nav = {nav}

[project.theme]
font = false  # else from Google
features = ["navigation.indexes", "navigation.top", "content.code.copy", "search.highlight"]

[project.markdown_extensions.tables]
[project.markdown_extensions.toc]
permalink = true
[project.markdown_extensions.pymdownx.superfences]
[project.markdown_extensions.pymdownx.highlight]
"""
ASKS = re.compile(r'<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)="(?:https?:)?//[^"]+"')


def pages(where: str) -> list[str]:
    """The page, or those of the folder, its README first."""
    if where.endswith(".md"):
        return [where]
    found = [str(page.relative_to(ROOT)) for page in sorted((ROOT / where).glob("*.md"))]
    return sorted(found, key=lambda page: not page.endswith("README.md"))


def gather(to: Path) -> None:
    """Every page, and what pages show and link to, where it lies in the repository."""
    found = [*ROOT.glob("*.md"), ROOT / "LICENSE"]
    found += [file for folder in FOLDERS for file in (ROOT / folder).rglob("*") if file.suffix in SHOWN]
    for file in found:
        copy = to / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)


def navigation() -> str:
    """As TOML: the headings with their pages."""
    sections = (
        f"  {{{heading!r} = {[page for where in places for page in pages(where)]}}},\n"
        for heading, places in SECTIONS.items()
    )
    return f"[\n  {{'swarm-node' = {HOME[0]!r}}},\n  {{'Pages by purpose' = {HOME[1]!r}}},\n{''.join(sections)}]"


def asking(html: Path) -> Iterator[str]:
    """What the pages would fetch from other machines."""
    for page in sorted(html.rglob("*.html")):
        yield from (f"{page.relative_to(html)}: {found}" for found in ASKS.findall(page.read_text(encoding="utf-8")))


def main() -> int:
    """0 where the site is whole and asks nothing of others."""
    shutil.rmtree(SITE, ignore_errors=True)
    gather(SITE / "pages")
    (SITE / "zensical.toml").write_text(CONFIG.format(nav=navigation()), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(SITE / "zensical.toml")]
    if (code := subprocess.run(command, cwd=SITE, check=False).returncode) != 0:
        return code
    if found := list(asking(SITE / "html")):
        sys.stderr.write("the site asks something of other machines:\n" + "\n".join(found) + "\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
