"""A task set that two agents play against each other."""

import verifiers.v1 as vf

__all__ = ["Duel", "DuelTaskset"]


class DuelTask(vf.Task[vf.TaskData]):
    """Scored by the environment."""

    @vf.reward
    async def nothing(self, trace: vf.Trace) -> float:
        """0."""
        return 0.0


class DuelConfig(vf.EnvConfig):
    """Two seats."""

    white: vf.AgentConfig = vf.AgentConfig()
    black: vf.AgentConfig = vf.AgentConfig()


class Duel(vf.Env[DuelConfig]):
    """Both say something."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        await agents.white.run(task)
        await agents.black.run(task)


class DuelTaskset(vf.Taskset[DuelTask, vf.TasksetConfig]):
    """One question."""

    def load(self) -> list[DuelTask]:
        return [DuelTask(vf.TaskData(prompt="Move."), self.config.task)]
