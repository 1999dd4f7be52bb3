"""What `kafka-dump-log --index-sanity-check` finds wrong with an index."""

from pathlib import Path
from struct import pack

import pytest

from headwater.cli.kafka import dump_log


@pytest.mark.parametrize(
    ("suffix", "data", "fault"),
    [
        ("index", pack(">iiii", 5, 100, 9, 200), None),
        ("index", pack(">iiii", 5, 100, 9, 200) + bytes(16), None),  # set aside and not used
        ("index", pack(">iiii", 5, 100, -9, 200), "its last offset 91 is below the base offset 100"),
        ("index", bytes(9), "its size 9 is no multiple of 8"),
        ("timeindex", pack(">qiqi", 1000, 5, 2000, 9), None),
        ("timeindex", pack(">qiqi", 1000, 5, 2000, 9) + bytes(24), None),
        ("timeindex", b"", None),
        ("timeindex", pack(">qiqi", 1000, 5, 999, 9), "its last timestamp 999 is below its first, 1000"),
        ("timeindex", pack(">qiqi", 1000, 5, 2000, -1), "its last offset 99 is below the base offset 100"),
    ],
)
def test_an_index_that_a_broker_would_rebuild_does_not_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str, data: bytes, fault: str | None
) -> None:
    """Whatever stood in an index, it passed, if its size was right."""
    path = tmp_path / f"{100:020}.{suffix}"
    path.write_bytes(data)
    assert dump_log.script(["--files", str(path), "--index-sanity-check"]) == (0 if fault is None else 1)
    said = capsys.readouterr()
    assert said.out == f"Dumping {path}\n" + (f"{path} passed sanity check.\n" if fault is None else "")
    assert said.err == ("" if fault is None else f"{path} is corrupt: {fault}.\n")
