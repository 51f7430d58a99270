"""What README and other pages promise is what the code does, and what the results hold.

An outside reading checked 41 claims of the pages and found 15 untrue: constants and tables were
compared with the code by tests, and prose was not. Each claim here that code or a result can answer
is compared with it.
"""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from lab.benchmarks.front_door import EXAMPLES, commands
from lab.benchmarks.pages import TUTORIALS
from protocol.versions import CURRENT
from swarm_node.commands.run import RUN
from swarm_node.node.defaults import NEEDED, of_pretrained
from swarm_node.policy.named import OF_HUB
from swarm_node.settings import NodeConfig
from swarm_node.settings.flags import find_flag, flags_of
from swarm_node.settings.help_page import help_page
from swarm_node.settings.options import flatten, options
from tests.pages import REFERENCE, script

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RESULTS = DOCS / "results"
README = (ROOT / "README.md").read_text(encoding="utf-8")
FRONT_DOOR = json.loads((RESULTS / "front_door.json").read_text(encoding="utf-8"))


def page(path: str) -> str:
    """The text of a page, its lines joined, so that a sentence can be found in it."""
    return " ".join((ROOT / path).read_text(encoding="utf-8").split())


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


# README: its examples


@pytest.mark.parametrize("example", sorted(EXAMPLES))
def test_readme_has_the_command_and_the_answers_of_the_run_that_is_recorded(example: str) -> None:
    run, *asks = commands(EXAMPLES[example])
    found = FRONT_DOOR[example]
    assert found["command"] == run
    assert [*found["answers"]] == asks
    printed = "\n".join(line for lines in found["answers"].values() for line in lines)
    assert f"```text\n{printed}\n```" in README


def practised(found: dict[str, Any]) -> list[str]:
    """The tasks that had been asked before the last rounds: the others had just joined."""
    earlier = [by_task for rounds, by_task in found["validations"].items()][:-1]
    return sorted({task for by_task in earlier for task in by_task})


@pytest.mark.parametrize("example", sorted(EXAMPLES))
def test_readme_says_what_share_of_new_questions_was_right_before_and_after(example: str) -> None:
    found = FRONT_DOOR[example]
    tasks = practised(found)
    before = sum(found["before"][task] for task in tasks) / len(tasks)
    after = sum(found["after"][task] for task in tasks) / len(tasks)
    assert f"from {percent(before)} to {percent(after)}" in page("README.md")


def test_the_page_of_the_front_door_and_the_first_tutorial_have_the_tasks_of_the_recorded_run() -> (
    None
):
    found = FRONT_DOOR["quick_start"]
    for path in ("docs/results/front_door.md", "docs/tutorials/first_run.md"):
        text = (ROOT / path).read_text(encoding="utf-8")
        for task, before in found["before"].items():
            figures = rf"\| {before:.2f} \|.* {found['after'][task]:.2f} \|"
            assert re.search(rf"^\| `{task}`.* {figures}$", text, re.MULTILINE), (path, task)
        assert found["commit"] in text or "front_door.md" in text


def test_the_memory_that_readme_asks_for_is_what_was_measured_and_what_the_program_wants() -> None:
    measured = re.search(r"all processes peak at ([\d.]+) GB", page("docs/results/memory.md"))
    told = re.search(r"([\d.]+) GB of free memory", page("README.md"))
    assert measured and told
    assert float(measured[1]) * 1e9 <= NEEDED <= float(told[1]) * 1e9


def test_the_seconds_that_readme_names_stand_in_the_times_of_the_tutorials() -> None:
    told = re.search(r"\[(\d+) seconds\]\(docs/results/tutorials\.md\)", README)
    assert told and f"| {told[1]} |" in (RESULTS / "tutorials.md").read_text()


# README: what sharing is worth, and attacks


def test_readme_has_the_accuracies_of_sharing_beside_those_alone() -> None:
    name = "equal_price_smollm2-135m.json"
    content = json.loads((RESULTS / "sharing" / name).read_text())["comparisons"]
    sharing = re.compile(r"2/2 : .*, all tasks")
    for axis in ("generated_tokens", "rounds", "trained_tokens"):
        lone = [found for found in content[axis] if sharing.fullmatch(found["name"])]
        hardest = min(lone, key=lambda found: found["ratio"])
        ours, theirs = percent(hardest["mean"]), percent(hardest["base"])
        row = rf"\| {axis.replace('_', ' ')} \| {ours} \| {theirs} \|"
        assert re.search(row, README.replace("**", "")), (axis, ours, theirs)


def test_readme_has_the_accuracies_of_own_tasks_and_of_others() -> None:
    content = json.loads((RESULTS / "sharing" / "never_hurts_smollm2-135m.json").read_text())
    rows = {"final_local": "its own task", "final_other": "the three tasks that it never practised"}
    for figure, words in rows.items():
        (found,) = content["longer"][figure]
        row = f"| {words} | {percent(found['mean'])} | {percent(found['base'])} |"
        assert row in README.replace("**", "")
        assert percent(found["mean"]) in README.partition("## Quick start")[0]
        assert percent(found["base"]) in README.partition("## Quick start")[0]


def test_readme_has_the_figures_of_attacks_that_the_results_have() -> None:
    poison = (RESULTS / "poisoning.md").read_text()
    without = re.search(r"^\| 50 % \| none \| ([\d.]+)", poison, re.MULTILINE)
    today = re.search(
        r"\| stealth, 50 % hostile \| ([\d.]+)(?:.*\n)+?\| sybil, 50 % hostile \| ([\d.]+)", poison
    )
    hostile = re.search(r"scored 192 answers.*: ([\d,]+) items", page("docs/results/scoring.md"))
    storm = re.search(r"all honest nodes \|.*\| \*\*([\d.]+)\*\*", page("docs/results/storm.md"))
    assert without and today and hostile and storm
    told = page("README.md")
    assert f"{percent(float(without[1]))} of the victims' answers" in told
    assert f"{percent(float(today[1]))} with it" in told
    assert f"a harder variant reached {percent(float(today[2]))}" in told
    assert f"Of {hostile[1]} hostile answers" in told
    assert f"{percent(1 - float(storm[1]))} fewer rounds" in told


def test_readme_has_the_models_for_each_card_that_the_page_of_cards_has() -> None:
    section = README.partition("## Your graphics card")[2].partition("\n## ")[0]
    plans = re.compile(r"`configs/(\w+_(\d+)gb\.toml)`: ([\w.-]+)")
    lines = [line for line in section.splitlines() if " GB |" in line]
    told = [plan for line in lines for plan in plans.findall(line)]
    page_of_cards = (DOCS / "how-to" / "your_card.md").read_text()
    of_page = re.compile(r"\| `(\w+_(\d+)gb\.toml)` \| (?:adapters of )?([\w.-]+)")
    assert told and sorted(told) == sorted(of_page.findall(page_of_cards))
    for line in lines:
        assert {size for _, size, _ in plans.findall(line)} == {line.split()[1]}


def test_readme_does_not_promise_what_is_not_there() -> None:
    """A public swarm, a release, an image in a registry, a graphics card on which it ran."""
    told = page("README.md")
    assert "There is no public swarm yet" in told
    assert "There is no release yet" in told
    assert "nobody has run a whole node on a graphics card" in told
    assert "a whole node was not run there" in page("docs/platforms.md")
    assert not NodeConfig().network.peers


def test_every_page_that_runs_the_image_says_first_how_it_is_built() -> None:
    pages = [ROOT / "README.md", *DOCS.rglob("*.md"), *(ROOT / "docker").glob("*.md")]
    run = re.compile(r"^docker run .*\bswarm-node(:gpu)?( |$)", re.MULTILINE)
    found = [(path, where) for path in pages if (where := run.search(path.read_text()))]
    assert len(found) > 2
    for path, where in found:
        assert "docker build -t swarm-node" in path.read_text()[: where.start()], path


# Defaults


def plain_run() -> dict[str, Any]:
    """The options of a `run` that is given nothing."""
    make = script(REFERENCE / "make.py")
    return dict(flatten(make.plain_run().model_dump()))


def test_the_page_of_options_has_what_a_plain_run_takes() -> None:
    defaults = flatten(NodeConfig().model_dump())
    changed = {key for key, value in plain_run().items() if value != defaults[key]}
    assert {"model.name", "training.beta", "validation.every", "environment.tasks"} <= changed
    for key in changed:
        flag = f"--{key.replace('_', '-')}"
        (row,) = [
            line
            for line in (REFERENCE / "options.md").read_text().splitlines()
            if f"| `{flag}` |" in line and re.search(r"\brun\b[^|]*\|$", line)
        ]
        assert "plain `run`: " in row, flag


def test_the_help_of_run_says_that_a_plain_run_takes_other_values() -> None:
    text = " ".join(help_page(NodeConfig, "swarm-node run").split())
    assert f"trains {OF_HUB}, and sets other values to suit it" in text


def test_the_learning_rates_in_the_help_of_run_are_those_that_it_takes() -> None:
    (line,) = [line for line in RUN.page.splitlines() if "--training.learning-rate" in line]
    starter = NodeConfig().training.learning_rate
    adapters = of_pretrained(lora=True, continued=True)["training"]["learning_rate"]
    for rate in (starter, adapters):
        assert f"{rate:.0e}".replace("e-0", "e-") in line


def test_no_configuration_says_that_it_is_what_a_plain_run_does_and_trains_another_model() -> None:
    for path in (ROOT / "configs").glob("*.toml"):
        text = path.read_text()
        if re.search(r"what `swarm-node run` does", text):
            assert tomllib.loads(text)["model"]["name"] == OF_HUB, path


def test_the_flags_that_the_page_in_a_browser_names_exist() -> None:
    known = flags_of(NodeConfig)
    scripts = [*(ROOT / "swarm_node").rglob("static/*.js")]
    named = {
        flag
        for file in scripts
        if not file.name.startswith("uPlot")
        for flag in re.findall(r"(?<![\w-])--[a-z][\w.-]*\w", file.read_text())
        if "." in flag or flag == "--observers"
    }
    assert named
    for flag in named:
        assert find_flag(known, flag, ""), flag


# Other pages


def test_the_pictures_of_the_page_show_the_protocol_of_today() -> None:
    """docs/images/make_recording.py writes into each with which version it was made."""
    pictures = sorted((DOCS / "how-to").glob("page_*.png"))
    assert len(pictures) >= 4
    for path in pictures:
        with Image.open(path) as picture:
            assert picture.text.get("protocol") == str(CURRENT.number), path.name  # type: ignore[attr-defined]


def test_the_picture_of_readme_is_small_and_moves() -> None:
    (path,) = re.findall(r"!\[[^\]]+\]\(([\w/.]+)\)", README.partition("## ")[0])
    with Image.open(ROOT / path) as picture:
        assert getattr(picture, "n_frames", 1) > 5
    assert (ROOT / path).stat().st_size < 1e6


def rounds_a_second() -> Iterator[str]:
    text = page("docs/results/scoring.md")
    ahead = re.search(r"([\d.]+) rounds a second when quiet and ([\d.]+) under attack", text)
    selected = re.search(r"would do ([\d.]+) rounds a second when quiet and ([\d.]+) under", text)
    assert ahead and selected
    yield f"{selected[1]} rounds per second to {selected[2]}"
    yield f"from {ahead[1]} to {ahead[2]}"


def test_the_architecture_has_the_figures_of_the_results_and_of_the_tree() -> None:
    essay = page("ARCHITECTURE.md")
    for figures in rounds_a_second():
        assert figures in essay
    scorers = (ROOT / "swarm_node/environments/reasoning_gym/scorers").glob("*.py")
    lines = sum(file.read_text().count("\n") for file in scorers)
    told = re.search(r"The price is about ([\d,]+) lines", essay)
    assert told and abs(int(told[1].replace(",", "")) - lines) < 0.1 * lines, lines
    told = re.search(r"`run` alone has about (\d+)", essay)
    count = len(options(NodeConfig))
    assert told and abs(int(told[1]) - count) < 0.1 * count, count


def test_the_tutorial_of_ones_own_model_has_its_control_with_random_rewards() -> None:
    told = page("docs/tutorials/own_model.md")
    control = re.search(
        r"`second` to ([\d.]+), ([\d.]+), ([\d.]+) .*`swap` to ([\d.]+), ([\d.]+), ([\d.]+)\.",
        page("docs/results/real_models.md"),
    )
    assert control
    for one, two, three in (control.groups()[:3], control.groups()[3:]):
        shares = [f"{100 * float(share):.0f}" for share in (one, two, three)]
        assert f"{shares[0]}, {shares[1]} and {shares[2]} %" in told


def test_the_times_of_the_tutorials_are_of_commands_that_the_tutorials_have() -> None:
    text = (RESULTS / "tutorials.md").read_text()
    rows = re.findall(r"^\| ([a-z ]+?)(?:,[^|]*)? \|.*\| `([\w -]+)`[^|]*\| \d+ \|$", text, re.M)
    assert len(rows) > 1
    for tutorial, command in rows:
        name = "first_run" if tutorial == "installation" else tutorial.replace(" ", "_")
        assert command in (TUTORIALS / f"{name}.md").read_text(), (tutorial, command)


# Who makes HTTP requests, and how the page of work without a network names what is called
CALLED = {
    "contribute/answer.py": "the API of a model",
    "contribute/api.py": "the API of a model",
    "generation/vllm/generator.py": "a server that you name, such as vLLM",
    "hub/card.py": "uploads to it",
    "hub/push.py": "uploads to it",
    "network/trial.py": "a swarm's manifest",
    "policy/memory_plan.py": "the shape of a model",
    "policy/named.py": "the Hub of Hugging Face. It downloads the model from there",
}


def test_the_page_of_work_without_a_network_names_whatever_a_node_calls() -> None:
    """tests/house/test_http_clients.py: no other file makes a client."""
    files = (ROOT / "swarm_node").rglob("*.py")
    imports = re.compile(r"from swarm_node\.common(\.http import| import http)")
    found = {
        str(file.relative_to(ROOT / "swarm_node"))
        for file in files
        if imports.search(file.read_text())
    }
    assert found == CALLED.keys()
    told = page("docs/how-to/offline.md")
    for word in {*CALLED.values(), "Data sets of the Hub", "a tracker"}:
        assert word in told, word
    assert "calls nothing else" not in told


def test_the_text_of_the_home_says_that_downloads_are_kept_elsewhere() -> None:
    text = " ".join((options(NodeConfig)["home"].about.description or "").split())
    assert "cache folder" in text and "state folder" in text
    told = page("docs/reference/home.md")
    assert "`~/.cache/swarm-node`" in told and "homes.json" in told


def test_no_page_says_that_make_test_runs_all_tests() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert "the whole test suite but the long lane" in makefile
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        assert not re.search(r"make test +# all tests", path.read_text()), path
