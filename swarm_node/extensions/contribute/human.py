"""A person answers questions of the swarm: reads one, tries, sees the score, tries again."""

from collections.abc import Callable, Sequence

from protocol.limits import MAX_COMPLETION_CHARS
from protocol.messages import Completion, Question
from swarm_node.common.errors import printable
from swarm_node.rollouts.groups import Skipped

Score = Callable[[Question, Sequence[str]], tuple[float, ...] | Skipped]


class Left(Exception):
    """The person has had enough."""


class Human:
    """Asks in a terminal. `read`: the next line, EOFError at the end; `say`: shows a line."""

    def __init__(self, read: Callable[[], str], say: Callable[[str], None], most: int) -> None:
        self._read, self._say, self._most = read, say, most

    def drafts(self, question: Question, prompt: str, score: Score) -> tuple[Completion, ...]:
        """Different answers of the person to one question. Left where there will be no more."""
        self._say(f"\n{question.dataset}/{question.config_id}")
        for line in prompt.splitlines():
            self._say(f"  {printable(line, 2000)}")
        self._say("an answer, or an empty line for the next question; Ctrl-D leaves")
        found: list[str] = []
        while len(found) < self._most:
            try:
                text = self._read()[:MAX_COMPLETION_CHARS]
            except EOFError as error:
                if len(found) > 1:  # these are worth a group; the next question finds the end again
                    break
                raise Left from error
            if not text.strip():
                break
            if text in found:
                self._say("you had that already")
                continue
            rewards = score(question, [text])
            if isinstance(rewards, Skipped):
                self._say(f"cannot be scored: {rewards.reason}")
                continue
            found.append(text)
            self._say(f"reward {rewards[0]:.2f}: {'right' if rewards[0] == 1.0 else 'try again, or go on'}")
        return tuple(Completion(text=text, ended=True) for text in found)
