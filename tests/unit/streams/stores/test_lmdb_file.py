"""The file of a state in LMDB: pages are used again, whoever has read it and died."""

import os
import subprocess
import sys
from pathlib import Path

from headwater.streams.stores.lmdb import LmdbState
from headwater.streams.stores.state import Owner

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
