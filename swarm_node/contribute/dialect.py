"""What this server wants otherwise than the description of OpenAI's API has it. Some refuse
`max_tokens` and want `max_completion_tokens`, some make one completion at a time, some only stream,
some know no system role, no stop strings or no temperature.

Nobody has to configure that. When the server refuses a request, its words are searched for a cause
that has a cure; the request is made again in the other form, and so are all later ones of this run.
Each lesson is learnt once, so a server that refuses everything is soon refused itself.
"""

import re
from collections.abc import Mapping
from typing import Any

from swarm_node.contribute.answer import Complaint
from swarm_node.settings.contribute import ContributeConfig

# Statuses with which servers refuse the form of a request; 200 where the error has no other
ABOUT_FORM = {200, 400, 404, 405, 409, 415, 422, 500, 501}
NO_THINKING = {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": False}}
PAYMENT, TOO_LARGE, NO_SUCH_PATH = 402, 413, {404, 405}  # statuses
LENGTH, NEW_LENGTH = "max_tokens", "max_completion_tokens"

_REFUSED = re.compile(
    r"unsupported|not support|unknown|unrecogni[sz]ed|not permitted|not allowed|unexpected"
    r"|extra (inputs|fields)|invalid|not (a )?valid|not accept|cannot|deprecated|not available"
    r"|no longer|forbidden|use '?max_completion_tokens"
)
# A value is out of range, so that another value is the cure
_RANGE = re.compile(
    r"too (large|high|long|big|many)|at most \d|exceed|context (length|window|size)|\bbetween\b"
    r"|less than|greater than|maximum|out of range|<=|in the range|reduce"
)
_CREDIT = re.compile(r"insufficient_quota|billing|credit")
_MODEL = re.compile(
    r"model.{0,80}(not (exist|found|available)|unknown|access|deprecated|decommissioned|retired)"
    r"|(no such|unknown|invalid|access to( the)?) model"
)
_ONE_ONLY = re.compile(
    r"""['"`]n['"`]|\bn\s*(>|=|must|should|is\b|has|cannot|was|parameter|value)|parameter:?\s+n\b"""
    r"""|\bbody\.n\b|(argument|field|property)\b.{0,20}[: ]n\b"""
    r"""|(only|just) (one|1) (completion |response )?choice"""
    r"""|multiple (choices|completions)|best_of|\bn\b.{0,20}\bto be 1\b"""
)
_WANTS_STREAM = re.compile(r"\bstream.{0,60}\b(only|must|required?|enabled?|true|mode)\b")
_ONLY_STREAM = re.compile(r"\b(only|must|requires?|enable)\b.{0,60}\bstream|\bnon-?stream")
_NO_SYSTEM = re.compile(
    r"system.{0,40}\b(role|message|instruction|prompt)|\brole.{0,40}system|roles must alternate"
    r"|developer instruction"
)
_WANTS_PARTS = re.compile(
    r"content.{0,60}\b(valid|be|expected|expects|is not) (a |an )?(list|array|sequence)"
)


def names(words: str, field: str) -> bool:
    """Whether these words name this field."""
    return re.search(rf"(?<!\w){re.escape(field)}(?!\w)", words) is not None


class Dialect:
    """How requests to this server are written."""

    def __init__(self, config: ContributeConfig, extra: Mapping[str, Any]) -> None:
        self._config, self._extra = config, extra
        self._length = LENGTH
        self._single = self._streams = self._parts = self._no_system = False
        self._dropped = set[str]()  # fields that the server refuses, and that are skipped

    @property
    def most_samples(self) -> int:
        """How many completions a request may ask for."""
        return 1 if self._single else self._config.samples

    @property
    def cuts(self) -> tuple[str, ...]:
        """Stop strings at which completions are cut here, as the server does not."""
        return self._config.stop if "stop" in self._dropped else ()

    def body(self, prompt: str, samples: int) -> dict[str, Any]:
        """The request for these completions of a prompt."""
        config = self._config
        streaming = {"stream_options": {"include_usage": True}} if self._streams else {}
        body = {
            "model": config.model,
            "messages": self._messages(prompt),
            "n": samples,
            self._length: config.max_tokens,
            "temperature": config.temperature,
            "stream": self._streams,
            **streaming,
            "stop": list(config.stop) or None,
            **({} if config.thinking else NO_THINKING),
        }
        ours = {name: value for name, value in body.items() if name not in self._dropped}
        whole = {**ours, **self._extra}
        return {name: value for name, value in whole.items() if value is not None}

    def learn(self, complaint: Complaint, body: Mapping[str, Any]) -> str:
        """Learns from why the server refused this request. Returns a line that says what is done
        otherwise from now on; "" where nothing can be.
        """
        words = complaint.searched
        lessons = (
            self._learn_length,
            self._learn_stream,
            self._learn_single,
            self._learn_system,
            self._learn_parts,
            self._learn_without,
        )
        return next(filter(None, (lesson(words, body) for lesson in lessons)), "")

    def _messages(self, prompt: str) -> list[dict[str, Any]]:
        system = self._config.environment.system
        if system and self._no_system:
            return [self._message("user", f"{system}\n\n{prompt}")]
        if system:
            return [self._message("system", system), self._message("user", prompt)]
        return [self._message("user", prompt)]

    def _message(self, role: str, text: str) -> dict[str, Any]:
        content = [{"type": "text", "text": text}] if self._parts else text
        return {"role": role, "content": content}

    def _learn_length(self, words: str, body: Mapping[str, Any]) -> str:
        named = names(words, NEW_LENGTH) or (names(words, LENGTH) and _REFUSED.search(words))
        if LENGTH not in body or not named or _RANGE.search(words):
            return ""
        self._length = NEW_LENGTH
        return f"the server expects {NEW_LENGTH} in place of {LENGTH}: from now on it gets that"

    def _learn_stream(self, words: str, body: Mapping[str, Any]) -> str:
        wanted = _WANTS_STREAM.search(words) or _ONLY_STREAM.search(words)
        if self._streams or not wanted or names(words, "stream_options"):
            return ""
        self._streams = True
        self._dropped.discard("stream")
        return "the server answers only as a stream: from now on it is asked for one"

    def _learn_single(self, words: str, body: Mapping[str, Any]) -> str:
        if "n" not in body or "n" in self._extra or not _ONE_ONLY.search(words):
            return ""
        self._single = True
        self._dropped.add("n")
        return "the server makes one completion for each request: from now on it is asked for one"

    def _learn_system(self, words: str, body: Mapping[str, Any]) -> str:
        system = self._config.environment.system
        if self._no_system or not system or not _NO_SYSTEM.search(words):
            return ""
        self._no_system = True
        return (
            "the model has no system role: environment.system is now the beginning of each prompt"
        )

    def _learn_parts(self, words: str, body: Mapping[str, Any]) -> str:
        if self._parts or not _WANTS_PARTS.search(words):
            return ""
        self._parts = True
        return "the server expects the content of a message in parts, and gets it so from now on"

    def _learn_without(self, words: str, body: Mapping[str, Any]) -> str:
        """Notes a field that the server refuses and a request can do without: `body` leaves it out
        from now on. A field of --extra-body is the user's. Returns what to tell, or "".
        """
        for field, told in WITHOUT.items():
            ours = field in body and field not in self._extra
            # Of a temperature that is too high, a lower one is the cure
            other = field == "temperature" and _RANGE.search(words)
            known = self._streams or not _REFUSED.search(words)
            needed = field == "stream" and known
            if ours and names(words, field) and not other and not needed:
                self._dropped.add(field)
                return f"the server refuses {field}: {told}"
        return ""


WITHOUT = {  # a field that a request can do without -> what is done instead
    "stream_options": "from now on usage is estimated from the texts",
    "stop": "from now on completions are cut on this computer",
    "reasoning_effort": "requests are sent without it from now on",
    "chat_template_kwargs": "requests are sent without it from now on",
    "temperature": "from now on it samples with its own temperature, not with --temperature",
    "stream": "requests are sent without it from now on",
}


def out_of_credit(complaint: Complaint) -> bool:
    """Whether the contributor has to pay first."""
    return _CREDIT.search(complaint.searched) is not None


def cure(
    complaint: Complaint, status: int, config: ContributeConfig, extra: Mapping[str, Any]
) -> str:
    """What to change, where the server has refused a request and nothing could be learnt; "" where
    its words have to do.
    """
    words = complaint.searched
    mine = [field for field in extra if names(words, field.lower())]
    out_of_range = _RANGE.search(words) is not None
    too_long = out_of_range and re.search(r"token|context|length|large", words) is not None
    causes = (  # whether it is the cause, and what to do then; the first one counts
        (bool(mine), f"take {', '.join(mine)} out of --extra-body, or change it"),
        ("https port" in words or "use https" in words, "write https:// in --api"),
        (
            status == PAYMENT or out_of_credit(complaint),
            "add credit at the provider, or name another --api",
        ),
        (
            names(words, "temperature") and out_of_range,
            f"give another --temperature than {config.temperature:g}",
        ),
        (
            status == TOO_LARGE or too_long,
            f"lower --max-tokens ({config.max_tokens}) or --samples ({config.samples})",
        ),
        (status in NO_SUCH_PATH, _cure_of_address(words, config)),
        (_MODEL.search(words) is not None, "name another --model"),
    )
    return next((told for holds, told in causes if holds), "")


def _cure_of_address(words: str, config: ContributeConfig) -> str:
    path = config.api.at("").rstrip("/")
    causes = (
        (
            path.endswith(("/chat/completions", "/completions")),
            "leave /chat/completions away from --api: it is added",
        ),
        ("/v1/v1" in path or "/v1/v1" in words, "write /v1 in --api once"),
        (
            "model" in words or config.model.lower() in words,
            f"name a --model that the server has: {config.model} is not among them",
        ),
        (
            re.search(r"/v\d", path) is None,
            "the address of most servers ends in /v1: write it in --api",
        ),
    )
    usual = "give as --api the address before /chat/completions, and a --model that the server has"
    return next((told for holds, told in causes if holds), usual)
