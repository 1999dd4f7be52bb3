"""What `kafka-dump-log` finds wrong with an index."""

from pathlib import Path
from struct import pack

import pytest

from headwater.cli.kafka import dump_log
from headwater.records.builder import build_batch
from headwater.records.reader import Record


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


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ([(1000, 1), (2000, 3)], ""),
        ([(1000, 1), (2001, 3)], "Found timestamp mismatch in :{path}\n  Index timestamp: 2001, log timestamp: 2000\n"),
        (
            [(1000, 1), (2000, 2), (2000, 9)],
            "The following indexed offsets are not found in the log.\n"
            "Indexed offset: 102, found log offset: 103\nIndexed offset: 109, found log offset: -1\n",
        ),
        (
            [(3000, 1), (2000, 3)],
            "Found timestamp mismatch in :{path}\n  Index timestamp: 3000, log timestamp: 1000\n"
            "Found out of order timestamp in :{path}\n"
            "  Index timestamp: 2000, Previously indexed timestamp: 3000\n",
        ),
    ],
)
@pytest.mark.parametrize("verify_only", [False, True])
def test_a_time_index_is_compared_with_its_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], entries: list[tuple[int, int]], told: str, *, verify_only: bool
) -> None:
    """`--verify-index-only` found nothing wrong with any time index."""
    log = b""
    for base_offset, timestamp in ((100, 1000), (102, 2000)):
        batch = build_batch([Record(at, timestamp - 1 + at, None, b"v", ()) for at in range(2)], codec=0)
        log += base_offset.to_bytes(8, "big") + batch[8:]
    path = tmp_path / f"{100:020}.timeindex"
    path.with_suffix(".log").write_bytes(log)
    path.write_bytes(b"".join(pack(">qi", *entry) for entry in entries))
    more = ["--verify-index-only"] if verify_only else []
    assert dump_log.script(["--files", str(path), *more]) == 0
    said = capsys.readouterr()
    assert said.err == told.format(path=path)
    assert said.out.count("timestamp: ") == (0 if verify_only else len(entries))
