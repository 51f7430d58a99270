"""Where a person in a browser and the contributor meet: one question at a time, drafts with their rewards."""

import queue
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Literal

from protocol.limits import MAX_COMPLETION_CHARS
from protocol.messages import Completion, Question
from swarm_node.extensions.contribute.human import Left
from swarm_node.rollouts.groups import Skipped

LINES = 20  # of what the contributor said
MOST_WAITING = 8  # presses of a button that wait for the contributor

Score = Callable[[Question, Sequence[str]], tuple[float, ...] | Skipped]


@dataclass(frozen=True)
class Press:
    """A button that was pressed. `number`: of the question that the person saw then."""

    kind: Literal["draft", "go on", "leave"]
    number: int
    text: str = ""
    done: "Future[None]" = field(default_factory=Future)


class Desk:
    """The contributor's thread calls `drafts`, `say` and `close`; the page's thread `press` and `view`."""

    def __init__(self, most: int, published: Callable[[], int]) -> None:
        """`most`: drafts of a question. `published`: groups so far."""
        self._most, self._published = most, published
        self._presses: queue.Queue[Press] = queue.Queue(MOST_WAITING)
        self._lock = Lock()
        self._lines: deque[str] = deque(maxlen=LINES)
        self._shown: dict[str, Any] = {"number": 0, "task": "", "prompt": None, "drafts": [], "note": ""}
        self._turning: Press | None = None  # to the next question: it is answered when that is shown
        self._left = False

    def press(self, press: Press) -> bool:
        """Hands it to the contributor, who sets `done`; False where too many wait, or nobody is there any more."""
        if self._left:
            return False
        try:
            self._presses.put_nowait(press)
        except queue.Full:
            return False
        return True

    def view(self) -> dict[str, Any]:
        """As plain data for the browser."""
        with self._lock:
            shown = {**self._shown, "drafts": list(self._shown["drafts"]), "lines": list(self._lines)}
        return shown | {"most": self._most, "published": self._published(), "left": self._left}

    def say(self, text: str) -> None:
        """A line of the contributor."""
        with self._lock:
            self._lines.append(text)

    def close(self) -> None:
        """There will be no more questions. Whoever waits is answered."""
        self._left = True
        self._show(prompt=None, note="")
        self._answered()
        while not self._presses.empty():
            self._presses.get_nowait().done.set_result(None)

    def drafts(self, question: Question, prompt: str, score: Score) -> tuple[Completion, ...]:
        """Different answers of the person to one question. Left where there will be no more."""
        task, drafts = f"{question.dataset}/{question.config_id}", list[tuple[str, float]]()
        self._show(number=self._shown["number"] + 1, task=task, prompt=prompt, drafts=drafts, note="")
        self._answered()
        while True:
            press = self._presses.get()
            if press.kind == "leave":
                self._turning = press
                raise Left
            if press.number == self._shown["number"]:
                if press.kind == "go on":
                    self._turning = press
                    return tuple(Completion(text=text, ended=True) for text, _ in drafts)
                self._show(note=self._draft(press.text[:MAX_COMPLETION_CHARS], question, drafts, score))
            press.done.set_result(None)

    def _draft(self, text: str, question: Question, drafts: list[tuple[str, float]], score: Score) -> str:
        """Takes one, or says why not."""
        if not text.strip():
            return "there is nothing in it"
        if text.encode("utf-8", "replace").decode() != text:  # half of a surrogate pair: no message can hold it
            return "it has a character that no message can hold"
        if text in [known for known, _ in drafts]:
            return "you had that already"
        if len(drafts) >= self._most:
            return f"{self._most} drafts are the most: go on"
        rewards = score(question, [text])
        if isinstance(rewards, Skipped):
            return f"cannot be scored: {rewards.reason}"
        with self._lock:
            drafts.append((text, rewards[0]))
        return f"reward {rewards[0]:.2f}"

    def _show(self, **changes: Any) -> None:
        with self._lock:
            self._shown = {**self._shown, **changes}

    def _answered(self) -> None:
        if self._turning is not None:
            self._turning.done.set_result(None)
            self._turning = None
