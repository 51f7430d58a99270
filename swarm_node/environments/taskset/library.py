"""All calls of the library verifiers, except an exchange with its tools and turns, which is in
`exchange.py`. Only the processes that read and score a task set import these two modules.
"""

import asyncio
import base64
import copy
import hashlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from functools import cached_property
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import verifiers
import verifiers.v1 as vf
from pydantic import ValidationError, validate_call
from pydantic_core import to_jsonable_python
from verifiers.v1.configs.agent import agent_config_fields
from verifiers.v1.state import state_cls
from verifiers.v1.utils.decorators import discover_decorated, invoke
from verifiers.v1.utils.loaders import env_config_type

from swarm_node.common.errors import UserError, first_line
from swarm_node.environments.taskset.offline import OfflineRuntime
from swarm_node.environments.taskset.pictures import words_for
from swarm_node.environments.taskset.quiet import WaitsOutside, run
from swarm_node.scoring.playing import ToolError

MAX_TEXTS = 8  # completions to try, of one question
SHORT = 200  # most characters of a text that is tried as a completion
NOT_TEXT = "more than turns of text"
OF_VERIFIERS = "verifiers.v1.tasksets"  # its own task sets, which it prefers

# What a setup left for the other hooks of its task, as JSON can hold it; empty where it left
# nothing: fields `state`, `info` and `files`
Prepared = Mapping[str, Any]


class Library:
    """A task set that can be imported here, by name or file."""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        """Raises whatever an import raises, and what pydantic says of the options."""
        self.name = name
        self._id = _findable(Path(name).expanduser()) if name.endswith(".py") else name
        given = {**deepcopy(options), "id": self._id}  # a copy: verifiers changes it
        self._config = vf.taskset_config_type(self._id).model_validate(given)
        self._kind: type[vf.Task] = vf.task_type(self._id)
        self._taskset = vf.load_taskset(self._config)
        self._environment_class = vf.environment_class(self._id)
        self._environment: vf.Env | None = None

    def tasks(self, most: int) -> Iterator[vf.Task]:
        """At most `most` tasks, in the order of the task set."""
        return islice(iter(self._taskset.take(most)), most)

    @property
    def endless(self) -> bool:
        """Whether the task set makes tasks for ever."""
        return not self._taskset.bounded

    def rebuilt(self, data: Mapping[str, Any]) -> vf.Task:
        """A task from its `dumped` data, without loading the task set again."""
        return self._kind(self._kind.data_type().model_validate(data), self._config.task)

    @property
    def several(self) -> bool:
        """Whether its tasks are episodes of several turns: with tools, or with an environment that
        speaks more than once.
        """
        return self._speaks or bool(self.toolsets())

    @property
    def _speaks(self) -> bool:
        return self._environment_class.run is not vf.SingleAgentEnv.run

    def toolsets(self) -> list[vf.Toolset]:
        """The task set's tools, as new as at the beginning of an episode."""
        own = self._kind.toolsets(self._config.task)
        return [*own, *type(self._taskset).toolsets(self._config)]

    def environment(self) -> vf.Env | None:
        """The environment that speaks with the policy, as new as at the beginning of an episode;
        None where the task alone opens the one turn.
        """
        if not self._speaks:
            return None
        if self._environment is None:
            config = env_config_type(self._id).model_validate({"taskset": self._config})
            self._environment = self._environment_class(config)
        return copy.copy(self._environment)

    def role(self) -> str:
        """The name of the one agent that its environment has."""
        environment = self.environment()
        return "agent" if environment is None else next(iter(_roles(environment)))

    def refusal(self) -> str:
        """Why no peer could replay the task set's episodes; "" if each can."""
        kind, blank = self._kind, vf.Task
        if reason := self._refused_environment():
            return reason
        if vf.default_harness_id(self._id) == self._id:
            return "it brings a harness of its own"
        if kind.NEEDS_CONTAINER:
            return "its tasks need a container"
        hooks = ("finalize", "stage_verifier")
        prepared = [hook for hook in hooks if getattr(kind, hook) is not getattr(blank, hook)]
        if prepared:
            return f"its tasks prepare a runtime ({', '.join(prepared)})"
        return self._refused_tools()

    def _refused_environment(self) -> str:
        kind, blank = self._environment_class, vf.Env
        if kind is vf.SingleAgentEnv:
            return ""
        environment = self.environment()
        roles = [] if environment is None else _roles(environment)
        if len(roles) > 1:
            return f"its environment has several agents ({', '.join(roles)}), and a node is one"
        if kind.finalize is not blank.finalize:
            return (
                "its environment judges several attempts or agents together (finalize), and a "
                "node scores each episode by itself"
            )
        hooks = ("start", "stop")
        prepared = [hook for hook in hooks if getattr(kind, hook) is not getattr(blank, hook)]
        return f"its environment starts something ({', '.join(prepared)})" if prepared else ""

    def _refused_tools(self) -> str:
        for toolset in self.toolsets():
            if not isinstance(toolset, vf.Toolset):
                return "its tools are not of vf.Toolset"
            name = type(toolset).__name__
            if type(toolset).register is not vf.Toolset.register:
                return f"its tools have a server of their own ({name}.register)"
            if getattr(toolset.config, "url", None):
                return f"its tools are on another machine ({name}, url)"
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

    def tools(
        self, state: Any = None, data: vf.TaskData | None = None
    ) -> dict[str, Callable[..., object]]:
        """Makes new tools and returns their functions, by the names under which a policy calls
        them. `state`: the state of the task, which its tools share; `data`: the data of the task at
        the beginning of an episode.
        """
        found: dict[str, Callable[..., object]] = {}
        for toolset in self.toolsets():
            if state is not None and toolset._state_cls is not vf.State:
                toolset._inert_state = state  # what its `state` is outside of a tool server
            run(toolset.setup())
            if data is not None:
                run(toolset.setup_task(data))
            for function in discover_decorated(toolset, "tool"):
                bare = getattr(function, "tool_name", None) or function.__name__
                name = f"{toolset.server_name}_{bare}" if toolset.server_name else bare
                found[name] = _answering(function)
        return found

    @cached_property
    def told_tools(self) -> str:
        """What a prompt says of the tools; "" where there are none."""
        lines = [_told(name, function) for name, function in self.tools().items()]
        if not lines:
            return ""
        shown = '<call>{"name": NAME, "arguments": {"PARAMETER": VALUE}}</call>'
        return "\n".join([f"You can call a tool by {shown}. Tools:", *lines])

    def parameters(self) -> dict[str, list[str]]:
        """The names of the parameters of each tool."""
        return {
            name: list(inspect.signature(function).parameters)
            for name, function in self.tools().items()
        }

    def trace(self, task: vf.Task, prepared: Prepared) -> vf.Trace:
        """A trace of this task without a message, with what its setup left."""
        trace = vf.Trace(
            verifiers=vf.VersionInfo(version=verifiers.__version__),
            task=vf.TraceTask(
                type=type(task).__name__, data=task.data, key=task.key, hash=task.hash
            ),
            agent=vf.AgentInfo(config=vf.AgentConfig(runtime=vf.SubprocessConfig())),
        )
        trace.state = self._state(prepared.get("state", {}))
        trace.info = deepcopy(prepared.get("info", {}))
        return trace

    def prepare(self, task: vf.Task) -> Prepared:
        """Runs the task's setup once, for good: what it leaves belongs to the question. UserError
        where it needs more than that.
        """
        if type(task).setup is vf.Task.setup:
            return {}
        trace, runtime = self.trace(task, {}), OfflineRuntime()
        empty = trace.state.model_dump_json()
        try:
            asyncio.run(_invoked(task.setup, {"trace": trace, "runtime": runtime}))
            left = {
                "state": trace.state.model_dump(mode="json"),
                "info": trace.info,
                "files": {
                    path: base64.b64encode(data).decode() for path, data in runtime.files.items()
                },
            }
            json.dumps(left)
        except Exception as error:  # whatever its code raises
            if runtime.wanted:
                raise UserError(
                    f"task set {self.name}: its tasks prepare a runtime (setup calls "
                    f"runtime.{runtime.wanted}), and no peer could replay that; use another one"
                ) from error
            raise
        nothing = trace.state.model_dump_json() == empty and not trace.info and not runtime.files
        return {} if nothing else left

    def _state(self, left: Mapping[str, Any]) -> Any:
        return state_cls(self._kind).model_validate(left)


async def _invoked(hook: Callable[..., Any], available: dict[str | type, Any]) -> None:
    await invoke(hook, available)


def _roles(environment: vf.Env) -> list[str]:
    return list(agent_config_fields(environment.config))


def _answering(function: Callable[..., Any]) -> Callable[..., object]:
    """The tool as `playing.use` calls it: it checks the types of its arguments, and what it raises
    is told to the policy.
    """
    checked = validate_call(function)

    def answered(*args: object, **kwargs: object) -> str:
        try:
            result = checked(*args, **kwargs)
            result = run(result) if inspect.iscoroutine(result) else result
        except ValidationError as error:
            names = sorted({str(part) for found in error.errors() for part in found["loc"][:1]})
            raise ToolError(f"these arguments do not fit: {', '.join(names)}") from error
        except WaitsOutside:
            raise  # no answer of a tool: no peer could play this
        except Exception as error:
            raise ToolError(first_line(error) if str(error) else type(error).__name__) from error
        return result if isinstance(result, str) else json.dumps(to_jsonable_python(result))

    answered.__doc__ = function.__doc__
    answered.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return answered


def _told(name: str, function: Callable[..., object]) -> str:
    """A tool in one line: its name, its parameters with their types, and what it is for."""
    shown = ", ".join(map(str, inspect.signature(function).parameters.values()))
    purpose = " ".join((function.__doc__ or "").split())
    return f"{name}({shown}): {purpose}" if purpose else f"{name}({shown})"


def unscorable(task: vf.Task) -> str:
    """Why the reward of a task is not a function of its episode alone, as far as one can see
    without trying it; "" where nothing speaks against it.
    """
    if task.config.judges:
        return "another model scores it"
    if not task.hooks("reward"):
        return "it has no reward"
    stops = [hook.__name__ for hook in task.hooks("stop")]
    rewriting = [hook.__name__ for hook in discover_decorated(task, "intercept")]
    changed = ", ".join([*stops, *rewriting])
    return f"it stops or rewrites an exchange by hooks of its own ({changed})" if changed else ""


def needing_runtime(task: vf.Task) -> list[str]:
    """The names of the rewards that cannot be computed without a runtime."""
    return [hook.__name__ for hook in task.hooks("reward") if _needs_runtime(hook)]


def _needs_runtime(hook: Any) -> bool:
    parameter = inspect.signature(hook).parameters.get("runtime")
    return parameter is not None and parameter.default is inspect.Parameter.empty


def prompt_of(data: vf.TaskData) -> str:
    """The prompt of a task as one user turn; "" where it has a picture that no text says, or turns
    of other roles, or where there is none.
    """
    said = data.prompt
    if data.image or said is None:
        return ""
    parts = [said] if isinstance(said, str) else list(map(text_of, said))
    if not all(parts):
        return ""
    return "\n\n".join([data.system_prompt, *parts] if data.system_prompt else parts)


def text_of(message: Any) -> str:
    """The text of a system or user message; "" of another one, and of one with a picture that no
    text says.
    """
    if message.role not in ("system", "user"):
        return ""
    if isinstance(message.content, str):
        return message.content
    parts = [
        part.text if part.type == "text" else words_for(part.image_url.url)
        for part in message.content or ()
    ]
    return "\n".join(parts) if all(parts) else ""


def dumped(data: vf.TaskData) -> dict[str, Any]:
    """The data of a task as JSON can hold it, in the form that `Task.hash` is made of."""
    found: dict[str, Any] = data.model_dump(mode="json", exclude_none=True)
    return found


def own_texts(data: Mapping[str, Any]) -> list[str]:
    """The short values of the fields that a task set adds to its tasks: one may be the answer."""
    own = set(data) - set(vf.TaskData.model_fields)
    values = [
        data[name] if isinstance(data[name], str) else json.dumps(data[name])
        for name in sorted(own)
    ]
    return [value for value in values if 0 < len(value) <= SHORT]


def texts_to_try(data: Mapping[str, Any], prompt: str) -> list[str]:
    """Completions whose scores two processes compare: nonsense, and what may be the reference
    answer.
    """
    tried = [
        "",
        "0",
        prompt[:SHORT],
        *(text for value in own_texts(data) for text in (value, f"\\boxed{{{value}}}")),
    ]
    return list(dict.fromkeys(tried))[:MAX_TEXTS]


def files_of(prepared: Prepared) -> dict[str, bytes]:
    """The files that a setup wrote, by path."""
    written: Mapping[str, str] = prepared.get("files", {})
    return {path: base64.b64decode(data) for path, data in written.items()}


def add(trace: vf.Trace, message: Any, *, sampled: bool = False) -> None:
    """Appends a message to a trace. `sampled`: whether the policy wrote it."""
    parent = len(trace.nodes) - 1 if trace.nodes else None
    trace.nodes.append(vf.MessageNode(parent=parent, message=message, sampled=sampled))


async def finish(task: vf.Task, trace: vf.Trace, runtime: OfflineRuntime) -> float:
    """The reward of a trace that is complete. Raises what verifiers makes of an error in the
    reward.
    """
    trace.is_completed = trace.ok = True
    trace.stop_condition = trace.stop_condition or "agent_completed"
    await task.score(trace, runtime if needing_runtime(task) else None)
    return float(trace.reward)


async def scored(
    library: Library,
    task: vf.Task,
    prompt: str,
    text: str,
    prepared: Prepared,
    runtime: OfflineRuntime,
) -> float:
    """The reward of one completion that answers at one go: see `finish`."""
    trace = library.trace(task, prepared)
    add(trace, vf.UserMessage(content=prompt))
    add(trace, vf.AssistantMessage(content=text), sampled=True)
    return await finish(task, trace, runtime)


def _findable(file: Path) -> str:
    """The name under which verifiers imports this file. It looks in the folder of the file last, so
    that nothing else there, which may be a stranger's, hides a module of a library. UserError where
    it would import another module of this name.
    """
    sys.path.append(str(file.absolute().parent))
    name = file.stem.replace("-", "_").lower()  # as verifiers spells it
    for module in (f"{OF_VERIFIERS}.{name}", name):
        spec = find_spec(module)
        if spec is not None and os.path.realpath(spec.origin or "") != os.path.realpath(file):
            raise UserError(
                f"task set {file}: {module} is another module, which is installed: give the file a "
                "name of its own"
            )
    return file.stem


def loaded(name: str, options: Mapping[str, Any]) -> Library:
    """The task set of this name. UserError where it cannot be imported, or where no peer could
    replay its episodes.
    """
    try:
        library = Library(name, options)
        reason = library.refusal()
    except UserError:
        raise
    except Exception as error:  # whatever somebody's file raises
        raise UserError(
            f"task set {name} cannot be loaded: {type(error).__name__}: {_first(error)}; install "
            "it, or correct taskset.name"
        ) from error
    if reason:
        raise UserError(
            f"task set {name}: {reason}; only episodes that every peer can replay are trained on: "
            "take another"
        )
    return library


def _first(error: Exception) -> str:
    return first_line(error) if str(error).strip() else "no message"


def runtime_for(prepared: Prepared) -> OfflineRuntime:
    """The runtime of one scoring, with the files that the setup wrote."""
    return OfflineRuntime(files_of(prepared))
