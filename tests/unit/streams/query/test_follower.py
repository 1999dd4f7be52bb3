"""RocksDB as another process writes it, read by `stream serve`."""

from pathlib import Path

import pytest

from headwater.streams.query.readable import NotReady
from headwater.streams.query.state_reader import Follower
from headwater.streams.stores.rocksdb import RocksState


def test_files_that_go_while_they_are_read_are_asked_for_again(tmp_path: Path) -> None:
    state = RocksState(tmp_path)
    state.map("counts").put(b"a", b"1")
    state.commit({})
    follower = Follower(tmp_path)
    assert follower.snapshot().map("counts").get(b"a") == b"1"
    current = tmp_path / "rocksdb" / "CURRENT"
    current.rename(tmp_path / "kept")
    with pytest.raises(NotReady):
        follower.snapshot()
    (tmp_path / "kept").rename(current)
    assert follower.snapshot().map("counts").get(b"a") == b"1"
    follower.close()
    state.close()
