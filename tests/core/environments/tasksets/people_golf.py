"""A task set whose environment compares two attempts of one agent."""

import verifiers.v1 as vf

__all__ = ["Golf", "GolfTaskset"]


class GolfTask(vf.Task[vf.TaskData]):
    """Scored by the environment."""

    @vf.reward
    async def nothing(self, trace: vf.Trace) -> float:
        """0."""
        return 0.0


class Golf(vf.SingleAgentEnv):
    """The shorter of two attempts wins."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        await agents.agent.run(task)
        await agents.agent.run(task)

    async def finalize(self, task: vf.Task, episode: vf.Episode) -> None:
        shortest = min(episode.traces, key=lambda trace: len(trace.last_reply))
        shortest.record_reward("shortest", 1.0)


class GolfTaskset(vf.Taskset[GolfTask, vf.TasksetConfig]):
    """One question."""

    def load(self) -> list[GolfTask]:
        return [GolfTask(vf.TaskData(prompt="Print 1."), self.config.task)]
