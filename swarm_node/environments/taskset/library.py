"""All calls of the library verifiers. Only the processes that read and score a task set import this
module.
"""

import hashlib
import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import Any

import verifiers
import verifiers.v1 as vf

from swarm_node.common.errors import UserError, first_line

MAX_TEXTS = 8  # completions to try, of one question
SHORT = 200  # most characters of a text that is tried as a completion
NOT_TEXT = "more than one turn of text"


class Library:
    """A task set that can be imported here, by name or file."""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        """Raises whatever an import raises, and what pydantic says of the options."""
        self.name = name
        file = Path(name).expanduser()
        if name.endswith(".py"):
            sys.path.insert(0, str(file.absolute().parent))  # where verifiers imports it from
        self._id = file.stem if name.endswith(".py") else name
        given = {**deepcopy(options), "id": self._id}  # a copy: verifiers changes it
        self._config = vf.taskset_config_type(self._id).model_validate(given)
        self._kind: type[vf.Task] = vf.task_type(self._id)

    def tasks(self, most: int) -> Iterator[vf.Task]:
        """At most `most` tasks, in the order of the task set."""
        return islice(iter(vf.load_taskset(self._config).take(most)), most)

    def rebuilt(self, data: Mapping[str, Any]) -> vf.Task:
        """A task from its `dumped` data, without loading the task set again."""
        return self._kind(self._kind.data_type().model_validate(data), self._config.task)

    def refusal(self) -> str:
        """Why the task set is not one of single turns of text; "" if it is."""
        kind, blank = self._kind, vf.Task
        hooks = ("setup", "finalize", "stage_verifier")
        prepared = [hook for hook in hooks if getattr(kind, hook) is not getattr(blank, hook)]
        if vf.environment_class(self._id) is not vf.SingleAgentEnv:
            return "it brings an environment of its own, of several agents"
        if vf.default_harness_id(self._id) == self._id:
            return "it brings a harness of its own"
        if kind.NEEDS_CONTAINER:
            return "its tasks need a container"
        if prepared:
            return f"its tasks prepare a runtime ({', '.join(prepared)})"
        if kind.toolsets(self._config.task) or type(vf.load_taskset(self._config)).toolsets(
            self._config
        ):
            return "its tasks have tools"
        return ""

    def code(self) -> str:
        """A digest of the task set's source files and the version of verifiers: peers who have both
        score alike.
        """
        module = vf.import_taskset(self._id)
        assert module.__file__ is not None
        place = Path(module.__file__)
        files = sorted(place.parent.rglob("*.py")) if hasattr(module, "__path__") else [place]
        parts = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
        return hashlib.sha256(" ".join([verifiers.__version__, *parts]).encode()).hexdigest()


def unscorable(task: vf.Task) -> str:
    """Why the reward of a task is not a function of the completion alone; "" if it is."""
    if task.config.judges:
        return "another model scores it"
    rewards = task.hooks("reward")
    if not rewards:
        return "it has no reward"
    needing = [hook.__name__ for hook in rewards if _needs_runtime(hook)]
    return f"its reward needs a runtime ({', '.join(needing)})" if needing else ""


def _needs_runtime(hook: Any) -> bool:
    parameter = inspect.signature(hook).parameters.get("runtime")
    return parameter is not None and parameter.default is inspect.Parameter.empty


def prompt_of(data: vf.TaskData) -> str:
    """The prompt of a task as one user turn; "" where it has images or turns of other roles, or
    where there is none.
    """
    said = data.prompt
    if data.image or said is None:
        return ""
    parts = [said] if isinstance(said, str) else [_plain(message) for message in said]
    if not all(parts):
        return ""
    return "\n\n".join([*([data.system_prompt] if data.system_prompt else []), *parts])


def _plain(message: Any) -> str:
    """The text of a system or user message; "" of another one, and of one that has more than
    text.
    """
    pictures = not isinstance(message.content, str) and any(
        part.type != "text" for part in message.content or ()
    )
    return (
        ""
        if message.role not in ("system", "user") or pictures
        else vf.content_text(message.content)
    )


def dumped(data: vf.TaskData) -> dict[str, Any]:
    """The data of a task as JSON can hold it, in the form that `Task.hash` is made of."""
    found: dict[str, Any] = data.model_dump(mode="json", exclude_none=True)
    return found


def texts_to_try(data: Mapping[str, Any], prompt: str) -> list[str]:
    """Completions whose scores two processes compare: nonsense, and what may be the reference
    answer.
    """
    own = set(data) - set(vf.TaskData.model_fields)
    values = [
        data[name] if isinstance(data[name], str) else json.dumps(data[name])
        for name in sorted(own)
    ]
    found = [value for value in values if 0 < len(value) <= SHORT]
    tried = [
        "",
        "0",
        prompt[:SHORT],
        *(text for value in found for text in (value, f"\\boxed{{{value}}}")),
    ]
    return list(dict.fromkeys(tried))[:MAX_TEXTS]


async def scored(task: vf.Task, prompt: str, text: str) -> float:
    """The reward of one completion. Raises what verifiers makes of an error in the reward."""
    trace = vf.Trace(
        verifiers=vf.VersionInfo(version=verifiers.__version__),
        task=vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash),
        agent=vf.AgentInfo(config=vf.AgentConfig(runtime=vf.SubprocessConfig())),
        nodes=[
            vf.MessageNode(message=vf.UserMessage(content=prompt)),
            vf.MessageNode(parent=0, message=vf.AssistantMessage(content=text), sampled=True),
        ],
        is_completed=True,
        ok=True,
        stop_condition="agent_completed",
    )
    await task.score(trace)
    return float(trace.reward)


def loaded(name: str, options: Mapping[str, Any]) -> Library:
    """The task set of this name. UserError where it cannot be imported, or is not one of single
    turns of text.
    """
    try:
        library = Library(name, options)
        reason = library.refusal()
    except Exception as error:  # whatever somebody's file raises
        raise UserError(
            f"task set {name} cannot be loaded: {type(error).__name__}: {_first(error)}; install "
            "it, or correct taskset.name"
        ) from error
    if reason:
        raise UserError(
            f"task set {name}: {reason}, and only single turns of text can be trained on; take "
            "another"
        )
    return library


def _first(error: Exception) -> str:
    return first_line(error) if str(error).strip() else "no message"
