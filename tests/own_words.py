"""What a user has written, as several tests need it: a task of one's own, and a file of
questions.
"""

import json
from pathlib import Path

TASK = """
class Item:
    def __init__(self, index):
        self.prompt, self._answer = f"Repeat {index}", str(index)

    def score(self, text):
        return float(text.strip() == self._answer)


class Repeat:
    name, version, tasks = "repeat", "1", {"repeat": ["all"]}

    def build(self, dataset, config_id, seed, index):
        return Item(index)
"""


def written(folder: Path) -> dict[str, Path]:
    """Writes both into the folder. Returns where they are, and where a home may be made."""
    words, task = folder / "words.jsonl", folder / "my_task.py"
    rows = ({"question": f"{k} + 1?", "answer": str(k + 1)} for k in range(40))
    words.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    task.write_text(TASK)
    return {"home": folder / "home", "words": words, "task": task}
