"""`make docs`: a site of every page, whose links lead somewhere, and which asks nothing of other
machines.
"""

from pathlib import Path
from types import ModuleType

import pytest

from tests.commands import python
from tests.pages import script

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    return script(ROOT / "docs" / "make_site.py")


def test_every_page_has_its_place(maker: ModuleType) -> None:
    listed = [
        *maker.HOME,
        *(
            page
            for places in maker.SECTIONS.values()
            for where in places
            for page in maker.pages(where)
        ),
    ]
    assert len(listed) == len(set(listed))
    docs = {str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")}
    assert docs | {page.name for page in ROOT.glob("*.md")} <= set(listed)
    assert [page for page in listed if not (ROOT / page).is_file()] == []


def test_a_script_from_elsewhere_is_found(maker: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="https://example.org">x</a><script async src="https://example.org/x.js">'
    )
    assert list(maker.asking(tmp_path)) == ['a.html: <script async src="https://example.org/x.js"']


@pytest.mark.slow
def test_the_site_is_built(maker: ModuleType) -> None:
    pytest.importorskip("zensical", reason="the extra docs is not installed")
    done = python(maker.__file__)
    assert done.returncode == 0, done.stdout + done.stderr
    html = maker.SITE / "html"
    names = [
        page.replace("README.md", "index.md").replace(".md", ".html")
        for page in maker.pages("docs/tutorials")
    ]
    assert names and all(
        (html / name).is_file() for name in [*names, "index.html", "docs/index.html"]
    )
