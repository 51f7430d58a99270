"""The section `fp8`: linear layers that multiply in FP8."""

from typing import ClassVar, Literal

from swarm_node.settings import EvaluationConfig, LearningConfig
from swarm_node.settings.sections import Section


class Fp8Config(Section):
    """FP8 in all linear layers except the output head, by the fastest kernel that works here; a CPU
    emulates it.
    """

    serves: ClassVar[tuple[type[Section], ...]] = (LearningConfig, EvaluationConfig)

    precision: Literal["bf16", "fp8", "fp8_rollout"] = "bf16"
    """bf16: no FP8, as model.dtype says. fp8: block-scaled FP8 in generation and training (Jet-RL).
    fp8_rollout: FP8 in generation only, for comparison; choose training.objective truncated.
    """
