"""Which questions a node can rebuild, as plain data that any of its processes can look up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from protocol.messages import Question

Tasks = Mapping[str, Sequence[str]]  # data set -> config ids


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Environment name -> its version and tasks."""

    environments: Mapping[str, tuple[str, Tasks]] = field(default_factory=dict)

    def knows(self, question: Question) -> bool:
        """Whether this node can rebuild the question: same version, known data set and config id."""
        version, tasks = self.environments.get(question.environment, ("", {}))
        return question.version == version and question.config_id in tasks.get(question.dataset, ())
