"""Everything a user can set, with its unit and its default: a module for each topic. Imports
nothing heavy.

`programs.py` lists the sections of each command's configuration; options that TRL has too have its
names. `command_line.py` says where values come from, and which are stronger: defaults < home < file
< variables < flags.
"""

from swarm_node.settings.configuration import Configuration as Configuration
from swarm_node.settings.contribute import ContributeConfig as ContributeConfig
from swarm_node.settings.limits import LimitsConfig as LimitsConfig
from swarm_node.settings.manifest import JoiningConfig as JoiningConfig
from swarm_node.settings.model import NO_TEMPLATE as NO_TEMPLATE
from swarm_node.settings.model import Fp8Config as Fp8Config
from swarm_node.settings.model import GenerationConfig as GenerationConfig
from swarm_node.settings.model import ModelConfig as ModelConfig
from swarm_node.settings.network import NetworkConfig as NetworkConfig
from swarm_node.settings.page import ObservedConfig as ObservedConfig
from swarm_node.settings.page import PageConfig as PageConfig
from swarm_node.settings.plugged import part_of as part_of
from swarm_node.settings.plugged import section_of as section_of
from swarm_node.settings.programs import ArchiveConfig as ArchiveConfig
from swarm_node.settings.programs import AskConfig as AskConfig
from swarm_node.settings.programs import BootstrapConfig as BootstrapConfig
from swarm_node.settings.programs import CheckConfig as CheckConfig
from swarm_node.settings.programs import DoctorConfig as DoctorConfig
from swarm_node.settings.programs import EvaluationConfig as EvaluationConfig
from swarm_node.settings.programs import LearningConfig as LearningConfig
from swarm_node.settings.programs import NodeConfig as NodeConfig
from swarm_node.settings.programs import StatusConfig as StatusConfig
from swarm_node.settings.programs import WithObservers as WithObservers
from swarm_node.settings.programs import WithQuestions as WithQuestions
from swarm_node.settings.questions import DatasetConfig as DatasetConfig
from swarm_node.settings.questions import EnvironmentConfig as EnvironmentConfig
from swarm_node.settings.questions import TasksetConfig as TasksetConfig
from swarm_node.settings.questions import TemporalClueConfig as TemporalClueConfig
from swarm_node.settings.sections import Section as Section
from swarm_node.settings.simulation import SimulationConfig as SimulationConfig
from swarm_node.settings.training import MICRO_BATCH as MICRO_BATCH
from swarm_node.settings.training import AsynchronousConfig as AsynchronousConfig
from swarm_node.settings.training import CheckpointConfig as CheckpointConfig
from swarm_node.settings.training import DefenceConfig as DefenceConfig
from swarm_node.settings.training import RoundConfig as RoundConfig
from swarm_node.settings.training import TrainingConfig as TrainingConfig
from swarm_node.settings.training import ValidationConfig as ValidationConfig
from swarm_node.settings.vllm import VllmConfig as VllmConfig
