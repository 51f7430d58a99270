"""Every data set of reasoning-gym against every hostile completion, through the scoring process as
a node runs it.

    python -m lab.fuzzing.hostile --json        # docs/results/scoring.md

Each answer is an item of its own. "ours": the data sets of the catalogue, scored as in the swarm;
an answer that is not the key and is rewarded with 0.5 or more is a forgery. "behind": the same,
with the right answer before it. "library": all data sets with the library's own scorers, some of
which execute answers: only the sandbox stops those. In the end no file, connection or process may
be left, the scoring process never replaced, and honest answers scored as before.
"""

import socket
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from lab.benchmarks import command
from lab.fuzzing.hostile_answers import answers
from lab.fuzzing.right_answers import right_answer
from swarm_node.environments.reasoning_gym.catalogue import CATALOGUE, VERSION
from swarm_node.environments.reasoning_gym.environment import PARTIAL, SCORER_MODULE
from swarm_node.environments.reasoning_gym.source import LibraryItem
from swarm_node.environments.rewards import RewardRule
from swarm_node.rollouts.groups import Skipped
from swarm_node.scoring import contract
from swarm_node.scoring.children import SPARES
from swarm_node.scoring.client import Reply, ScoringClient

SOURCE = str(Path(__file__).with_name("hostile_source.py"))
TIME_LIMIT, MEMORY_LIMIT = 1.0, 768  # seconds per item, megabytes
SLACK = 20.0  # seconds above the limit that a busy machine may need to notice
LATE, TIMES = Skipped(contract.TIMEOUT), 5
SEED, INDICES = 20, 64
REWARDED = 0.5
# From a score to a node's reward; the library has only scores
rewarded = RewardRule("graded", PARTIAL).reward
BETWEEN = (" ", "\n")  # what stands between the right answer and a hostile one behind it


@dataclass(slots=True)
class Tally:
    """What became of the answers to one data set in one mode."""

    answers: int = 0
    # Names of wrong answers that were rewarded with half or more
    forged: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)  # by reason
    slowest: float = 0.0  # seconds
    broken: list[str] = field(default_factory=list)  # what happened and must never happen


def modes(name: str, library: bool = True) -> list[str]:
    return ["ours", "behind"] * (name in CATALOGUE) + ["library"] * library


def right(scoring: ScoringClient, name: str, mode: str) -> tuple[int, str]:
    """Index and right answer of the first question that is built in time and has one. LookupError
    if there is none.
    """
    for index in range(INDICES):
        key = scoring.ask([(name, f"{mode}/key", SEED, index, None)])[0]
        if isinstance(key, str) and (mode == "library" or key.strip() not in ("", "None")):
            # From there: some questions follow the order of sets, which differs by process
            return index, key
        if isinstance(key, str):
            item = LibraryItem(name, next(iter(CATALOGUE[name].values())), SEED, index)
            answer = right_answer(name, item.dataset, item.entry)
            if answer is not None:
                return index, answer
    raise LookupError(f"no question: {key}")


def attack(scoring: ScoringClient, name: str, mode: str, texts: dict[str, str]) -> Tally:
    """Has all answers to one question scored, each by itself."""
    tally = Tally()
    try:
        index, key = right(scoring, name, mode)
    except LookupError as error:
        tally.broken.append(str(error))
        return tally
    if mode == "behind":
        texts = {
            f"{label} behind": f"{key}{BETWEEN[n % 2]}{text}"
            for n, (label, text) in enumerate(texts.items())
        }
    question = (name, mode, SEED, index)
    honest = _honest(scoring, question, key)
    for label, text in texts.items():
        began = time.monotonic()
        reply = _ask(scoring, question, text)
        tally.slowest = max(tally.slowest, time.monotonic() - began)
        tally.answers += 1
        if not isinstance(reply, tuple):
            tally.skipped[reply.reason if isinstance(reply, Skipped) else "nonsense"] += 1
        elif (reply[0] if mode == "library" else rewarded(reply[0])) >= REWARDED and not same(
            text, key
        ):
            tally.forged.append(label)
    if _honest(scoring, question, key) != honest:
        tally.broken.append("an honest answer is scored otherwise than before")
    if mode != "library" and honest != (1.0,):
        tally.broken.append(f"the key is scored {honest}")
    if tally.slowest > TIME_LIMIT + SLACK:
        tally.broken.append(f"an item took {tally.slowest:.1f} s")
    return tally


def same(text: str, key: str) -> bool:
    """Whether a guess happens to be right: the same text or the same number."""
    given, right = text.strip().lower(), key.strip().lower()
    try:
        return given == right or float(given) == float(right)
    except ValueError:
        return False


def run(
    names: Sequence[str], only: int | None = None, library: bool = True
) -> dict[str, dict[str, Tally]]:
    """The tallies by data set and mode. `only`: so many answers of each kind. `library`: its own
    scorers, too.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        listener.setblocking(False)
        texts = some(answers(folder, listener.getsockname()[1]), only)
        results: dict[str, dict[str, Tally]] = {}
        with ScoringClient(SOURCE, VERSION, TIME_LIMIT, MEMORY_LIMIT, SCORER_MODULE) as scoring:
            scoring.ask([(names[0], "library", SEED, 0, None)])
            assert scoring.pid is not None
            session = scoring.pid  # the scoring process leads one
            for name in names:
                results[name] = {
                    mode: attack(scoring, name, mode, texts) for mode in modes(name, library)
                }
                last = next(reversed(results[name].values()))
                if any(Path(folder).iterdir()):
                    last.broken.append("a file was written")
                    for path in Path(folder).iterdir():
                        path.unlink()
                if _accepted(listener):
                    last.broken.append("a connection was made")
                # The scoring process, the fork server and its children
                if left := stays_above(2 + SPARES, session):
                    last.broken.append(f"processes: {left}")
                if scoring.restarts:
                    last.broken.append("the scoring process died")
                    scoring.restarts, session = 0, scoring.pid
        if stays_above(0, session):
            last.broken.append("processes were left")
        return results


def some(texts: dict[str, str], each: int | None) -> dict[str, str]:
    return {
        name: text for name, text in texts.items() if each is None or int(name.split()[1]) < each
    }


def stays_above(count: int, session: int) -> list[int]:
    """The processes of a session if they stay more than `count` for SLACK seconds, longer than a
    child takes to end.
    """
    deadline = time.monotonic() + SLACK
    while len(found := in_session(session)) > count:
        if time.monotonic() > deadline:
            return found
        time.sleep(0.01)
    return []


def in_session(session: int) -> list[int]:
    """The process ids of a session, without zombies."""
    found = []
    for process in psutil.process_iter(["status"]):
        try:
            if (
                process.info["status"] != psutil.STATUS_ZOMBIE
                and _session_of(process.pid) == session
            ):
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return found


def _session_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[3])


def _honest(scoring: ScoringClient, question: tuple[str, str, int, int], key: str) -> Reply:
    """The reply to a right answer. A busy machine may not score even that in time, so it is asked
    up to TIMES times.
    """
    replies = (_ask(scoring, question, key) for _ in range(TIMES))
    return next((reply for reply in replies if reply != LATE), LATE)


def _ask(scoring: ScoringClient, question: tuple[str, str, int, int], text: str) -> Reply:
    return scoring.ask([(*question, (text,))])[0]


def _accepted(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def show(results: dict[str, dict[str, Tally]]) -> None:
    lines = []
    for name, by_mode in results.items():
        library = by_mode.get("library", Tally())
        items, slowest = (
            sum(t.answers for t in by_mode.values()),
            max(t.slowest for t in by_mode.values()),
        )
        forged = [
            str(len(by_mode[mode].forged)) if mode in by_mode else "left out"
            for mode in ("ours", "behind")
        ]
        lines.append(
            [name, str(items), *forged, str(len(library.forged)), str(library.skipped.total())]
        )
        lines[-1].append(f"{slowest:.2f}")
    header = [
        "data set",
        "items",
        "forged, here",
        "forged, behind the right answer",
        "forged, library's scorer",
    ]
    command.show([*header, "stopped by the sandbox", "slowest, s"], lines)


def summary(results: dict[str, dict[str, Tally]]) -> dict[str, Any]:
    tallies = {
        (name, mode): tally for name, by_mode in results.items() for mode, tally in by_mode.items()
    }
    skipped: dict[str, Counter[str]] = {
        "ours": Counter(),
        "behind": Counter(),
        "library": Counter(),
    }
    for (_, mode), tally in tallies.items():
        skipped[mode].update(tally.skipped)
    return {
        "data_sets": len(results),
        "items": sum(tally.answers for tally in tallies.values()),
        "answers_per_data_set": max(tally.answers for tally in tallies.values()),
        "forged": {
            f"{n}/{m}": t.forged for (n, m), t in tallies.items() if t.forged and m != "library"
        },
        "forged_library": {
            n: len(t.forged) for (n, m), t in tallies.items() if t.forged and m == "library"
        },
        "skipped": skipped,
        "slowest": max(tally.slowest for tally in tallies.values()),
        "slowest_here": max(
            (t.slowest for (_, m), t in tallies.items() if m != "library"), default=0.0
        ),
        "broken": {f"{n}/{m}": t.broken for (n, m), t in tallies.items() if t.broken},
    }


def main() -> None:
    parser = command.parser("lab.fuzzing.hostile", __doc__)
    parser.add_argument("--data-sets", nargs="*", help="only these")
    parser.add_argument("--each", type=int, help="only the first so many answers of each kind")
    parser.add_argument("--ours", action="store_true", help="without the library's own scorers")
    options = parser.parse_args()
    names = options.data_sets or (sorted(CATALOGUE) if options.ours else all_data_sets())
    results = run(names, options.each, not options.ours)
    show(results)
    found = summary(results)
    print("\n".join(f"{what}: {value}" for what, value in found.items()))
    command.finish(options, found)


def all_data_sets() -> list[str]:
    from reasoning_gym.factory import DATASETS  # imported here, since it takes a second

    return sorted(DATASETS)


if __name__ == "__main__":
    main()
