"""Options that hold secrets: they never print what they hold."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import BaseModel, GetCoreSchemaHandler, SecretStr
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from swarm_node.common.redaction import HIDDEN

AUTO = "auto"  # in place of an address, where an option allows it
UNSHOWN = "unshown"  # kind of a mistake in an option whose value is not to be shown


class Secret(SecretStr):
    """A text that prints, and is written in reports, as `***`; as nothing where it is empty.
    `get_secret_value()` has the text.
    """

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """As SecretStr, but written to JSON as it prints."""
        return core_schema.no_info_plain_validator_function(
            cls._read,
            serialization=core_schema.plain_serializer_function_ser_schema(str, when_used="json"),
        )

    @classmethod
    def _read(cls, value: Any) -> "Secret":
        if isinstance(value, cls):
            return value
        if not isinstance(value, str):
            raise PydanticCustomError("string_type", "Input should be a valid string")
        return cls(value)

    def _display(self) -> str:
        return HIDDEN if self.get_secret_value() else ""

    def __bool__(self) -> bool:
        return bool(self.get_secret_value())


class SecretUrl(Secret):
    """The address of a server, which may hold user, password and, after the question mark, a key:
    these print as `***`, host and path as they are.
    """

    def __init__(self, secret_value: str) -> None:
        try:
            whole = bool(urlsplit(secret_value).netloc) or secret_value in ("", AUTO)
        except ValueError:
            whole = False
        if not whole:
            raise ValueError("should be the address of a server, such as http://127.0.0.1:8000")
        super().__init__(secret_value)

    def at(self, path: str) -> str:
        """The address of `path` on this server, without user and password, which `login` gives."""
        parts = urlsplit(self.get_secret_value())
        whole_path = parts.path.rstrip("/") + path
        return parts._replace(netloc=_host(parts), path=whole_path).geturl()

    @property
    def login(self) -> tuple[str, str] | None:
        """User and password of the address; None where it has none."""
        parts = urlsplit(self.get_secret_value())
        if "@" not in parts.netloc:
            return None
        return unquote(parts.username or ""), unquote(parts.password or "")

    def _display(self) -> str:
        text = self.get_secret_value()
        parts = urlsplit(text)
        # Without a scheme: a mistake, which is shown unless a password may be in it
        if not parts.netloc:
            return super()._display() if {*"@?#"} & {*text} else text
        if "@" in parts.netloc:
            parts = parts._replace(netloc=f"{HIDDEN}@{_host(parts)}")
        if parts.query:
            parts = parts._replace(query=HIDDEN)
        if parts.fragment:
            parts = parts._replace(fragment=HIDDEN)
        return parts.geturl()


def _host(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def revealed(config: BaseModel, **options: Any) -> dict[str, Any]:
    """The configuration as JSON can hold it, secrets included: only for a process of ours, over a
    pipe. `options` as for `model_dump`.
    """
    return {name: _revealed(value) for name, value in config.model_dump(**options).items()}


def _revealed(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Mapping):
        return {name: _revealed(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_revealed(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value
