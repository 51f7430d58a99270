"""Everything a user can set, with its unit and its default: a file for each topic. Imports nothing heavy.

Names follow TRL where TRL has the thing. `command_line.py` resolves them: defaults < file < environment < flags.
"""

from swarm_node.settings.environment import EnvironmentConfig
from swarm_node.settings.model import GenerationConfig, ModelConfig
from swarm_node.settings.programs import (
    ArchiveConfig,
    AskConfig,
    AsynchronousConfig,
    BootstrapConfig,
    CheckConfig,
    CheckpointConfig,
    ContributeConfig,
    DefenceConfig,
    DoctorConfig,
    EvaluationConfig,
    LearningConfig,
    LimitsConfig,
    NetworkConfig,
    NodeConfig,
    RoundConfig,
    TrainingConfig,
    ValidationConfig,
)
from swarm_node.settings.sections import Section
from swarm_node.settings.simulation import AttackConfig, FaultsConfig, SimulationConfig

__all__ = [
    "ArchiveConfig",
    "AskConfig",
    "AsynchronousConfig",
    "AttackConfig",
    "BootstrapConfig",
    "CheckConfig",
    "CheckpointConfig",
    "ContributeConfig",
    "DefenceConfig",
    "DoctorConfig",
    "EnvironmentConfig",
    "EvaluationConfig",
    "FaultsConfig",
    "GenerationConfig",
    "LearningConfig",
    "LimitsConfig",
    "ModelConfig",
    "NetworkConfig",
    "NodeConfig",
    "RoundConfig",
    "Section",
    "SimulationConfig",
    "TrainingConfig",
    "ValidationConfig",
]
