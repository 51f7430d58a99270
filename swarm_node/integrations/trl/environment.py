"""An environment written for `environment_factory` of TRL's GRPOTrainer as a source of episodes,
`trl:MODULE:CLASS`.

It runs only in scoring processes and their sandboxed children, without TRL. Public methods are
tools, a turn without calls ends an episode, and `get_reward()` or else the attribute `reward` is
its score in [0, 1]. `reset` gets one of the class's `rows`, if it has some, and a `seed`, if it
takes one. The address seeds `random` before each turn.
"""

import hashlib
import inspect
import json
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from protocol.addressing import is_held_out, is_held_out_text
from swarm_node.common import loading
from swarm_node.scoring import playing
from swarm_node.scoring.contract import Call, Step, Turn

CALLING = 'Call a tool by <call>{"name": NAME, "arguments": {ARGUMENT: VALUE}}</call>. Tools:'
OUTSIDE = (
    "socket.",
    "subprocess.",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "pty.",
)
ALONE = "peers cannot play it again: train alone on it, by TRL itself"
_watching: list[list[str]] = []  # for each watched block, the events that were refused


class TrlEpisode:
    """One episode of the environment."""

    def __init__(self, made: Any, row: Mapping[str, Any], address: str) -> None:
        self._environment, self._address, self._turn = made, address, 0
        first_observation = made.reset(**row) or ""
        prompt = row.get("prompt", "")
        question = prompt if isinstance(prompt, str) else prompt[-1]["content"]
        opening = question + first_observation
        tools = [_described(name, tool) for name, tool in tools_of(made).items()]
        self.prompt = "\n".join([opening, CALLING, *tools])

    def step(self, turn: Turn) -> Step:
        if not turn.calls:
            return Step((), done=True)
        self._turn += 1
        random.seed(f"{self._address}/{self._turn}")
        return Step(tuple(_used(tools_of(self._environment), call) for call in turn.calls))

    def score(self) -> float:
        made = self._environment
        return float(made.get_reward() if hasattr(made, "get_reward") else made.reward)


class TrlSource:
    """Implements contract.Source. Its version is a digest of the file that defines the
    class.
    """

    turns = 16

    def __init__(self, place: str) -> None:
        """`place`: MODULE:CLASS. Raises ValueError where peers cannot replay its episodes, and
        whatever the class raises.
        """
        self._make: Callable[[], Any] = loading.load(place)
        with _watched():
            made = self._make()
        kind, tools = type(made), tools_of(made)
        methods = [*tools.values(), getattr(made, "get_reward", None)]
        if any(map(inspect.iscoroutinefunction, methods)):
            raise ValueError(f"{kind.__name__} has methods that wait for others: {ALONE}")
        self.name = f"trl.{kind.__name__}"
        content = Path(inspect.getfile(kind)).read_bytes()
        self.version = f"sha256.{hashlib.sha256(content).hexdigest()[:32]}"
        self.tasks = {self.name: ("default",)}
        probe: list[Turn] = []
        for name, tool in tools.items():
            arguments = dict.fromkeys(inspect.signature(tool).parameters, "1")
            call = Call(name, json.dumps(arguments))
            probe.append(Turn("", (call,)))
        self.probe = (*probe, Turn("0"))[-8:]
        parameters = inspect.signature(made.reset).parameters
        kinds = {parameter.kind for parameter in parameters.values()}
        self._seeded = "seed" in parameters or inspect.Parameter.VAR_KEYWORD in kinds
        self._rows: dict[bool, list[dict[str, Any]]] = {False: [], True: []}  # by whether held out
        rows: Sequence[dict[str, Any]] = getattr(kind, "rows", ({},))
        for row in rows:
            text = json.dumps(row, sort_keys=True, default=str)
            self._rows[is_held_out_text(text)].append(row)
        self._try()

    def begin(self, dataset: str, config_id: str, seed: int, index: int) -> TrlEpisode:
        """See `Source.begin`."""
        address = f"{dataset}/{config_id}/{seed}/{index}"
        rng = random.Random(address)
        of_this_side = self._rows[is_held_out(seed)]
        row = rng.choice(of_this_side or self._rows[not is_held_out(seed)])
        drawn = {"seed": rng.getrandbits(31)} if self._seeded else {}
        random.seed(address)
        with _watched():
            return TrlEpisode(self._make(), row | drawn, address)

    def _try(self) -> None:
        """Plays the probe twice. Raises ValueError where it fails, goes differently the second
        time, or leaves its process.
        """
        trials = list[tuple[str, bytes]]()
        for index in (0, 1, 2, 0, 1, 2):
            episode = self.begin(self.name, "default", 1, index)
            with _watched():
                played = playing.play(episode, [self.probe])
            trials.append((episode.prompt, played))
            result = playing.read(played, [self.probe])
            if isinstance(result, str):
                raise ValueError(f"{self.name}: {result} in a trial")
        if trials[:3] != trials[3:]:
            raise ValueError(
                f"{self.name} goes otherwise when it is played again, not by `random` alone: "
                f"{ALONE}"
            )


def tools_of(made: Any) -> dict[str, Callable[..., object]]:
    """The public methods of an environment, except those that TRL calls itself."""
    names = [name for name, _ in inspect.getmembers(type(made), inspect.isfunction)]
    public = [name for name in names if not name.startswith("_")]
    return {name: getattr(made, name) for name in public if name not in ("reset", "get_reward")}


def _used(tools: Mapping[str, Callable[..., object]], call: Call) -> str:
    """What a tool returns or, as in TRL, its error as text. Errors that another machine might not
    raise are raised.
    """
    try:
        return playing.use(tools, call)
    except (OSError, MemoryError, RecursionError):
        raise
    except Exception as error:  # noqa: BLE001
        return str({"error": str(error)})


def _described(name: str, tool: Callable[..., object]) -> str:
    summary = (inspect.getdoc(tool) or "").strip().partition("\n")[0]
    return f"- {name}({', '.join(inspect.signature(tool).parameters)}): {summary}"


def _audit(event: str, _arguments: object) -> None:
    if _watching and event.startswith(OUTSIDE):
        _watching[-1].append(event)
        raise PermissionError(ALONE)


@contextmanager
def _watched() -> Iterator[None]:
    """Refuses sockets and processes; ValueError after a block that wanted some. A child has a
    sandbox for that.
    """
    _watching.append(seen := list[str]())
    try:
        yield
    except Exception:
        if not seen:
            raise
    finally:
        _watching.pop()
    if seen:
        raise ValueError(f"it opens a socket or starts a process ({seen[0]}): {ALONE}")


sys.addaudithook(_audit)
