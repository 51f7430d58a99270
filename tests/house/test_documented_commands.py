"""What the documentation tells to run is there, unless the line says at which commit it was."""

import re
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*ROOT.glob("*.md"), ROOT / "Makefile", *(ROOT / "docs").rglob("*.md")]
FOLDERS = ("benchmarks", "studies", "fuzzing")
GONE = re.compile(r"at commit [0-9a-f]{7}")  # a command that was deleted when its result had been written down
OURS = f"(?:{'|'.join(FOLDERS)})"


def documented(pattern: str) -> set[str]:
    lines = [line for document in DOCUMENTS for line in document.read_text().splitlines() if not GONE.search(line)]
    return set(re.findall(pattern, "\n".join(lines)))


def test_every_command_in_the_documents_is_a_module_that_runs() -> None:
    modules = documented(rf"python -m\s+(lab\.{OURS}\.\w+)")
    assert len(modules) > 15
    missing = {name for name in modules if (spec := find_spec(name)) is None or not runs(Path(str(spec.origin)))}
    assert missing == set()


def test_every_file_of_ours_in_the_documents_exists() -> None:
    files = documented(rf"(?<!tests/)\b(lab/{OURS}/\w+\.py)\b")
    assert len(files) > 4
    assert {name for name in files if not (ROOT / name).is_file()} == set()


def test_every_command_says_in_its_folder_that_it_is_there_and_is_run_as_it_says() -> None:
    """Its name is in the docstring of the folder, and what its own help and docstring call it is what it is."""
    for folder in FOLDERS:
        listed = (ROOT / "lab" / folder / "__init__.py").read_text()
        for file in (file for file in (ROOT / "lab" / folder).glob("*.py") if runs(file)):
            text = file.read_text()
            assert re.search(rf"\b{file.stem}\b", listed), file
            assert set(re.findall(rf"python -m (lab\.{OURS}\.\w+)", text)) <= {f"lab.{folder}.{file.stem}"}, file
            for made in re.findall(rf'parser\(\s*"(lab\.{OURS}\.\w+)"', text):
                assert made == f"lab.{folder}.{file.stem}", file


def runs(file: Path) -> bool:
    return '__name__ == "__main__"' in file.read_text()
