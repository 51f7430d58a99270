"""Where the answer stands in a completion, and how a prompt says so: by a sentence, or by shots that show it.

Both are a node's own choice. An address names the bare question, so nodes with other forms and shots still score each
other's groups, each by its own form. A completion is hostile text: this is string work in linear time. What stands
beside the answer is paid nothing, but trained on; `whole` alone leaves no room for it.
"""

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from swarm_node.settings import EnvironmentConfig

NUMBER = re.compile(r"(?:(?<![0-9A-Za-z)])[-+])?(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?(?:/[0-9]+)?")

Shot = tuple[str, str]  # question, answer


def in_tags(text: str) -> str:
    """Between the last <answer> and its </answer>."""
    inside, closed, _ = text.rpartition("<answer>")[2].partition("</answer>")
    return inside if closed and "<answer>" in text else ""


def in_box(text: str) -> str:
    """Between the braces of the last \\boxed{}."""
    _, opened, rest = text.rpartition("\\boxed{")
    depth = 1
    for brace in re.finditer("[{}]", rest if opened else ""):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return rest[: brace.start()]
    return ""


def behind_hashes(text: str) -> str:
    """The rest of the line behind the last ####."""
    _, found, rest = text.rpartition("####")
    return rest.partition("\n")[0] if found else ""


def last_number(text: str) -> str:
    """With its sign, separators of thousands, decimals and denominator; nothing behind it."""
    last = deque(NUMBER.finditer(text), maxlen=1)
    return last[0][0] if last else ""


def first_line(text: str) -> str:
    """One empty line before it does not matter."""
    return text.removeprefix("\n").partition("\n")[0]


@dataclass(frozen=True, slots=True)
class Form:
    """One way to give an answer."""

    read: Callable[[str], str]  # of a completion without its thinking; an empty text where no answer is given
    written: str = "{}"  # how a shot shows an answer
    sentence: str = ""  # names the form to a model that sees no shots


FORMS: Mapping[str, Form] = {
    "whole": Form(str),
    "first_line": Form(first_line, sentence="Give only the answer, in one line."),
    "tags": Form(in_tags, "<answer>{}</answer>", "Give the final answer between <answer> and </answer>."),
    "boxed": Form(in_box, "\\boxed{{{}}}", "Give the final answer in \\boxed{}."),
    "hashes": Form(behind_hashes, "#### {}", "End with a line of #### and the final answer."),
    "last_number": Form(last_number, sentence="End with the final answer, which is a number."),
}
SHORT = ("whole", "first_line")  # forms that thinking has no place in


def without_thinking(text: str) -> str:
    """What stands behind the last </think>, which a template may have opened. Thinking that has no end says nothing."""
    return text.rpartition("</think>")[2].partition("<think>")[0]


@dataclass(frozen=True, slots=True)
class Answers:
    """How a node asks for answers and finds them."""

    form: str = "whole"
    shots: int = 0
    usual: Mapping[str, int] = field(default_factory=dict)  # config id -> shots where the node sets none

    @classmethod
    def configured(
        cls, settings: EnvironmentConfig, form: str = "whole", usual: Mapping[str, int] | None = None
    ) -> "Answers":
        """As the options say, else in the form and with the shots that are usual in an environment."""
        return cls(form if settings.answer == "auto" else settings.answer, settings.shots, usual or {})

    def count(self, config_id: str) -> int:
        """How many shots stand before a question."""
        return self.shots or self.usual.get(config_id, 0)

    def read(self, text: str) -> str:
        """The answer that a completion gives, and an empty text if it gives none."""
        return FORMS[self.form].read(text if self.form in SHORT else without_thinking(text))

    def prompt(self, question: str, shots: Sequence[Shot]) -> str:
        """The question behind its shots. Without shots a sentence names the form of the answer."""
        form = FORMS[self.form]
        if not shots:
            return f"{question}\n\n{form.sentence}" if form.sentence else question
        return "".join(_solved(asked, form.written.format(answer)) for asked, answer in shots) + question


WHOLE = Answers()


def _solved(question: str, answer: str) -> str:
    """As a completion would follow the question: behind it, or below a question of several lines."""
    return f"{question}\n{answer}\n\n" if "\n" in question + answer else f"{question} {answer}\n"
