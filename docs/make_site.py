"""The documentation as a site: `make docs`. Every page of the repository, in the order of purpose,
into `.site/html`.

Pages link to each other by their paths in the repository, so they are put together in `.site/pages`
as they lie there, and Zensical makes a site of that folder. What it makes asks nothing of any other
machine: no font, no script. No link leads nowhere; those to other sites are listed in
`.site/external.txt`, and nobody follows them. A page of results says what changed since its commit.
`python -m http.server -d .site/html` shows it; without a server, all but the search.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / ".site"
HOME = ("README.md", "docs/README.md")


def how_to(*names: str) -> list[str]:
    """The guides of these names."""
    return [f"docs/how-to/{name}.md" for name in names]


# Heading -> pages, or a folder of them, whose README comes first, without those named elsewhere
SECTIONS = {
    "Start": [
        *(
            f"docs/tutorials/{name}.md"
            for name in ("first_run", "two_machines", "own_model", "own_task")
        ),
        "docs/how-to/your_card.md",
        "docs/faq.md",
        "docs/troubleshooting.md",
    ],
    "Guides": [
        # As docs/README.md has them: what everybody needs comes first
        *how_to("does_it_learn", "live_view", "page", "use_the_model", "day_two"),
        *how_to("questions", "tasksets", "contribute", "offline"),
        "docker/README.md",
        *how_to("servers", "bootstrap_node", "several_machines"),
        *how_to("swarm_manifest", "found_a_swarm", "hostile_peers"),
        *how_to("experiments", "faster", "python", "trl", "sampler", "plugins", "configurations"),
        "docs/how-to",
        "examples/plugin/README.md",
    ],
    "Understand": [
        *(
            f"docs/explanation/{name}.md"
            for name in ("how_it_works", "sharing", "what_leaves", "rewards", "starters", "scale")
        ),
        "SECURITY.md",
        "ARCHITECTURE.md",
    ],
    "Results": [
        "docs/results/README.md",
        *(
            f"docs/results/{name}.md"
            for name in ("sharing", "poisoning", "network", "speed", "memory", "real_models")
        ),
    ],
    "Reference": ["docs/reference", "docs/platforms.md", "protocol/README.md"],
    "Develop": ["CONTRIBUTING.md", "CHANGELOG.md", "docs/explanation", "docs/reference/card.md"],
}
# Pages of the site outside of the navigation, which the first page of the results leads to
LAB_NOTES = "docs/results"
# Pages that others took in, and where what they said is now: links from elsewhere go on working
MOVED = {
    "docs/how-to/asynchronous.html": "docs/how-to/faster.html#generate-and-train-at-the-same-time",
    "docs/how-to/hub.html": "docs/how-to/use_the_model.html#export-it-as-a-folder",
    "docs/how-to/vllm.html": "docs/how-to/faster.html#generate-with-vllm",
    "docs/how-to/cards.html": "docs/how-to/your_card.html#in-a-container",
    "docs/how-to/memory.html": "docs/how-to/your_card.html",
    "docs/how-to/private_swarm.html": "docs/how-to/swarm_manifest.html#keep-strangers-out",
}
REDIRECT = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>This page has moved</title>
<meta http-equiv="refresh" content="0; url={to}">
</head>
<body><p>This page has moved: <a href="{to}">{to}</a></p></body>
</html>
"""
FOLDERS = ("docs", "docker", "protocol", "examples", "configs")
SHOWN = {".md", ".png", ".gif", ".svg", ".csv", ".json", ".toml", ".yaml", ".py", ".sh", ".log"}
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
LINK = re.compile(r"\]\(([^)#\s]+)")
ASKS = re.compile(r'<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)="(?:https?:)?//[^"]+"')


def pages(where: str) -> list[str]:
    """The page, or those of the folder, its README first."""
    if where.endswith(".md"):
        return [where]
    found = [str(page.relative_to(ROOT)) for page in sorted((ROOT / where).glob("*.md"))]
    return sorted(found, key=lambda page: not page.endswith("README.md"))


def gather(to: Path) -> None:
    """Every page, and what pages show and link to, where it lies in the repository."""
    found = {*ROOT.glob("*.md"), ROOT / "LICENSE"}
    found |= {
        file for folder in FOLDERS for file in (ROOT / folder).rglob("*") if file.suffix in SHOWN
    }
    for page in [file for file in found if file.suffix == ".md"]:
        linked = LINK.findall(page.read_text(encoding="utf-8"))
        found |= {file for link in linked if (file := (page.parent / link).resolve()).is_file()}
    for file in found:
        copy = to / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)


def mark(results: Path) -> None:
    """Writes below the title of each page of results what changed since its commit. Without git or
    grimp, nothing.
    """
    command = [sys.executable, str(ROOT / "release" / "results.py")]
    told = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False).stdout
    for name, _, said in (
        line.partition(": ") for line in told.splitlines() if "MISSING" not in line
    ):
        title, _, rest = (results / name).read_text(encoding="utf-8").partition("\n")
        (results / name).write_text(
            f"{title}\n\n> The code of its commands: {said}.\n{rest}", encoding="utf-8"
        )


def redirect(html: Path) -> None:
    """Writes a page in the place of each that has moved, which leads on to where it is now."""
    for old, new in MOVED.items():
        to = os.path.relpath(html / new, (html / old).parent)
        (html / old).write_text(REDIRECT.format(to=to), encoding="utf-8")


def placed() -> dict[str, list[str]]:
    """The pages of each heading. A page that is named by itself is left out of its folder."""
    named = {where for places in SECTIONS.values() for where in places if where.endswith(".md")}
    return {
        heading: [
            page for where in places for page in pages(where) if page == where or page not in named
        ]
        for heading, places in SECTIONS.items()
    }


def navigation() -> str:
    """As TOML: the headings with their pages."""
    sections = (f"  {{{heading!r} = {found}}},\n" for heading, found in placed().items())
    return (
        f"[\n  {{'swarm-node' = {HOME[0]!r}}},\n  {{'Pages by purpose' = "
        f"{HOME[1]!r}}},\n{''.join(sections)}]"
    )


def asking(html: Path) -> Iterator[str]:
    """What the pages would fetch from other machines."""
    for page in sorted(html.rglob("*.html")):
        yield from (
            f"{page.relative_to(html)}: {found}"
            for found in ASKS.findall(page.read_text(encoding="utf-8"))
        )


class Page(HTMLParser):
    """Where the links of a page lead, and the names that links to it may end in."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = {"", "__skip"}  # the theme's link to the first heading
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [
            value for key, value in attrs if key in ("href", "src") and value and tag != "link"
        ]
        self.names |= {value for key, value in attrs if key in ("id", "name") and value}


def followed(html: Path) -> tuple[list[str], set[str]]:
    """The links that lead nowhere, as `page: link`, and those to other sites."""
    pages = {file: Page(file.read_text(encoding="utf-8")) for file in sorted(html.rglob("*.html"))}
    dead, external = [], set()
    for file, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                external.add(link)
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            names = pages[target].names if target in pages else {unquote(parts.fragment)}
            if not target.is_file() or unquote(parts.fragment) not in names:
                dead.append(f"{file.relative_to(html)}: {link}")
    return dead, external


def main() -> int:
    """0 where the site is whole and asks nothing of others."""
    shutil.rmtree(SITE, ignore_errors=True)
    gather(SITE / "pages")
    mark(SITE / "pages" / "docs" / "results")
    (SITE / "zensical.toml").write_text(CONFIG.format(nav=navigation()), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "zensical",
        "build",
        "--strict",
        "--config-file",
        str(SITE / "zensical.toml"),
    ]
    if (code := subprocess.run(command, cwd=SITE, check=False).returncode) != 0:
        return code
    (SITE / "html" / "404.html").unlink()  # its links are right only at the root of a server
    redirect(SITE / "html")
    if found := list(asking(SITE / "html")):
        sys.stderr.write("the site asks something of other machines:\n" + "\n".join(found) + "\n")
        return 1
    dead, external = followed(SITE / "html")
    (SITE / "external.txt").write_text(
        "".join(f"{link}\n" for link in sorted(external)), encoding="utf-8"
    )
    sys.stdout.write("".join(f"dead: {link}\n" for link in dead))
    count = sum(1 for _ in (SITE / "html").rglob("*.html"))
    sys.stdout.write(
        f"{count} pages, {len(dead)} dead links, {len(external)} to other sites in "
        ".site/external.txt\n"
    )
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
