"""Everything a user can set, with its unit and its default: a file for each topic. Imports nothing heavy.

Names follow TRL where TRL has the thing. `sources.py` resolves them: defaults < file < environment < flags.
"""

from swarm_node.settings.environment import EnvironmentConfig
from swarm_node.settings.guest import LimitsConfig
from swarm_node.settings.model import GenerationConfig, ModelConfig
from swarm_node.settings.network import NetworkConfig
from swarm_node.settings.programs import (
    AskConfig,
    BootstrapConfig,
    CheckConfig,
    CheckpointConfig,
    EvaluationConfig,
    LearningConfig,
    NodeConfig,
    ValidationConfig,
)
from swarm_node.settings.sections import Section
from swarm_node.settings.simulation import AttackConfig, FaultsConfig, SimulationConfig
from swarm_node.settings.training import AsynchronousConfig, DefenceConfig, RoundConfig, TrainingConfig

__all__ = [
    "AskConfig",
    "AsynchronousConfig",
    "AttackConfig",
    "BootstrapConfig",
    "CheckConfig",
    "CheckpointConfig",
    "DefenceConfig",
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
