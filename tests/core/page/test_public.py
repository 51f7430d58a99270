"""The public view names no task that its user did not make public."""

import json
import re
from pathlib import Path
from time import monotonic
from typing import Any

from swarm_node.environments.registry import kinds
from swarm_node.page.page import Page
from swarm_node.page.public import OTHERS, PublicView
from swarm_node.page.sight import Sight
from swarm_node.page.start import shipped_tasks
from tests.runs import home_with, line, sampled

PRIVATE = (
    "acme_merger/q3",
    "dataset/train",
    "taskset/held_out",
    "temporal_clue/published",
    "gcd/secret",
    "<b>/x",
    "",
)
# Environments whose tasks are the user's own
BROUGHT = {"dataset", "taskset", "temporal_clue_file"}


def view(home: Path, named: frozenset[str], **network: Any) -> dict[str, Any]:
    page = Page(home, lambda _: {}, monotonic)
    page.asking.answer, page.asking.number = {"network": {"running": True, **network}}, 1
    page.samples.read()
    public = PublicView(page, monotonic, Sight(named))
    public.look()
    return public.view()


def test_the_swarm_is_shown_in_numbers_without_an_address_or_the_name_of_a_node(
    tmp_path: Path,
) -> None:
    there = {"peer": "12D3KooWPeer", "addresses": ["/ip4/192.0.2.1/tcp/1"]}
    there |= {"last_seen": 5.0, "announced": None, "note": ""}
    older = {**there, "note": "speaks protocol version 7, not 1", "announced": 9.0}
    gone = {**there, "last_seen": 1000.0}
    numbers = {"connected": 4, "relayed": 1, "protocol": 1, "swarm": "ours", "uptime": 9.0}
    found = view(
        tmp_path, frozenset(), peers=[there, older, gone], addresses=there["addresses"], **numbers
    )
    assert (found["nodes"], found["direct"], found["relayed"], found["history"]["nodes"]) == (
        2,
        0.75,
        0.25,
        [2],
    )
    assert found["versions"] == {"1": 1, "7": 1} and (found["swarm"], found["uptime"]) == (
        "ours",
        9.0,
    )
    assert not re.search(r"12D3|/ip4/|192\.0\.2\.1", json.dumps(found))


def test_only_what_everybody_knows_or_the_user_named_is_shown_by_name(tmp_path: Path) -> None:
    home = home_with(tmp_path, 1)
    (home / "rollouts.jsonl").write_text(
        "".join(line(sampled(task)) for task in (*PRIVATE, "gcd/easy"))
    )
    heard = dict.fromkeys((*PRIVATE, "lcm/easy"), 1)
    count = 2 * len(PRIVATE) + 2
    shown = view(home, shipped_tasks(), sampled_tasks=heard)["tasks"]
    assert shown == {OTHERS: 2 * len(PRIVATE) / count, "gcd/easy": 1 / count, "lcm/easy": 1 / count}
    made_public = view(home, shipped_tasks() | {"acme_merger/q3"}, sampled_tasks=heard)["tasks"]
    assert made_public["acme_merger/q3"] == 2 / count and set(made_public) == {
        *shown,
        "acme_merger/q3",
    }


def test_the_file_of_tasks_names_all_that_ship_and_no_other() -> None:
    offered = [kind.tasks for kind in kinds(()) if kind.name not in BROUGHT]
    names = {
        f"{data}/{config_id}"
        for tasks in offered
        for data, ids in tasks.items()
        for config_id in ids
    }
    assert shipped_tasks() == names, (
        "write them to swarm_node/page/static/tasks.txt, one a line, sorted"
    )


def test_a_public_page_says_so_over_http(tmp_path: Path, serve) -> None:
    home = home_with(tmp_path, 1)
    (home / "rollouts.jsonl").write_text(
        "".join(line(sampled(task)) for task in (*PRIVATE, "own/task"))
    )
    text = (
        serve(home, "--public", "--public-tasks", "own/task").get("/api/public", token=False).text
    )
    assert (
        "own/task" in text
        and OTHERS in text
        and not [task for task in PRIVATE if task and task in text]
    )
