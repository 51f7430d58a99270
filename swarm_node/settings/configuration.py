"""The base of the configurations of those commands that run something.

It adds two things to a section. A script that makes one gets its mistakes in one line, as the
command line tells them. And it takes sections that other packages bring (`plugged.py`): pydantic
keeps them as extra values, and this class lets each be checked by its own class. Any other name
that no field has is refused, as in every section.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import (
    ConfigDict,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from swarm_node.settings.mistakes import WrongOption, in_one_line, told_to_a_script
from swarm_node.settings.options import by_present_names
from swarm_node.settings.plugged import plugged_sections
from swarm_node.settings.sections import Section


class Configuration(Section):
    """Base of a configuration that a script can make, and that takes sections of packages."""

    takes_plugged_sections: ClassVar[bool] = True
    model_config = ConfigDict(extra="allow")  # `_check_others` refuses all but plugged sections

    if not TYPE_CHECKING:  # a type checker knows the keywords by the fields

        def __init__(self, **values: Any) -> None:
            """Makes it of sections and options. WrongOption, in one line, for a mistake."""
            try:
                super().__init__(**values)
            except ValidationError as error:
                problems = error.errors(include_url=False)
                told = (told_to_a_script(type(self), problem) for problem in problems)
                raise WrongOption(in_one_line(told)) from None

        # So pydantic makes objects without it where it reads JSON: with its own error, and context
        __init__.__pydantic_base_init__ = True

    @model_validator(mode="wrap")
    @classmethod
    def _check_others(
        cls, values: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        """Checks what no field takes, too: a section of a package, or a wrong name."""
        if not isinstance(values, Mapping) or values.keys() <= cls.model_fields.keys():
            return handler(values)
        values = by_present_names(cls, values)
        others = {name: values[name] for name in values if name not in cls.model_fields}
        whole, problems = dict(values), list[InitErrorDetails]()
        for name, value in others.items():
            section = plugged_sections(cls).get(name)
            if section is None:
                problems.append(_problem("extra_forbidden", "No such name", (name,), value))
                continue
            try:
                whole[name] = section.model_validate(value, context=info.context)
            except ValidationError as error:
                problems += _within(error, name)
        try:
            made = handler(whole)
        except ValidationError as error:
            problems = [*_within(error), *problems]
        if problems:
            raise ValidationError.from_exception_data(cls.__name__, problems)
        return made


def _within(error: ValidationError, *place: str) -> list[InitErrorDetails]:
    """The problems of an error, at their places within this one."""
    found = error.errors(include_url=False)
    return [_problem(one["type"], one["msg"], (*place, *one["loc"]), one["input"]) for one in found]


def _problem(kind: str, text: str, place: tuple[str | int, ...], value: Any) -> InitErrorDetails:
    return InitErrorDetails(type=PydanticCustomError(kind, text), loc=place, input=value)
