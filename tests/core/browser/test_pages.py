"""Pages in a real browser: on a desktop and on a phone, by the rules for accessibility, and with
hostile text.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands import killed_in_the_end, page_of, read_until, started
from tests.core.page.conftest import Served, serving
from tests.runs import home_with, line, round_done
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
HOSTILE = (
    "<script>window.pwned = 1</script>",
    "<img src=x onerror='window.pwned = 1'>",
    "</pre></td></table><iframe src='http://evil.example/'></iframe>",
    "<svg onload=window.pwned=1><a href='javascript:window.pwned=1'>click</a>",
    "{{constructor.constructor('window.pwned = 1')()}} ${window.pwned = 1} `${window.pwned = 1}`",
    "\u202eevil\u202c \u2066isolate\u2069 \u200bzero\ufeff width",
    "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x00\x07\r\n\x9b31m",
    "\ud800 lone \udfff surrogates",
    "__proto__ constructor prototype",
    "a\u0301" * 3000 + "Z̴̢̛" * 500,
    "x" * 1_000_000,
    "\n" * 20_000,
    (
        "<style>body{display:none}</style><link rel=stylesheet href=//evil.example/a.css><base "
        "href=//evil.example/>"
    ),
)


def sample(text: str, **fields: Any) -> dict[str, Any]:
    known = {"text": text, "advantage": 1.0, "ended": True}
    turns = [{"own": own, "text": text} for own in (True, False)]
    completions = [{**known, "reward": 0}, {**known, "reward": 1, "turns": turns}]
    about = {
        "time": 1.8e9,
        "round": 1,
        "author": text[:200],
        "local": False,
        "trained": False,
        "why": text[:200],
    }
    return {
        **about,
        "task": text[:200],
        "prompt": text,
        "left_out": 0,
        "completions": completions,
        **fields,
    }


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The page of a node with samples, and with more rounds than there are points in a chart."""
    home = home_with(tmp_path_factory.mktemp("node") / "home", 1500)
    samples = [
        sample(f"completion {index}", task="gcd/easy", author="12D3KooWPeer") for index in range(9)
    ]
    (home / "rollouts.jsonl").write_text("".join(map(line, samples)))
    with serving(home) as page:
        yield page


@pytest.mark.parametrize(
    ("size", "scheme"), [("desktop", "light"), ("desktop", "dark"), ("phone", "dark")]
)
def test_every_section_of_a_node_is_whole_fits_and_is_for_everybody(
    node: Served, visit: Callable[..., Any], axe: None, size: str, scheme: str
) -> None:
    seen = visit(node.addresses[0], size, scheme)
    expected = {"Learning": "moving average of 20 points; each point is the mean of 2 rounds"}
    expected |= {
        "Rollouts": "9 of the last 9 groups",
        "Swarm": "Peers around this node",
        "Health": "What the node said",
    }
    for section, text in expected.items():
        seen.section(section)
        seen.tab.get_by_text(text, exact=section != "Rollouts").first.wait_for()
        assert seen.overflow() <= 0, section
        assert seen.violations() == [], section
    # A fact of the start
    seen.tab.locator("dl", has_text="model").get_by_text("m", exact=True).wait_for()
    assert "token" not in seen.tab.url and seen.tab.title().startswith("not running: ")
    seen.section("Rollouts")
    seen.tab.get_by_label("Find").fill("Completion 3")
    seen.tab.get_by_text("1 of the last 9 groups").wait_for()


def test_the_public_view_needs_no_token(
    tmp_path: Path, serve: Any, visit: Callable[..., Any], axe: None
) -> None:
    page = serve(home_with(tmp_path / "home", 1), "--public")
    for size, scheme in (("desktop", "light"), ("phone", "dark")):
        seen = visit(page.addresses[0], size, scheme)
        seen.tab.get_by_text("≈ Protocol versions", exact=True).wait_for()
        assert seen.overflow() <= 0 and seen.violations() == []


def test_hostile_rollouts_do_nothing(tmp_path: Path, serve: Any, visit: Callable[..., Any]) -> None:
    home = home_with(tmp_path / "home", 2)
    (home / "rollouts.jsonl").write_text("".join(line(sample(text)) for text in HOSTILE))
    with (home / "events.jsonl").open("a") as file:
        for text in HOSTILE:
            file.write(line({"event": "Warned", "time": 1.0, "text": text[:5000]}))
            file.write(
                line(
                    round_done(
                        2,
                        reward_by_task={text[:300]: 0.5},
                        external_by_peer={text[:300]: {"scored": 1}},
                    )
                )
            )
    seen = visit(serve(home).addresses[0], "phone")
    own = "[...document.querySelectorAll('script, img, iframe, link, style, base')].length"
    before = seen.tab.evaluate(own)
    seen.section("Rollouts")
    seen.tab.get_by_text(f"{len(HOSTILE)} of the last {len(HOSTILE)} groups").wait_for()
    seen.tab.evaluate(
        "document.querySelectorAll('details').forEach((each) => { each.open = true; })"
    )
    shown = seen.tab.locator("main").inner_text()
    assert (
        "environment" in shown
        and HOSTILE[0] in shown
        and "‹U+202E›evil" in shown
        and "‹U+001B›" in shown
    )
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x1b\x07]", shown)
    for section in ("Learning", "Swarm", "Health"):
        seen.section(section)
        seen.tab.wait_for_timeout(300)
        assert seen.overflow() <= 0
    assert seen.tab.evaluate("window.pwned") is None and seen.tab.evaluate("({}).polluted") is None
    assert seen.tab.evaluate(own) == before


def test_rounds_come_in_while_one_looks_and_keys_move_along_a_chart(
    tmp_path: Path, serve: Any, visit: Callable[..., Any]
) -> None:
    home = home_with(tmp_path / "home", 30)
    seen = visit(serve(home).addresses[0])
    seen.tab.locator("canvas").first.wait_for()
    with (home / "events.jsonl").open("a") as file:
        file.write(line(round_done(1234)))
    seen.tab.get_by_text("1,234").wait_for()
    chart = seen.tab.locator("figure").first
    chart.locator(".stage").focus()
    seen.tab.keyboard.press("Home")
    chart.get_by_text("round 0").wait_for()
    seen.tab.keyboard.press("ArrowRight")
    chart.get_by_text("round 1", exact=True).wait_for()
    seen.tab.get_by_role("button", name="By hour").click()
    chart.locator(".stage").press("End")
    chart.get_by_text("after 21 min").wait_for()  # 1234 s, as a round takes a second
    seen.tab.get_by_role("button", name="Last 512 rounds").press("Enter")
    assert (
        seen.tab.get_by_role("button", name="Last 512 rounds").get_attribute("aria-pressed")
        == "true"
    )


def test_a_page_that_goes_and_comes_back_goes_on(
    tmp_path: Path, serve: Any, visit: Callable[..., Any]
) -> None:
    home = home_with(tmp_path / "home", 3)
    page = serve(home)
    seen = visit(page.addresses[0])
    seen.tab.get_by_text("not running", exact=True).wait_for()
    page.process.kill()
    seen.tab.get_by_text("the dashboard has stopped").wait_for()
    seen.trouble.clear()  # the browser itself logs that it could not connect
    with killed_in_the_end(started("page", home, "--listen", f"127.0.0.1:{page.port}")):
        seen.tab.get_by_text("not running", exact=True).wait_for()
        seen.tab.close()  # before the second page process ends
        seen.trouble.clear()


@pytest.mark.network
def test_a_live_node_shows_its_rounds_and_its_peer(
    tmp_path: Path, visit: Callable[..., Any]
) -> None:
    small = (
        "--round.questions",
        2,
        "--environment.tasks",
        "gcd/tiny",
        "--threads",
        1,
        "--network.host",
        "127.0.0.1",
    )
    process = started(
        "run", "--home", tmp_path / "home", "--page", "127.0.0.1:0", *small, loaded=True
    )
    try:
        address = page_of(process)
        read_until(process, "round ")
        seen = visit(str(address))
        seen.tab.get_by_text("healthy", exact=True).wait_for()
        seen.tab.get_by_role("button", name="Pause").click()
        seen.tab.locator("#pill:text-is('resting')").wait_for()
        seen.tab.get_by_role("button", name="Resume").click()
        seen.tab.locator("#pill:text-is('healthy')").wait_for()
        seen.section("Swarm")
        for words in ("swarm-node join ", "/ip4/127.0.0.1/"):
            seen.tab.locator("p", has_text=words).get_by_role("button", name="Copy").wait_for()
        seen.section("Rollouts")
        seen.tab.get_by_text("gcd/tiny").locator("visible=true").first.wait_for()
        seen.section("Health")
        seen.tab.get_by_text("Longest phase").wait_for()
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


def test_one_click_opens_the_page_and_the_token_is_in_no_request(
    node: Served, visit: Callable[..., Any]
) -> None:
    seen = visit(node.base + "/#learning", entered=False)
    seen.tab.get_by_label("Token").fill("wrong")
    asked: list[str] = []
    seen.tab.on("request", lambda request: asked.append(request.url))
    seen.tab.get_by_label("Token").fill(node.token)
    seen.tab.keyboard.press("Enter")
    seen.tab.locator("#theme").wait_for()
    seen.tab.get_by_text("not running", exact=True).wait_for()
    clicked = visit(node.addresses[0])
    clicked.tab.on("request", lambda request: asked.append(request.url))
    clicked.tab.get_by_text("not running", exact=True).wait_for()
    clicked.tab.goto(node.addresses[0])  # once more, with the cookie
    clicked.section("Health")
    clicked.tab.get_by_text("What the node said").wait_for()
    assert asked and node.token not in " ".join([*asked, clicked.tab.url, seen.tab.url])
    cookies = {each["name"]: each for each in clicked.tab.context.cookies()}
    assert len(cookies) == 1 and all(
        each["httpOnly"] and each["sameSite"] == "Strict" for each in cookies.values()
    )
