"""Debian's Chromium, driven by Playwright. A visit keeps what a page complains of, and requests to
other machines.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.core.page.conftest import Served, serve  # noqa: F401  a fixture
from tests.waiting import PATIENCE

CHROMIUM = shutil.which("chromium")
ROOT = Path(__file__).parents[3]
AXE = (
    Path(os.environ.get("AXE", ROOT / ".venvs" / "axe" / "node_modules" / "axe-core"))
    / "axe.min.js"
)
SIZES = {"desktop": (1280, 800), "phone": (390, 800)}


@dataclass
class Visit:
    """A page in a browser, and its trouble: errors, warnings, dialogs and requests to other
    machines.
    """

    tab: Any
    trouble: list[str] = field(default_factory=list)

    def open(self, address: str, entered: bool = True) -> None:
        self.tab.on(
            "console",
            lambda said: said.type in ("error", "warning") and self.trouble.append(said.text),
        )
        self.tab.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.tab.on(
            "dialog", lambda dialog: (self.trouble.append(dialog.message), dialog.dismiss())
        )
        self.tab.on("request", self._check)
        self.tab.goto(address)
        if entered:
            # Behind the entrance, which posts the token and goes on to the page
            self.tab.locator("#theme").wait_for()

    def section(self, name: str) -> None:
        self.tab.get_by_role("link", name=name, exact=True).click()

    def overflow(self) -> int:
        """Pixels by which the page is wider than the window."""
        return int(
            self.tab.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
        )

    def violations(self) -> list[str]:
        """The violations that axe finds. The debugger evaluates axe, as the page's policy refuses
        scripts.
        """
        self.tab.evaluate(AXE.read_text())
        found = self.tab.evaluate("axe.run(document)")["violations"]
        return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found]

    def _check(self, request: Any) -> None:
        if not request.url.startswith("http://127.0.0.1:"):
            self.trouble.append(f"asked for {request.url}")


# A longer scope would keep its event loop beside those of other tests
@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt install chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Any) -> Iterator[Callable[..., Visit]]:
    """Opens an address. The test fails at its end if a page that it opened made trouble."""
    visits: list[Visit] = []

    def begin(
        address: str, size: str = "desktop", scheme: str = "light", entered: bool = True
    ) -> Visit:
        width, height = SIZES[size]
        context = chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme
        )
        context.set_default_timeout(1000 * PATIENCE)
        visits.append(Visit(context.new_page()))
        visits[-1].open(address, entered)
        return visits[-1]

    yield begin
    for each in visits:
        each.tab.context.close()
    assert [trouble for each in visits for trouble in each.trouble] == []


@pytest.fixture
def axe() -> None:
    if not AXE.is_file():
        pytest.skip("needs axe-core: npm install --prefix .venvs/axe axe-core")
