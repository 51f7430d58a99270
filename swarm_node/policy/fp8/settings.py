"""The section `fp8`: linear layers that multiply in FP8."""

from typing import ClassVar, Literal

from swarm_node.settings import EvaluationConfig, LearningConfig
from swarm_node.settings.sections import Section


class Fp8Config(Section):
    """FP8 in all linear layers except the output head, with the fastest kernel that works here. A
    CPU emulates it.
    """

    serves: ClassVar[tuple[type[Section], ...]] = (LearningConfig, EvaluationConfig)

    precision: Literal["bf16", "fp8", "fp8_rollout"] = "bf16"
    """bf16: no FP8, so model.dtype decides. fp8: block-scaled FP8 for generation and training
    (Jet-RL). fp8_rollout: FP8 for generation only, for comparison; use it with training.objective
    truncated.
    """
