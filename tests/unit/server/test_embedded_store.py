"""The embedded metadata store on a disk that fails: changes are applied in order, after their sync, or not at all."""

import errno
import logging
from collections.abc import Sequence

import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.metadata.image import Change, ClusterImage, ProducerIdsReserved
from headwater.server.stores.embedded import EmbeddedStore
from headwater.sim.disk import SimDisk, SimFile

PATH = "/data/headwater.metadata"


class Bench:
    """A store on a simulated disk, and what it said."""

    def __init__(self, disk: SimDisk | None = None) -> None:
        self.disk = disk or SimDisk(seed=1)
        self.disk.make_directory("/data")
        self.disk.sync_directory_now("/")
        self.image = ClusterImage("cluster")
        self.store = EmbeddedStore(self.disk, "/data", self.image)
        self.store.load()
        self.outcomes: list[ErrorCode | None] = []

    def commit(self, next_producer_id: int) -> None:
        self.store.commit([ProducerIdsReserved(next_producer_id)], self._done)

    def _done(self, error: KafkaError | None) -> None:
        self.outcomes.append(None if error is None else error.code)


def test_nothing_is_applied_before_its_sync_and_all_in_order() -> None:
    bench = Bench()
    bench.commit(1000)
    bench.commit(2000)
    assert bench.image.next_producer_id == 0
    bench.disk.run(1)
    assert (bench.image.next_producer_id, bench.outcomes) == (1000, [None])
    bench.disk.run()
    assert (bench.image.next_producer_id, bench.outcomes) == (2000, [None, None])
    bench.disk.crash()
    assert Bench(bench.disk).image.next_producer_id == 2000


def test_a_full_disk_refuses_the_change_and_the_next_one_succeeds_when_there_is_room() -> None:
    bench = Bench()
    bench.commit(1000)
    bench.disk.run()
    bench.disk.faults.free_bytes = 5
    bench.commit(2000)
    bench.disk.run()
    assert bench.outcomes == [None, ErrorCode.KAFKA_STORAGE_ERROR]
    bench.disk.faults.free_bytes = 10_000
    bench.commit(3000)
    bench.disk.run()
    assert bench.outcomes[-1] is None
    assert Bench(bench.disk).image.next_producer_id == 3000


def test_what_a_full_disk_left_of_an_entry_does_not_stand_in_front_of_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel may take a part of a write and then neither the rest nor the truncation."""
    bench = Bench()
    bench.commit(1000)
    bench.disk.run()
    append, truncate = SimFile.append, SimFile.truncate

    def half(self: SimFile, data: bytes) -> None:
        append(self, bytes(data)[:7])
        raise OSError(errno.ENOSPC, "No space left on device")

    def stuck(self: SimFile, length: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(SimFile, "append", half)
        bench.commit(2000)
        bench.commit(3000)
        bench.disk.run()
        assert bench.outcomes[1:] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        patched.setattr(SimFile, "truncate", stuck)
        bench.commit(4000)
        bench.disk.run()
    bench.commit(5000)  # behind seven bytes of rubbish: refused until a restart has cut them
    bench.disk.run()
    assert bench.outcomes[3:] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert truncate is SimFile.truncate
    assert Bench(bench.disk).image.next_producer_id == 1000


def test_after_a_failed_sync_every_change_is_refused_also_when_the_file_cannot_be_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    bench.disk.faults.syncs_to_fail = 1

    def stuck(self: SimFile, length: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(SimFile, "truncate", stuck)
        bench.commit(1000)
        bench.commit(2000)
        bench.disk.run()
    bench.commit(3000)
    bench.disk.run()
    assert bench.outcomes == [ErrorCode.KAFKA_STORAGE_ERROR] * 3
    assert bench.image.next_producer_id == 0
    assert bench.store.failed is not None


def test_a_listener_that_breaks_does_not_stop_later_changes(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()

    def broken(_changes: Sequence[Change]) -> None:
        raise AssertionError("an invariant of ours")

    bench.store.on_applied = broken
    with caplog.at_level(logging.CRITICAL):
        bench.commit(1000)
        bench.commit(2000)
        bench.disk.run()
    assert bench.image.next_producer_id == 2000
    assert bench.outcomes == [None, None]


def test_an_answer_that_breaks_does_not_stop_later_changes(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()

    def broken(_error: KafkaError | None) -> None:
        raise AssertionError("an invariant of ours")

    with caplog.at_level(logging.CRITICAL):
        bench.store.commit([ProducerIdsReserved(1000)], broken)
        bench.commit(2000)
        bench.disk.run()
    assert bench.outcomes == [None]
    assert bench.image.next_producer_id == 2000


def test_a_metadata_file_that_cannot_be_read_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()

    def refused(self: SimDisk, path: str) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(SimDisk, "read_file", refused)
    with pytest.raises(UserError, match=PATH):
        Bench(bench.disk)


@pytest.mark.parametrize("seed", range(20))
def test_a_power_loss_keeps_what_was_confirmed(seed: int) -> None:
    bench = Bench(SimDisk(seed=seed))
    for number in range(1, 6):
        bench.commit(number * 1000)
        if number < 5:
            bench.disk.run()
    bench.disk.crash()
    assert Bench(bench.disk).image.next_producer_id in (4000, 5000)


def test_a_tail_that_was_cut_is_told(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.commit(1000)
    bench.commit(2000)
    bench.disk.run()
    whole = bench.disk.read_file(PATH)
    assert Bench(bench.disk).image.next_producer_id == 2000
    assert "metadata-tail-cut" not in caplog.text
    bench.disk.write_file(PATH, whole[:-1])
    assert Bench(bench.disk).image.next_producer_id == 1000
    assert f"event=metadata-tail-cut path={PATH} at={len(whole) // 2} bytes={len(whole) // 2 - 1}" in caplog.text
    assert len(bench.disk.read_file(PATH)) == len(whole) // 2


def test_a_flipped_bit_in_the_last_change_is_explained_and_nothing_is_cut() -> None:
    bench = Bench()
    bench.commit(1000)
    bench.commit(2000)
    bench.disk.run()
    whole = bench.disk.read_file(PATH)
    bench.disk.flip_bit(PATH, len(whole) - 5, 1)
    with pytest.raises(UserError, match="is damaged at byte"):
        Bench(bench.disk)
    assert len(bench.disk.read_file(PATH)) == len(whole)
