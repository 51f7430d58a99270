"""The node's end of a scoring process: start, ask in batches, watch the clock, kill, start again.

Each item gets exactly one reply. The scoring process itself copes with answers that hang or kill
the child that scores them. If it hangs or dies all the same, a new process is asked for the items
after the one it was at; the items before keep their replies.
"""

import os
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from signal import SIGXCPU
from typing import Any, cast

import msgspec

from swarm_node.common.awake import Patience
from swarm_node.common.batched import paired
from swarm_node.common.children import STARTS, ChildKilled, clean_environment
from swarm_node.common.errors import UserError, last_line, printable
from swarm_node.common.loading import absolute
from swarm_node.rollouts.groups import Skipped
from swarm_node.scoring import contract, playing
from swarm_node.scoring.contract import Asked, BrokenFrame, Reader, Replay, Turn, encode, is_score

# Seconds beyond the time limits of one child's items, which the scoring process itself keeps
PATIENCE = 20.0
BATCH_ITEMS = 256  # items of one frame
BATCH_CHARS = 1_000_000  # of answers in one frame, unless one item alone has more
# Libraries that Python may need; matplotlib's list of fonts
KEPT_VARIABLES = ("LD_LIBRARY_PATH", "MPLCONFIGDIR")
SET_VARIABLES = {
    "PYTHONHASHSEED": "0",  # some questions follow the order of sets
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    # All memory from glibc, in huge pages where the system has them: a fork of the scoring process
    # takes half the time.
    "PYTHONMALLOC": "malloc",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}

# Data set, config id, seed, index, and what is asked of that question
Request = tuple[str, str, int, int, Asked]
# The prompt or the answer, scores, episodes
Reply = str | tuple[float, ...] | list[Replay | Skipped] | Skipped
DEAD = Skipped(contract.CRASHED)


class ScoringUnavailable(UserError):
    """No scoring process can be started: nothing can be scored, so there is no point in going
    on.
    """


class ScoringKilled(ScoringUnavailable, ChildKilled):
    """A signal ended each scoring process while it started."""


class ScoringClient:
    """One scoring process, started by `prepare` or the first question, and again after each death.
    Any thread may ask.
    """

    bounded = True  # whether text next to an answer is unpaid (`bound.py`); set before the start
    start_limit = 60.0  # seconds until the process says hello; about 1 s where nothing else runs

    def __init__(
        self,
        source: str,
        version: str,
        time_limit: float,
        memory_limit: int = 1024,
        scorers: str = "",
    ) -> None:
        """`source`: see `server.load`; `time_limit`: seconds per item; `memory_limit`: megabytes;
        `scorers`: the module of the environment's `contract.Scorers`, if it has one.
        """
        self.restarts = 0  # processes killed or found dead, and replaced
        self._source, self._scorers = absolute(source), scorers
        self._version = version
        self._time_limit, self._memory_limit = time_limit, memory_limit
        self.patience = time_limit * contract.CHILD_ITEMS + PATIENCE  # seconds to wait for a reply
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._waiting: Patience | None = None  # at the socket
        self._reader: Reader | None = None
        self._lifeline: int | None = None  # write end of a pipe that only has to stay open
        self._greeted = False  # whether the process has said hello
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        """The id of the running scoring process, for callers that watch its memory; None where none
        runs.
        """
        return self._process.pid if self._process else None

    def prepare(self) -> None:
        """Start the process without waiting for it. Raises ScoringUnavailable."""
        with self._lock:
            if self._process is None:
                self._start()

    def ask(self, items: Sequence[Request]) -> list[Reply]:
        """One reply per item, in order. An item whose process was found dead goes to a new process
        once more. So if somebody killed the process, nothing is lost; if an item kills both
        processes, the item is skipped. Raises ScoringUnavailable only.
        """
        with self._lock:
            replies = self._ask(items)
            again = [number for number, reply in enumerate(replies) if reply == DEAD]
            second_replies = self._ask([items[number] for number in again])
            for number, reply in paired(again, second_replies):
                replies[number] = reply
        return replies

    def _ask(self, items: Sequence[Request]) -> list[Reply]:
        replies: list[Reply] = []
        while len(replies) < len(items):
            try:
                answered, reason = self._run(_batch(items, len(replies)))
            except BaseException:
                # Ctrl-C: replies on their way must not be taken for replies to later items
                self._stop()
                raise
            replies += answered
            if reason is not None:
                self._stop()
                self.restarts += 1
                replies.append(Skipped(reason))
        return replies

    def close(self) -> None:
        with self._lock:
            self._stop()

    def __enter__(self) -> "ScoringClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, batch: Sequence[Request]) -> tuple[list[Reply], str | None]:
        """Replies in order, and why the next item has none (None: all have one)."""
        for tries_left in reversed(range(STARTS)):
            if self._process is None:
                self._start()
            if self._greeted or (code := self._greet()) is None:
                break
            self.restarts += 1
            if not tries_left:
                raise ScoringKilled("the scoring process, while it started,", code)
        assert self._waiting is not None and self._reader is not None
        replies: list[Reply] = []
        try:
            self._waiting.begin(self.patience)
            self._waiting.sendall(encode(batch))
            for item in batch:
                self._waiting.begin(self.patience)
                frame = self._reader.read()
                if frame is None:
                    return replies, self._cause_of_death()
                replies.append(_checked(frame, item))
        except TimeoutError:
            return replies, contract.TIMEOUT
        except (BrokenFrame, OSError):
            return replies, contract.CRASHED
        return replies, None

    def _program(self, lifeline: int) -> dict[str, Any]:
        """The arguments with which Popen starts the scoring process."""
        numbers = lifeline, self._memory_limit * 1024 * 1024, self._time_limit
        limits = [*map(str, numbers), contract.BOUNDED if self.bounded else contract.FREE]
        server = [sys.executable, "-s", "-P", "-B", "-Wignore", "-m", "swarm_node.scoring.server"]
        return {
            "args": [*server, self._source, self._scorers, *limits],
            "env": clean_environment(KEPT_VARIABLES, SET_VARIABLES),
            "cwd": "/",
        }

    def _start(self) -> None:
        self._socket, theirs = socket.socketpair()
        lifeline, self._lifeline = os.pipe()
        try:
            self._process = subprocess.Popen(
                **self._program(lifeline),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(lifeline,),
                # Ctrl-C is for the node: it may want to score its last round
                start_new_session=True,
            )
        except OSError as error:
            raise ScoringUnavailable(
                f"the scoring process does not start: {error}; is there memory left for it?"
            ) from error
        finally:
            theirs.close()
            os.close(lifeline)
        self._waiting = Patience(self._socket)
        self._reader = Reader(self._waiting.recv)

    def _greet(self) -> int | None:
        """Waits until the process says hello. The code of a process that a signal ended before: it
        is gone then.
        """
        assert self._waiting is not None and self._reader is not None
        self._waiting.begin(self.start_limit)
        try:
            hello, cause = self._reader.read(), None
        except (TimeoutError, BrokenFrame) as error:
            hello, cause = None, error
        if not isinstance(hello, dict) and (code := self._killed_by()):
            self._stop()
            return code
        if not isinstance(hello, dict):
            raise ScoringUnavailable(
                f"the scoring process does not start: {self._last_words(cause)}"
            ) from cause
        if hello.get("version") != self._version:
            self._stop()
            raise ScoringUnavailable(
                f"this release needs questions of version {self._version}, and version "
                f"{hello.get('version')} is installed: install the dependencies of this release"
            )
        self._greeted = True
        return None

    def _killed_by(self) -> int:
        """The negative number of the signal that ended the process; 0 where none did."""
        assert self._process is not None
        try:
            return min(0, self._process.wait(1.0))
        except subprocess.TimeoutExpired:
            return 0

    def _last_words(self, cause: Exception | None) -> str:
        assert self._process is not None and self._process.stderr is not None
        self._process.kill()
        printed = self._process.stderr.read(64 * 1024).decode(errors="replace")
        last = last_line(printed, 300)
        self._stop()
        # A late process's last line is a library's warning
        late = isinstance(cause, TimeoutError) or not last
        return f"nothing received within {self.start_limit:.0f} s" if late else last

    def _cause_of_death(self) -> str:
        assert self._process is not None
        try:
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:  # closed its end but lives on
            return contract.CRASHED
        return contract.TIMEOUT if code == -SIGXCPU else contract.CRASHED

    def _stop(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stderr is not None:
                self._process.stderr.close()
        if self._lifeline is not None:
            os.close(self._lifeline)
        self._process = self._socket = self._waiting = self._reader = self._lifeline = None
        self._greeted = False


def slow_workers() -> int:
    """Scoring processes for scorers that may be slow: a quarter of the cores, 4 at most."""
    return min(4, max(1, (os.cpu_count() or 1) // 4))


class ScoringPool:
    """Several processes behind the interface of one, for scorers that cost time: groups are scored
    side by side. Any thread may ask.
    """

    def __init__(self, make: Callable[[], ScoringClient], workers: int = 1) -> None:
        self._clients = [make() for _ in range(workers)]
        self._threads = (
            ThreadPoolExecutor(workers, thread_name_prefix="score") if workers > 1 else None
        )

    @property
    def bounded(self) -> bool:
        """Whether text next to an answer is unpaid; set before the processes start."""
        return self._clients[0].bounded

    @bounded.setter
    def bounded(self, bounded: bool) -> None:
        """Tells each process."""
        for client in self._clients:
            client.bounded = bounded

    def prepare(self) -> None:
        """Start the processes without waiting for them. Raises ScoringUnavailable."""
        for client in self._clients:
            client.prepare()

    def ask(self, items: Sequence[Request]) -> list[Reply]:
        """One reply per item, in order. Raises ScoringUnavailable only."""
        if self._threads is None or len(items) < 2:
            return self._clients[0].ask(items)
        waiting = deque(enumerate(items))
        replies: dict[int, Reply] = {}

        def work(client: ScoringClient) -> None:
            while True:
                try:
                    # One at a time: a slow group holds up no other group
                    place, item = waiting.popleft()
                except IndexError:
                    return
                replies[place] = client.ask([item])[0]

        for done in [self._threads.submit(work, client) for client in self._clients]:
            done.result()
        return [replies[place] for place in range(len(items))]

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
        for client in self._clients:
            client.close()


Scoring = ScoringClient | ScoringPool  # one process, or several


def _batch(items: Sequence[Request], begin: int) -> list[Request]:
    """The next items that fit into one frame; at least one."""
    batch: list[Request] = []
    chars = 0
    for item in items[begin : begin + BATCH_ITEMS]:
        chars += sum(map(_chars, item[4] or ()))
        if batch and chars > BATCH_CHARS:
            break
        batch.append(item)
    return batch


def _chars(asked: str | Sequence[Turn]) -> int:
    if isinstance(asked, str):
        return len(asked)
    chars = 0
    for turn in asked:
        chars += len(turn.text)
        chars += sum(len(call.arguments) for call in turn.calls)
    return chars


def _checked(frame: Any, item: Request) -> Reply:
    """The reply in a frame, if our own code can have sent it. Else raises BrokenFrame: an answer
    may have taken the scoring process over, which is then replaced.
    """
    asked = item[4]
    if isinstance(frame, dict) and isinstance(frame.get("skipped"), str):
        return Skipped(printable(frame["skipped"], 40))
    if not asked:
        if isinstance(frame, str):
            return frame
    elif isinstance(frame, list):
        return _of_one_turn(_scores(frame, len(asked)), asked)
    elif isinstance(frame, dict) and not isinstance(asked[0], str):
        played = frame.get("played")
        if isinstance(played, list) and len(played) == len(asked):
            return list(map(_replay, played, cast(Sequence[Sequence[Turn]], asked)))
    raise BrokenFrame("neither prompt nor scores nor episodes")


def _scores(frame: list[Any], count: int) -> tuple[float, ...]:
    """The scores in a frame, one for each text or episode. Raises BrokenFrame."""
    are_floats = all(type(value) is float for value in frame)
    if len(frame) != count or not are_floats or not all(map(is_score, frame)):
        raise BrokenFrame("no scores")
    return tuple(frame)


def _of_one_turn(
    scores: tuple[float, ...], asked: Sequence[str] | Sequence[Sequence[Turn]]
) -> Reply:
    """The scores of texts, or the replays of episodes of one turn with these scores."""
    if isinstance(asked[0], str):
        return scores
    if not all(contract.is_plain(cast(Sequence[Turn], turns)) for turns in asked):
        raise BrokenFrame("scores of episodes that have more than a text")
    return [Replay(((),), True, score) for score in scores]


_REPLAY = tuple[tuple[tuple[str, ...], ...], bool, float]  # the fields of a `Replay`


def _replay(said: Any, turns: Sequence[Turn]) -> Replay | Skipped:
    """The replay of one episode, or why it was skipped. Raises BrokenFrame."""
    if isinstance(said, str):
        return Skipped(printable(said, 40))
    try:
        replay = Replay(*msgspec.convert(said, _REPLAY))
        "".join(chain(*replay.observations)).encode()  # JSON may hold lone surrogates
        if playing.sound(replay, turns):
            return replay
    except ValueError as error:
        raise BrokenFrame(f"no episode: {error}") from error
    raise BrokenFrame("no episode")
