"""A task set whose setup prepares a script of its reward, and loads what the reward compares with:
as one does that has its questions from the hub.
"""

from pathlib import Path

import verifiers.v1 as vf

__all__ = ["SumsTaskset"]

VERIFY = b"""# /// script
# dependencies = ["math-verify"]
# ///
import sys
from math_verify import parse, verify
right, said = sys.argv[1:]
print(float(verify(parse("$" + right + "$"), parse("$" + said.rpartition("####")[2] + "$"))))
"""


class SumsState(vf.State):
    """What the setup loads."""

    right: str = ""


class SumsData(vf.TaskData):
    """A question of a file."""

    answer: str


class SumsTask(vf.Task[SumsData, SumsState]):
    """Right is a number that is equal to the answer."""

    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        """Prepares the script, and loads the answer."""
        await runtime.prepare_uv_script(VERIFY)
        await runtime.write("/answer", self.data.answer.encode())
        trace.state.right = self.data.answer

    @vf.reward
    async def equal(self, trace: vf.Trace, runtime: vf.Runtime) -> float:
        """What the script prints."""
        right = (await runtime.read("/answer")).decode()
        assert right == trace.state.right
        done = await runtime.run_uv_script(VERIFY, args=[right, trace.last_reply])
        return float(done.stdout)


class SumsConfig(vf.TasksetConfig):
    """Where the questions are."""

    file: str = ""


class SumsTaskset(vf.Taskset[SumsTask, SumsConfig]):
    """The questions of a file, by the loader that gets them from the hub as well."""

    def load(self) -> list[SumsTask]:
        from datasets import load_dataset

        rows = load_dataset("json", data_files=str(Path(self.config.file)), split="train")
        return [
            SumsTask(
                SumsData(prompt=row["question"], answer=row["answer"].rpartition("#### ")[2]),
                self.config.task,
            )
            for row in rows
        ]
