"""Everything a user can set, with its unit and its default: a file for each topic. Imports nothing
heavy.

Options that TRL has too have its names. `command_line.py` resolves them: defaults < home < file <
environment < flags.

A package registers the class of a section of its own in the group `swarm_node.settings`, under the
name of its table in TOML. The core reads no field of such a section: it passes the configuration to
what the extension registers, which asks for its section by `section_of`.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import BaseModel, create_model, model_validator

from swarm_node.common import plugins
from swarm_node.settings.model import NO_TEMPLATE as NO_TEMPLATE
from swarm_node.settings.model import EnvironmentConfig as EnvironmentConfig
from swarm_node.settings.model import GenerationConfig as GenerationConfig
from swarm_node.settings.model import ModelConfig as ModelConfig
from swarm_node.settings.options import by_present_names
from swarm_node.settings.programs import MICRO_BATCH as MICRO_BATCH
from swarm_node.settings.programs import ArchiveConfig as ArchiveConfig
from swarm_node.settings.programs import AskConfig as AskConfig
from swarm_node.settings.programs import AsynchronousConfig as AsynchronousConfig
from swarm_node.settings.programs import BootstrapConfig as BootstrapConfig
from swarm_node.settings.programs import CheckConfig as CheckConfig
from swarm_node.settings.programs import CheckpointConfig as CheckpointConfig
from swarm_node.settings.programs import DefenceConfig as DefenceConfig
from swarm_node.settings.programs import DoctorConfig as DoctorConfig
from swarm_node.settings.programs import EvaluationConfig as EvaluationConfig
from swarm_node.settings.programs import LearningConfig as LearningConfig
from swarm_node.settings.programs import LimitsConfig as LimitsConfig
from swarm_node.settings.programs import NetworkConfig as NetworkConfig
from swarm_node.settings.programs import NodeConfig as NodeConfig
from swarm_node.settings.programs import RoundConfig as RoundConfig
from swarm_node.settings.programs import StatusConfig as StatusConfig
from swarm_node.settings.programs import TrainingConfig as TrainingConfig
from swarm_node.settings.programs import ValidationConfig as ValidationConfig
from swarm_node.settings.programs import WithObservers as WithObservers
from swarm_node.settings.programs import WithQuestions as WithQuestions
from swarm_node.settings.sections import Section as Section

C = TypeVar("C", bound=BaseModel)
S = TypeVar("S", bound=Section)
KIND = "settings"


def with_sections(kind: type[C]) -> type[C]:
    """`kind` with the sections that extensions registered for it: a subclass of the same name, or
    `kind` itself where no section serves it. A name of the core stays the core's.
    """
    return cast(type[C], _extended(kind))


def section_of(config: object, kind: type[S]) -> S:
    """The section of this class in a configuration; its defaults where the configuration has
    none.
    """
    return next((value for value in vars(config).values() if isinstance(value, kind)), kind())


def sections_of(config: BaseModel) -> dict[str, Section]:
    """The sections of extensions in a configuration, by name."""
    return {
        name: getattr(config, name)
        for name in plugins.registered(KIND)
        if name in type(config).model_fields
    }


def asked_for(config: BaseModel, kind: str) -> list[str]:
    """The names registered under `kind` whose section, of the same name, has an option that the
    user set.
    """
    sections = sections_of(config)
    return [
        name
        for name in plugins.registered(kind)
        if name in sections and sections[name] != type(sections[name])()
    ]


def adjusted(config: C, say: Callable[[str], None], keep: bool = False) -> C:
    """The configuration as extensions adjust it before anything runs; they `say` each change in a
    line. `keep`: they may write into the home. UserError where the configuration contradicts what
    it names, such as a card.
    """
    for name in plugins.registered("adjustments"):
        config = plugins.load("adjustments", name)(config, say, keep)
    return config


class _Extended:
    """Pickles as the core's class and its values: another process makes the subclass again."""

    def __reduce__(self) -> Any:
        return _restored, (type(self).__bases__[-1], vars(self))


def _restored(kind: type[C], values: dict[str, Any]) -> C:
    return with_sections(kind).model_construct(**values)


def _by_present_names(kind: type[BaseModel], values: Any) -> Any:
    """A script may name a section as an earlier version did."""
    return by_present_names(kind, values) if isinstance(values, dict) else values


@cache
def _extended(kind: type[BaseModel]) -> type[BaseModel]:
    registered = {
        name: plugins.load(KIND, name)
        for name in plugins.registered(KIND)
        if name not in kind.model_fields
    }
    fields: dict[str, Any] = {
        name: (section, section())
        for name, section in registered.items()
        if issubclass(kind, section.serves)
    }
    if not fields:
        return kind
    about = {"__doc__": kind.__doc__, "__module__": kind.__module__}
    by_class: Any = classmethod(_by_present_names)
    made: type[BaseModel] = create_model(
        kind.__name__,
        __base__=(_Extended, kind),
        __validators__={"by_present_names": model_validator(mode="before")(by_class)},
        **about,
        **fields,
    )  # type: ignore[call-overload]
    return made
