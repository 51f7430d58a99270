"""Where a person in a browser and the contributor meet: one question at a time, and drafts of
answers with their rewards.

Two sides share a desk. The contributor's thread asks (`complete`) and waits until the person is
done with a question. Threads of the page press its buttons (`press`) and look at it (`view`). A
draft is scored at once, in the sandbox in which every node scores, while the contributor waits: so
no two threads use the environment at the same time.

A node learns from a group how far each answer's reward is from the mean of all. Where all answers
have one reward, nothing is above the mean and nothing below: such a group teaches nothing, and the
desk does not publish it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from threading import Condition
from typing import Any, Protocol

from protocol.limits import MAX_EPISODE_CHARS
from protocol.messages import Episode
from swarm_node.environments.rewards import is_right
from swarm_node.environments.scored import FORMS, Rewards
from swarm_node.rollouts.groups import Skipped, all_equal
from swarm_node.settings import EnvironmentConfig

LINES = 20  # of what the contributor said
KEPT = 100  # published groups that are shown
NEXT_SECONDS = 60.0  # that a browser waits for the next question, before it has to look again
DRAFT, PUBLISH, SKIP, LEAVE = "draft", "publish", "skip", "leave"
PRESSES = (DRAFT, PUBLISH, SKIP, LEAVE)

NOTHING_YET = "Write an answer and score it. Then write a different one."
ONE_ANSWER = (
    "One answer alone teaches nothing: it is its own mean, neither better nor worse than the "
    "others. Write a different one."
)
DIFFERENT = "These answers would teach"
PASSED_OVER = Skipped("passed over")


class Left(Exception):
    """The person answers no more questions."""


class Asker(Protocol):
    """Who asks: a `Contributor`."""

    @property
    def published(self) -> int:
        """Groups published so far."""
        ...

    def task(self) -> str:
        """The task of the question that is asked now."""
        ...

    def score(self, texts: Sequence[str]) -> Rewards:
        """The rewards of these answers to it."""
        ...

    def fits(self, texts: Sequence[str]) -> bool:
        """Whether these answers to it fit into one message."""
        ...


@dataclass(frozen=True, slots=True)
class Sent:
    """A group that was published."""

    name: str  # its content hash
    task: str
    answers: int


class Desk:
    """One question at a time."""

    presses = PRESSES

    def __init__(
        self,
        most: int,
        scoring: str,
        asker: Asker,
        hear: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`most`: answers to one question. `scoring`: how they are scored, in a sentence. `hear`:
        gives new lines of the network.
        """
        self._most, self._scoring, self._asker, self._hear = most, scoring, asker, hear
        self._changed = Condition()
        self._lines: deque[str] = deque(maxlen=LINES)
        self._sent: deque[Sent] = deque(maxlen=KEPT)
        self._number = 0  # of the question
        self._prompt: str | None = None
        self._decided = ""  # what the person wants with this question: PUBLISH or SKIP
        self._left = False
        self._drafts: list[tuple[str, float]] = []
        self._note = ""

    # What the contributor's thread calls

    def complete(self, prompt: str) -> tuple[Episode, ...] | Skipped:
        """The person's answers to a question. Left where there will be no more."""
        with self._changed:
            self._prompt, self._drafts, self._decided = prompt, [], ""
            self._number += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: bool(self._decided) or self._left)
            if self._left:
                raise Left
            self._prompt = None
            if self._decided == SKIP:
                return PASSED_OVER
            return tuple(Episode.of(text=text, ended=True) for text, _ in self._drafts)

    def published(self, name: str) -> None:
        """Notes that the answers to the last question were published, as a group of this name."""
        with self._changed:
            self._sent.append(Sent(name, self._asker.task(), len(self._drafts)))
            self._note = "Published. The next question is here."

    # What threads of the page call

    def press(self, kind: str, number: int, text: str) -> None:
        """A button: one of `PRESSES`. `number`: of the question that the person saw, as it may be
        over.
        """
        with self._changed:
            if kind == LEAVE:
                self._left = True
                self._changed.notify_all()
                return
            if number != self._number or self._prompt is None or self._left:
                return
            if kind == DRAFT:
                self._note = self._take(text)
                return
            if kind == PUBLISH and not self._teaches:
                self._note = "Not published."  # the verdict says why
                return
            self._decided, self._note = kind, ""
            self._changed.notify_all()
            self._changed.wait_for(self._is_after(number), NEXT_SECONDS)

    def view(self) -> dict[str, Any]:
        """The desk as plain data for a browser."""
        with self._changed:
            self._lines.extend(self._hear())
            rewards = [reward for _, reward in self._drafts]
            mean = fmean(rewards) if rewards else 0.0
            return {
                "number": self._number,
                "task": self._asker.task(),
                "prompt": None if self._left else self._prompt,
                "scoring": self._scoring,
                "drafts": [[text, reward, reward - mean] for text, reward in self._drafts],
                "teaches": self._teaches,
                "verdict": self._verdict(),
                "note": self._note,
                "sent": [[each.name, each.task, each.answers] for each in reversed(self._sent)],
                "published": self._asker.published,
                "lines": list(self._lines),
                "most": self._most,
                "left": self._left,
            }

    def close(self) -> None:
        """Tells the desk that no more questions come. Whoever waits is answered now."""
        self.press(LEAVE, 0, "")

    @property
    def _teaches(self) -> bool:
        rewards = [reward for _, reward in self._drafts]
        return len(rewards) > 1 and not all_equal(rewards)

    def _is_after(self, number: int) -> Callable[[], bool]:
        return lambda: self._left or (self._number != number and self._prompt is not None)

    def _verdict(self) -> str:
        """Whether the drafts would teach a node anything, and why."""
        if len(self._drafts) < 2:
            return ONE_ANSWER if self._drafts else NOTHING_YET
        rewards = [reward for _, reward in self._drafts]
        if self._teaches:
            return (
                f"{DIFFERENT}: a node makes those above the mean of {fmean(rewards):.2f} more "
                "likely, and those below it less likely. Publish them, or add another."
            )
        wanted = "a wrong one" if is_right(rewards[0]) else "a right one"
        return (
            f"These answers all score {rewards[0]:.2f}, so none is better or worse than their "
            f"mean, and they teach nothing. Write one that scores differently: {wanted}."
        )

    def _take(self, text: str) -> str:
        """Takes a draft. Returns its score, or why it was not taken."""
        if objection := self._objection(text):
            return f"Not taken: {objection}."
        rewards = self._asker.score([text])
        if isinstance(rewards, Skipped):
            return f"Not taken: it cannot be scored here ({rewards.reason})."
        self._drafts.append((text, rewards[0]))
        return f"Answer {len(self._drafts)} scores {rewards[0]:.2f}."

    def _objection(self, text: str) -> str:
        """Why a draft cannot be an answer; "" where it can."""
        if not text.strip():
            return "there is nothing in it"
        if len(text) > MAX_EPISODE_CHARS:
            return f"it has {len(text)} characters, and {MAX_EPISODE_CHARS} are the most"
        if text.encode("utf-8", "replace").decode() != text:  # half of a surrogate pair
            return "it has a character that no message can hold"
        return self._objection_to_more(text)

    def _objection_to_more(self, text: str) -> str:
        """Why a draft cannot stand next to those before; "" where it can."""
        drafts = [draft for draft, _ in self._drafts]
        if text in drafts:
            return "you have that answer already; write a different one"
        if len(drafts) >= self._most:
            return f"{self._most} answers to a question are the most"
        if not self._asker.fits([*drafts, text]):
            return "your answers are longer together than a message can be; write a shorter one"
        return ""


def how_scored(settings: EnvironmentConfig) -> str:
    """How an answer is scored, for a person."""
    credit = (
        "1 for a right answer and 0 for any other"
        if settings.scoring == "exact"
        else "1 for a right answer, and less for one that is right in part"
    )
    form = FORMS.get(settings.answer)
    place = "All that you write is the answer: with any other text next to it, it counts as wrong."
    if form is not None and form.sentence:
        place = f"{form.sentence} The text around it is not scored, but it is published."
    elif settings.answer == "anywhere":
        place = "The task's own verifier looks for the answer in all that you write."
    return f"A program on this computer scores it, as every node does by itself: {credit}. {place}"
