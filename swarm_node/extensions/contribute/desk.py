"""Where a person in a browser and the contributor meet: one question at a time, drafts with their rewards."""

from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition
from typing import Any

from protocol.limits import MAX_COMPLETION_CHARS
from protocol.messages import Completion, Question
from swarm_node.rollouts.groups import Skipped

LINES = 20  # of what the contributor said
NEXT_SECONDS = 60.0  # that a browser waits for the next question, before it is told to look again later

Score = Callable[[Question, Sequence[str]], tuple[float, ...] | Skipped]


class Left(Exception):
    """The person has had enough."""


class Desk:
    """The contributor's thread calls `drafts`, `say` and `close`; threads of the page call `press` and `view`, which
    may wait for a score."""

    def __init__(self, most: int, published: Callable[[], int]) -> None:
        """`most`: drafts of a question. `published`: groups so far."""
        self._most, self._published = most, published
        self._changed = Condition()
        self._lines: deque[str] = deque(maxlen=LINES)
        self._number = 0  # of the question
        self._asked: tuple[Question, str, Score] | None = None  # the question, its prompt, and who scores it
        self._done = self._left = False  # with this question; with all of them
        self._drafts: list[tuple[str, float]] = []
        self._note = ""

    def drafts(self, question: Question, prompt: str, score: Score) -> tuple[Completion, ...]:
        """Different answers of the person to one question. Left where there will be no more."""
        with self._changed:
            self._asked, self._drafts, self._note, self._done = (question, prompt, score), [], "", False
            self._number += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._done or self._left)
            if self._left:
                raise Left
            return tuple(Completion(text=text, ended=True) for text, _ in self._drafts)

    def press(self, kind: str, number: int, text: str) -> None:
        """A button: "draft", "go on" or "leave". `number`: of the question that the person saw, as it may be over."""
        with self._changed:
            if kind == "leave":
                self._left = True
                self._changed.notify_all()
            elif self._asked and number == self._number and not (self._done or self._left):
                if kind == "draft":
                    question, _, score = self._asked
                    self._note = self._draft(text[:MAX_COMPLETION_CHARS], question, score)
                    return
                self._done = True
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._left or self._number != number, NEXT_SECONDS)

    def view(self) -> dict[str, Any]:
        """As plain data for the browser."""
        with self._changed:
            question, prompt, _ = self._asked or (None, None, None)
            return {
                "number": self._number,
                "task": f"{question.dataset}/{question.config_id}" if question else "",
                "prompt": None if self._left else prompt,
                "drafts": list(self._drafts),
                "note": self._note,
                "lines": list(self._lines),
                "most": self._most,
                "published": self._published(),
                "left": self._left,
            }

    def say(self, text: str) -> None:
        """A line of the contributor."""
        with self._changed:
            self._lines.append(text)

    def close(self) -> None:
        """There will be no more questions. Whoever waits is answered."""
        self.press("leave", 0, "")

    def _draft(self, text: str, question: Question, score: Score) -> str:
        """Takes one, or says why not."""
        if not text.strip():
            return "there is nothing in it"
        if text.encode("utf-8", "replace").decode() != text:  # half of a surrogate pair: no message can hold it
            return "it has a character that no message can hold"
        if text in [known for known, _ in self._drafts]:
            return "you had that already"
        if len(self._drafts) >= self._most:
            return f"{self._most} drafts are the most: go on"
        rewards = score(question, [text])
        if isinstance(rewards, Skipped):
            return f"cannot be scored: {rewards.reason}"
        self._drafts.append((text, rewards[0]))
        return f"reward {rewards[0]:.2f}"
