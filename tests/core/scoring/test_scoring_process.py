"""The scoring process against scorers that misbehave for real: nothing here is mocked."""

import ast
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from swarm_node.rollouts.groups import Skipped
from swarm_node.scoring.client import (
    KEPT_VARIABLES,
    SET_VARIABLES,
    Reply,
    Request,
    ScoringClient,
    ScoringUnavailable,
)
from swarm_node.scoring.contract import Call, Replay, Turn
from tests.waiting import until

HOSTILE = str(Path(__file__).with_name("hostile_source.py"))
VERSION = "hostile-1"
GOOD = ("right", "wrong", "right")
SCORES = (1.0, 0.0, 1.0)


def answers(*texts: str, dataset: str = "any", index: int = 0, author: int = 1) -> Request:
    """`author` stands for the seed, which is a digest of author and round."""
    return dataset, "tiny", author, index, texts


def episodes(*texts: str, dataset: str = "any", author: int = 1) -> Request:
    """Each text is an episode, with a turn for each of its words."""
    turns = tuple(tuple(map(Turn, text.split())) for text in texts)
    return dataset, "tiny", author, 0, turns


def prompt(dataset: str) -> Request:
    return dataset, "tiny", 1, 0, None


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"  # a zombie that nobody has collected yet is dead


@pytest.fixture
def scoring() -> Iterator[ScoringClient]:
    """Its time limit is long: a group that does not hang is in time on any machine."""
    with ScoringClient(HOSTILE, VERSION, 60.0, memory_limit=512) as client:
        yield client


@pytest.fixture(scope="module")
def shared() -> Iterator[ScoringClient]:
    """One scoring process for all tests that do not end it."""
    with ScoringClient(HOSTILE, VERSION, 4.0, memory_limit=512) as client:
        yield client
        assert client.restarts == 0


def once_at_work(pid: int, act: Callable[[], None]) -> threading.Thread:
    """Calls `act` as soon as this scoring process has a child for the next request."""
    before = {child.pid for child in psutil.Process(pid).children()}

    def wait() -> None:
        until(
            lambda: {child.pid for child in psutil.Process(pid).children()} - before,
            what="a child at work",
        )
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


REASONS = {
    "raise": "scorer raised",
    "leave": "scorer raised",
    "busy": "scoring timeout",
    "die": "scoring crashed",
}
REASONS |= dict.fromkeys(("nan", "infinite", "negative", "two", "none"), "not a score")


@pytest.mark.slow
@pytest.mark.parametrize(("text", "reason"), REASONS.items())
def test_a_bad_scorer_costs_its_group_and_no_other(
    shared: ScoringClient, text: str, reason: str
) -> None:
    batch = [
        answers(*GOOD),
        answers("right", text, "right"),
        answers(*GOOD, index=1),
        answers("wrong"),
    ]
    assert shared.ask(batch) == [SCORES, Skipped(reason), SCORES, (0.0,)]
    assert shared.ask([answers(*GOOD)]) == [SCORES]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["recurse", "eat", "write", "sleep", "kill", "connect", "fork", "exec", "look"]
)
def test_what_the_sandbox_or_memory_forbids_a_scorer_makes_the_answer_wrong(
    shared: ScoringClient, text: str
) -> None:
    """Honest peers once lost groups, as Python's own parser imports a module for a letter outside
    ASCII.
    """
    Path("/tmp/written-by-a-scorer").unlink(missing_ok=True)
    assert shared.ask([answers("right", text, "right"), answers(*GOOD, index=1)]) == [
        SCORES,
        SCORES,
    ]
    assert not Path("/tmp/written-by-a-scorer").exists()


@pytest.mark.slow
@pytest.mark.parametrize("text", ["lie", "patch", "die", "busy"])
def test_an_answer_that_takes_its_child_over_changes_no_other_author_s_scores(
    shared: ScoringClient, text: str
) -> None:
    batch = [
        answers(*GOOD),
        answers(text, "wrong", author=2),
        answers(*GOOD, author=3),
        answers("wrong", author=3),
    ]
    replies = shared.ask(batch)
    assert [replies[0], *replies[2:]] == [SCORES, SCORES, (0.0,)]
    again = shared.ask([answers("wrong", author=2), answers(*GOOD)])
    assert again == [(0.0,), SCORES], "the next child knows nothing of it"


def test_what_a_scorer_prints_or_reads_does_not_reach_the_frames(shared: ScoringClient) -> None:
    assert shared.ask([answers("chatter", "right"), answers("read"), answers(*GOOD)]) == [
        (1.0, 1.0),
        (0.0,),
        SCORES,
    ]


def test_a_question_that_is_slow_broken_or_endless_is_skipped_and_the_scoring_process_goes_on(
    shared: ScoringClient,
) -> None:
    shared.ask([answers(*GOOD)])
    pid, began = shared.pid, time.process_time()
    asked = [
        prompt("slow"),
        prompt("broken"),
        prompt("fine"),
        prompt("endless"),
        ("endless", "tiny", 1, 0, GOOD),
    ]
    slow = Skipped("slow question")
    assert shared.ask([*asked, answers(*GOOD)]) == [
        slow,
        Skipped("question raised"),
        "fine?",
        slow,
        slow,
        SCORES,
    ]
    assert shared.pid == pid
    assert time.process_time() - began < 1.0


def test_texts_survive_the_way(shared: ScoringClient) -> None:
    odd = ["", "\ud800", "\x00\x1b[2J", "é" * 16384, "right"]
    assert shared.ask([answers(*odd)]) == [(0.0, 0.0, 0.0, 0.0, 1.0)]


def test_many_batches_keep_their_order(shared: ScoringClient) -> None:
    items = [answers("right" if k % 3 else "wrong", "x" * 3000, index=k) for k in range(1000)]
    assert shared.ask(items) == [(float(k % 3 > 0), 0.0) for k in range(1000)]


def test_kill_9_in_mid_batch_loses_no_group(scoring: ScoringClient) -> None:
    scoring.ask([answers(*GOOD)])
    pid = scoring.pid
    assert pid is not None
    killer = once_at_work(pid, lambda: os.kill(pid, signal.SIGKILL))
    replies = scoring.ask(
        [answers(*["tenth"] * 20), *(answers("right", index=k) for k in range(1, 6))]
    )
    killer.join()
    assert replies == [(1.0,) * 20, *[(1.0,)] * 5]
    assert scoring.restarts == 1 and scoring.pid != pid


class Dying(ScoringClient):
    """Its process is killed whenever it is about to get a group that takes long."""

    def _run(self, batch: Sequence[Request]) -> tuple[list[Reply], str | None]:
        if self.pid is not None and any("tenth" in (item[4] or ()) for item in batch):
            os.kill(self.pid, signal.SIGKILL)
        return super()._run(batch)


def test_a_group_that_ends_its_process_twice_is_skipped_and_no_other() -> None:
    with Dying(HOSTILE, VERSION, 60.0, memory_limit=512) as client:
        assert client.ask([answers(*GOOD)]) == [SCORES]
        assert client.ask([answers("tenth"), answers(*GOOD)]) == [
            Skipped("scoring crashed"),
            SCORES,
        ]
        assert client.restarts == 2


def test_an_interrupted_node_does_not_mistake_old_replies_for_new(scoring: ScoringClient) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    scoring.ask([answers(*GOOD)])
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        assert scoring.pid is not None
        interrupter = once_at_work(scoring.pid, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        with pytest.raises(KeyboardInterrupt):
            scoring.ask(
                [answers(*["tenth"] * 99), *(answers("right", index=k) for k in range(1, 20))]
            )
        interrupter.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert scoring.ask([answers("wrong"), answers(*GOOD)]) == [(0.0,), SCORES]


def test_the_thread_that_asked_first_may_end(scoring: ScoringClient) -> None:
    """Unlike with PR_SET_PDEATHSIG, which would kill the scoring process at some time after the
    join.
    """
    first = threading.Thread(target=scoring.ask, args=([answers(*GOOD)],))
    first.start()
    first.join()
    assert (
        scoring.ask([answers("tenth", *GOOD)] * 3) == [(1.0, *SCORES)] * 3 and scoring.restarts == 0
    )


def test_a_prepared_scoring_process_is_started_once_and_answers_until_it_is_closed(
    scoring: ScoringClient,
) -> None:
    scoring.prepare()
    pid = scoring.pid
    assert pid is not None
    scoring.prepare()
    assert scoring.ask([answers(*GOOD)]) == [SCORES] and scoring.pid == pid and alive(pid)
    scoring.close()
    assert not alive(pid)


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks at /proc")
def test_the_scoring_process_dies_with_its_node_even_while_a_scorer_hangs() -> None:
    node = (
        "import sys, threading\n"
        "from swarm_node.scoring.client import ScoringClient\n"
        f"scoring = ScoringClient({HOSTILE!r}, {VERSION!r}, 600.0, 512)\n"
        "scoring.ask([('any', 'tiny', 1, 0, ('right',))])\n"
        "print(scoring.pid, flush=True)\n"
        "scoring.ask([('any', 'tiny', 1, 0, ('sleep',))])\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", node], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert alive(pid)
        process.kill()
    until(lambda: not alive(pid), what="the end of the scoring process")


def test_the_scoring_process_knows_nothing_of_the_node_and_hashes_as_all_do(
    monkeypatch: pytest.MonkeyPatch, scoring: ScoringClient, shared: ScoringClient
) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    (seen,) = scoring.ask([prompt("self")])
    assert shared.ask([prompt("self")]) == [seen] and isinstance(seen, str)
    inside = ast.literal_eval(seen)
    by_python = {"LC_CTYPE", "PYTHONUTF8"}
    assert set(inside["environment"]) <= {*by_python, *KEPT_VARIABLES, *SET_VARIABLES}
    assert not {"HF_TOKEN", "HOME", "PATH"} & {*KEPT_VARIABLES, *SET_VARIABLES}
    assert inside["modules"] == []
    # Three standard streams, the socket, the lifeline, Landlock's and the listing itself
    assert inside["files"] <= 7


def test_a_scoring_process_that_cannot_start_says_why_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ScoringUnavailable, match="No module named 'no_such_module'"):
        ScoringClient("no_such_module", VERSION, 1.0, 512).ask([prompt("x")])
    with pytest.raises(
        ScoringUnavailable, match="of version 2, and version hostile-1 is installed"
    ):
        ScoringClient(HOSTILE, "2", 1.0, 512).ask([prompt("x")])
    monkeypatch.setattr(ScoringClient, "start_limit", 1e-6)
    with pytest.raises(ScoringUnavailable, match="nothing received within 0 s") as caught:
        ScoringClient(HOSTILE, VERSION, 1.0, 512).ask([prompt("x")])
    # So exit code 75: the machine may be less busy later
    assert isinstance(caught.value.__cause__, TimeoutError)


def test_an_answer_at_one_go_is_played_as_an_episode_of_one_turn(shared: ScoringClient) -> None:
    played = [Replay(((),), True, score) for score in SCORES]
    assert shared.ask([episodes(*GOOD), answers(*GOOD)]) == [played, SCORES]


def test_an_episode_with_more_than_an_answer_skips_a_question_that_takes_one(
    shared: ScoringClient,
) -> None:
    calling = ("any", "tiny", 1, 0, ((Turn("right", (Call("x", "{}"),)),),))
    after_the_end = Skipped("after the end")
    replies = shared.ask([episodes("right", "right wrong"), calling, episodes("right")])
    assert replies == [after_the_end, after_the_end, [Replay(((),), True, 1.0)]]
