"""The file of a state in LMDB: pages are used again, whoever has read it and died, and it grows."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import pytest

from headwater.base.errors import UserError
from headwater.streams.stores.lmdb import LmdbState
from headwater.streams.stores.state import ChangelogPartition, Owner

_KILLED_WHILE_IT_READS = """
import os, signal, sys
import lmdb

environment = lmdb.open(sys.argv[1], readonly=True, max_dbs=512)
reading = environment.begin()
os.kill(os.getpid(), signal.SIGKILL)
"""


def _size_after_writes(state: LmdbState, directory: Path) -> int:
    rows = state.map("counts")
    for _ in range(50):
        for key in range(100):
            rows.put(b"%d" % key, os.urandom(400))
        state.commit({})
    return (directory / "lmdb" / "data.mdb").stat().st_size


def test_pages_are_used_again_after_a_process_was_killed_while_it_read_them(tmp_path: Path) -> None:
    state = LmdbState(tmp_path)
    state.claim(Owner(1, 1))
    before = _size_after_writes(state, tmp_path)
    subprocess.run([sys.executable, "-c", _KILLED_WHILE_IT_READS, str(tmp_path / "lmdb")], check=False)
    assert _size_after_writes(state, tmp_path) < 2 * before
    state.close()


def test_a_damaged_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    """It ended in LMDB's own error, at each start again."""
    LmdbState(tmp_path).close()
    (tmp_path / "lmdb" / "data.mdb").write_bytes(bytes(8192))
    with pytest.raises(UserError, match=r"The LMDB state in .* cannot be opened") as told:
        LmdbState(tmp_path)
    assert told.value.hint.startswith(f"If it is damaged, delete {tmp_path / 'lmdb'}")


class _Full:
    """An environment in which nothing can be written until its map grows."""

    def __init__(self, environment: Any) -> None:
        self._environment = environment
        self._is_full = True

    def begin(self, *, write: bool = False) -> Any:
        if write:
            self._check()
        return self._environment.begin(write=write)

    def set_mapsize(self, size: int) -> None:
        self._environment.set_mapsize(size)
        self._is_full = False

    def _check(self) -> None:
        if self._is_full:
            raise lmdb.MapFullError

    def __getattr__(self, name: str) -> Any:
        return getattr(self._environment, name)


CHANGES: dict[str, Callable[[LmdbState], object]] = {
    "claim": lambda state: state.claim(Owner(1, 2)),
    "map": lambda state: state.map("another"),
    "wipe": lambda state: state.wipe(),
    "forget": lambda state: state.forget_rows_of("counts", [ChangelogPartition("changes", 0)]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_map_grows_whatever_finds_it_full(change: str, tmp_path: Path) -> None:
    """Only commits made it larger. A state whose map was full could not be claimed, nor forgotten."""
    state = LmdbState(tmp_path)
    state.claim(Owner(1, 1))
    state.map("counts").put(b"k", b"v")
    state.commit({ChangelogPartition("changes", 0): 7})
    state._environment = _Full(state._environment)
    CHANGES[change](state)
    is_gone = change in ("wipe", "forget")
    assert state.map("counts").get(b"k") == (None if is_gone else b"v")
    assert dict(state.positions) == ({} if is_gone else {ChangelogPartition("changes", 0): 7})
    with state.snapshot() as snapshot:
        assert snapshot
    state.close()
