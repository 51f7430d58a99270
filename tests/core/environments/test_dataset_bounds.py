"""Files made to fill memory or to take for ever, and paths that are no regular files: each is
refused in one line, with little memory. Files and processes are real.
"""

import gzip
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.slow
MB = 1024 * 1024
PATIENCE = 200.0  # seconds before a process that never ends is killed


class Ended(NamedTuple):
    code: int
    line: str  # all that it wrote to standard error
    peak: int  # MB of the largest of its processes


# In a process of its own, as the memory of the parent counts as the child's until exec. The limit
# ends endless runs.
LAUNCH = """
import json, resource, subprocess, sys
resource.setrlimit(resource.RLIMIT_CPU, (100, 100))
command = [sys.executable, "-m", "swarm_node.commands.cli", "task", "try", *sys.argv[1:]]
done = subprocess.run(command, capture_output=True, text=True)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
print(json.dumps([done.returncode, done.stderr.strip(), peak]))
"""


def look(file: Path, *flags: str) -> Ended:
    """Runs `swarm-node task try` on the file: how it ended, and the memory it took."""
    command = [sys.executable, "-c", LAUNCH, str(file), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    return Ended(*json.loads(done.stdout))


def refused(file: Path, said: str, most: int = 350, *flags: str) -> None:
    """`task try` refuses the file with one line that contains `said`, and takes less than `most`
    MB.
    """
    ended = look(file, *flags)
    length = len(ended.line.replace(f"{file.parent}/", ""))
    assert ended.code == 2 and said in ended.line and "\n" not in ended.line and length < 300, ended
    assert ended.peak < most, ended


def holes(file: Path) -> None:
    """A gigabyte of zeros that takes no room on the disk."""
    with file.open("wb") as content:
        content.truncate(1024 * MB)


def open_quote(file: Path) -> None:
    file.write_bytes(b'prompt,answer\n"' + b"x\n" * (50 * MB))


def wide_header(file: Path) -> None:
    """A header of 400,002 columns: each row of two bytes would be filled up to as many."""
    file.write_bytes(b"prompt,answer" + b",x" * 400_000 + b"\n" + b"1\n" * 200_000)


def blank_lines(file: Path) -> None:
    file.write_bytes(b"\n" * (300 * MB))


def huge(file: Path) -> None:
    with file.open("wb") as content:
        content.truncate(1 << 42)


def huge_footer(file: Path) -> None:
    file.write_bytes(b"PAR1" + bytes(200 * MB) + (200 * MB).to_bytes(4, "little") + b"PAR1")


def packed(file: Path) -> None:
    file.write_bytes(gzip.compress(b'{"prompt": "x", "answer": "y"}\n' * 1_000_000))


def parquet_file(file: Path, columns: dict[str, object], **how: object) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(
        pyarrow.table(columns), file, compression="zstd", **how
    )


def repeated(text: str, count: int) -> object:
    """An Arrow array of `count` rows that takes the memory of one row, here and in a file."""
    pyarrow = pytest.importorskip("pyarrow")
    places = pyarrow.array([0] * count, pyarrow.int32())
    return pyarrow.DictionaryArray.from_arrays(places, pyarrow.array([text]))


def one_text(file: Path, kept: bool = True) -> None:
    """A file of 1 KB: 100,000 times the same megabyte. `kept`: its schema says to read it as a
    dictionary.
    """
    parquet_file(
        file, {"prompt": repeated("x" * MB, 100_000), "answer": ["1"] * 100_000}, store_schema=kept
    )
    assert file.stat().st_size < 2000


def one_plain_text(file: Path) -> None:
    one_text(file, kept=False)


def nulls(file: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    column = pyarrow.nulls(20_000_000, pyarrow.string())
    parquet_file(file, {"prompt": column, "answer": column})


def long_list(file: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    ends = pyarrow.array([0, 10_000_000], pyarrow.int32())
    prompts = pyarrow.ListArray.from_arrays(ends, pyarrow.nulls(10_000_000, pyarrow.string()))
    parquet_file(file, {"prompt": prompts, "answer": ["1"]})


def decoded_together(file: Path) -> None:
    parquet_file(
        file, {"prompt": repeated("x" * (40 * MB), 64), "answer": ["1"] * 64}, store_schema=False
    )


def odd_name(file: Path) -> None:
    file.write_text(json.dumps({"a\nb\x1b[2J": 1}))


BOMBS = [
    (holes, "csv", "a row is above 1 MB: it has no line break", 350),
    (open_quote, "csv", "a row is above 1 MB", 350),
    (wide_header, "csv", "a row has 400002 cells, and 1024 are the most", 350),
    *[
        (blank_lines, ending, "has more than 1000000 rows: use a part of it", 350)
        for ending in ("csv", "jsonl")
    ],
    (holes, "jsonl", "1 rows: row above 1 MB", 350),
    *[(huge, ending, "is above 1024 MB: use a part of it", 350) for ending in ("csv", "parquet")],
    (huge_footer, "parquet", "is not a Parquet file: its footer is above 16 MB", 350),
    (packed, "jsonl", "no JSON object", 350),
    *[
        (text, "parquet", "is above 1024 MB: use a part of it", 450)
        for text in (one_text, one_plain_text)
    ],
    (nulls, "parquet", "has more than 1000000 rows: use a part of it", 350),
    (long_list, "parquet", "1 rows: row above 1 MB", 500),
    (decoded_together, "parquet", "takes more than 1024 MB of memory: use a part of it", 1024),
    (odd_name, "jsonl", "its columns are a↵b?[2J", 350),
]


@pytest.mark.parametrize(("make", "ending", "said", "most"), BOMBS)
def test_a_file_made_to_fill_memory_is_refused(
    tmp_path: Path, make: Callable[[Path], None], ending: str, said: str, most: int
) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    file = tmp_path / f"bomb.{ending}"
    make(file)
    refused(file, said, most)


def listener(file: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(file))


def linked(to: str) -> Callable[[Path], None]:
    return lambda file: file.symlink_to(to)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize(
    "make", [os.mkfifo, listener, linked("/dev/zero"), linked("/dev/tty"), Path.mkdir]
)
def test_what_is_no_regular_file_is_refused_at_once(
    tmp_path: Path, make: Callable[[Path], None], ending: str
) -> None:
    from swarm_node.common.errors import UserError
    from swarm_node.environments.dataset import reading

    file = tmp_path / f"x.{ending}"
    make(file)
    with pytest.raises(
        UserError, match=r"cannot be read: (not a plain file|No such device|Is a directory)"
    ):
        list(reading.rows(str(file), {"prompt"}))


def test_a_pipe_is_refused_as_verifier(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "sums.jsonl").write_text('{"prompt": "1 + 1", "answer": "2"}\n')
    refused(
        tmp_path / "sums.jsonl",
        "cannot be read: not a plain file",
        350,
        "--verifier",
        f"{tmp_path}/pipe.py:x",
    )


def test_what_a_footer_does_not_say_is_counted_while_decoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [str(k) * (MB // 8) for k in range(10, 90)]
    parquet_file(tmp_path / "x.parquet", {"prompt": texts, "answer": texts}, row_group_size=8)
    from swarm_node.common.errors import UserError
    from swarm_node.environments.dataset import bounds, parquet, reading

    monkeypatch.setattr(parquet, "_check_claims", lambda *_: None)
    assert len(list(reading.rows(str(tmp_path / "x.parquet"), {"prompt"}))) == 80
    monkeypatch.setattr(bounds, "MAX_FILE_BYTES", 8 * MB)
    with pytest.raises(UserError, match="is above 8 MB: use a part of it"):
        list(reading.rows(str(tmp_path / "x.parquet"), {"prompt"}))


def test_columns_that_no_question_needs_cost_nothing(tmp_path: Path) -> None:
    """This holds for a column of any decompressed size."""
    rows = {
        "prompt": [f"{k} + 1" for k in range(5000)],
        "answer": [str(k + 1) for k in range(5000)],
    }
    parquet_file(tmp_path / "x.parquet", {**rows, "thoughts": repeated("x" * MB, 5000)})
    ended = look(tmp_path / "x.parquet")
    assert ended.code == 0 and ended.peak < 350, ended


def test_answers_nested_as_deep_as_json_goes_are_left_out(tmp_path: Path) -> None:
    """At every depth, as there is a depth that can be read and cannot be written again."""
    lines = [
        f'{{"prompt": "{depth}", "answer": {"[" * depth + "]" * depth}}}'
        for depth in range(20, 1100)
    ]
    prompts = [
        f'{{"prompt": {"[" * depth + "1" + "]" * depth}, "answer": "1"}}'
        for depth in range(900, 1100)
    ]
    file = tmp_path / "x.jsonl"
    file.write_text("\n".join([*lines, *prompts, json.dumps({"prompt": "a", "answer": "b"})]))
    ended = look(file)
    assert (ended.code, ended.line) == (0, "")
