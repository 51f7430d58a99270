"""`make docs`: a site of every page, whose links lead somewhere, and which asks nothing of other
machines.
"""

from pathlib import Path
from types import ModuleType

import pytest

from tests.commands import python
from tests.house.test_pages import anchors
from tests.pages import script

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    return script(ROOT / "docs" / "make_site.py")


def test_every_page_has_one_place_in_the_navigation_or_is_a_lab_note(maker: ModuleType) -> None:
    listed = [*maker.HOME, *(page for found in maker.placed().values() for page in found)]
    assert len(listed) == len(set(listed))
    notes = set(maker.pages(maker.LAB_NOTES)) - set(listed)
    assert len(notes) > 10
    docs = {str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")}
    assert docs | {page.name for page in ROOT.glob("*.md")} <= {*listed, *notes}
    assert [page for page in listed if not (ROOT / page).is_file()] == []


def test_the_first_page_of_the_results_leads_to_every_lab_note(maker: ModuleType) -> None:
    results = ROOT / maker.LAB_NOTES
    text = (results / "README.md").read_text(encoding="utf-8")
    names = [page.name for page in results.glob("*.md") if page.name != "README.md"]
    assert [name for name in names if f"({name}" not in text] == []


def test_a_script_from_elsewhere_is_found(maker: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="https://example.org">x</a><script async src="https://example.org/x.js">'
    )
    assert list(maker.asking(tmp_path)) == ['a.html: <script async src="https://example.org/x.js"']


def test_a_link_to_a_page_that_moved_leads_to_where_it_is_now(
    maker: ModuleType, tmp_path: Path
) -> None:
    assert maker.MOVED
    for old, new in maker.MOVED.items():
        page, _, heading = new.replace(".html", ".md").partition("#")
        assert not (ROOT / old.replace(".html", ".md")).exists()
        assert not heading or heading in anchors(ROOT / page)
        (tmp_path / old).parent.mkdir(parents=True, exist_ok=True)
        with (tmp_path / new.partition("#")[0]).open("a", encoding="utf-8") as target:
            target.write(f'<h2 id="{heading}">' if heading else "")
    maker.redirect(tmp_path)
    assert maker.followed(tmp_path) == ([], set())
    # A reader need not click
    for old, new in maker.MOVED.items():
        text = (tmp_path / old).read_text(encoding="utf-8")
        assert f'content="0; url={Path(new).name}"' in text


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
