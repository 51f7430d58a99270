"""The base of all options: frozen, strict about names. Their docstrings are the help texts of the
command line.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationInfo,
    field_validator,
)
from pydantic_core import CoreSchema, core_schema

from swarm_node.common import plugins
from swarm_node.common.parsing import parse_json

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


def _swarm(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._+-]{1,64}", name):
        raise ValueError("should be 1 to 64 letters, digits, or any of . _ + -")
    return name


def json_object(text: str) -> str:
    """Returns this text. ValueError unless the text is a JSON object, or empty."""
    try:
        found = parse_json(text or "{}")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError('should be a JSON object, such as \'{"split": "test"}\'')
    return text


@dataclass(frozen=True)
class Words:
    """Marks a text that stays a text: whatever it says, no code, file, program or server is found
    by it. Of all texts only these may come from a home: see `of_home.py`.
    """


@dataclass(frozen=True)
class Grants:
    """Marks an option that lets the node run, read, write, reach or open something, or takes a
    guard away. A home may never set it, whatever its list says: see `of_home.py`.
    """

    what: str  # a program, a file or folder, a server, ...


SwarmName = Annotated[str, AfterValidator(_swarm), Words()]
Text = Annotated[str, Words()]
# A plug-in by a name that another library finds, or a file of Python
Program = Annotated[str, Grants("a program")]
FileName = Annotated[str, Grants("a file or folder")]
Listening = Annotated[str, Grants("an address to listen on")]


@dataclass(frozen=True)
class PlugIn:
    """Marks an option that names a plug-in: a registered name, or FILE:NAME beside the
    configuration.

    A file gets its whole path: it lies in the `folder` of the validation context, which is that of
    a configuration file, else in the current folder. A name that is not registered is a UserError,
    before anything starts.
    """

    kind: str  # "environments", "samplers", ...
    besides: tuple[str, ...] = ()  # names that the option also takes and that are no plug-ins

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.with_info_after_validator_function(self._found, handler(source))

    def _found(self, name: str, info: core_schema.ValidationInfo) -> str:
        if name not in self.besides:
            name = plugins.located(name, (info.context or {}).get("folder", Path()))
            plugins.target(self.kind, name, self.besides)
        return name


class Alias:
    """Gives an option another flag beside the one of its place."""

    def __init__(self, *flags: str) -> None:
        self.aliases = flags


class Earlier(Alias):
    """Gives an option a flag that it had in an earlier version. It stays valid, and no page of help
    names it.
    """


@dataclass(frozen=True)
class BareFlag:
    """Marks an option whose flag may stand without a value, and says which value it has then."""

    value: str


@dataclass(frozen=True)
class WithCommas:
    """Marks a list whose entries may hold commas. In all other lists a comma separates entries."""


class Section(BaseModel):
    """Base of every group of options."""

    # Of a section that another package brings: the configurations that it belongs to (`plugged.py`)
    serves: ClassVar[tuple[type["Section"], ...]] = ()
    # Names of earlier versions, which stay valid in files, variables and scripts: of the section,
    # and of options in it by their present names
    earlier: ClassVar[tuple[str, ...]] = ()
    renamed: ClassVar[Mapping[str, str]] = {}
    # The list of those of its own options that a home may set, which `join` writes there
    from_home: ClassVar[frozenset[str]] = frozenset()

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,  # the input may be a secret, and a traceback goes to a log
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Makes each explanation one line. Help pages and completion scripts wrap it themselves."""
        for field in cls.model_fields.values():
            field.description = " ".join((field.description or "").split())

    def in_validation(self) -> Self:
        """The section by which validation asks its questions between rounds."""
        return self

    @field_validator("*", mode="before")
    @classmethod
    def _split(cls, value: Any, info: ValidationInfo) -> Any:
        """Splits lists by comma or space, wherever they come from: "a,b", "a b", ["a", "b"] and
        ["a,b"] are equal.
        """
        field = cls.model_fields[info.field_name or ""]
        if value == "" and Path in (field.annotation, *get_args(field.annotation)):
            raise ValueError("should be a path")  # else it would be the current folder
        if get_origin(field.annotation) is not tuple:
            return value
        if isinstance(value, str):
            value = value.split()
        if not isinstance(value, list | tuple) or WithCommas() in field.metadata:
            return value
        parts = list[Any]()
        for entry in value:
            parts += _parts(entry) if isinstance(entry, str) else [entry]
        return parts


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
