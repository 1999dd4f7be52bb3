"""Logs that move between the log directories of a broker: what is copied, when it takes the original's place, what a
crash leaves.
"""

import errno
from typing import Any

import pytest

from headwater.base.errors import KafkaError
from headwater.base.ids import TopicId, TopicPartition
from headwater.log import names
from headwater.log.compaction.cleaner import CleanerSettings
from headwater.log.config import LogConfig
from headwater.log.context import LogContext
from headwater.log.copying import Piece, copy_piece
from headwater.log.directory_moves import MoveSettings
from headwater.log.log import Log
from headwater.log.manager import LogManager
from headwater.records.builder import build_batch
from headwater.records.reader import Record, read_batches
from headwater.sim.clock import SimClock
from headwater.sim.disk import UNLIMITED, SimDisk, SimFile
from headwater.sim.dying import DyingDisk, DyingError
from headwater.sim.scheduler import SimRandom, SimScheduler

PARTITION = TopicPartition("topic", 0)
TOPIC_ID = TopicId(bytes(range(16)))
STEPS_MAX = 150


class Mover:
    """A broker's logs in two directories, on a disk that may die."""

    def __init__(self, seed: int = 1, **config: Any) -> None:
        self.clock = SimClock()
        self.disk = DyingDisk(seed)
        self.config = LogConfig(**{"segment_bytes": 700, "index_interval_bytes": 1, **config})
        self.moves = MoveSettings()
        self.sequence = 0
        self.open()
        self.log = self.manager.create(PARTITION, TOPIC_ID)
        self.source = self.home
        self.target = {"/a": "/b", "/b": "/a"}[self.source]

    def open(self) -> None:
        self.scheduler = SimScheduler(self.clock)
        context = LogContext(self.disk, self.scheduler, SimRandom(self.clock.now_ms()))
        self.manager = LogManager(
            context, ["/a", "/b"], lambda _: self.config, None, CleanerSettings, lambda: self.moves
        )
        self.manager.lock()
        self.manager.claim("cluster", 0)
        self.manager.open(lambda: None)

    @property
    def home(self) -> str:
        return self.manager.directory_of(PARTITION)

    def append(self, count: int = 1, epoch: int = 0) -> None:
        for _ in range(count):
            records = [Record(at, 1, b"key", b"%d" % self.sequence) for at in range(3)]
            batch = build_batch(records, producer_id=7, producer_epoch=0, base_sequence=self.sequence)
            self.log.append_as_leader(memoryview(batch), epoch, 1)
            self.sequence += 3

    def begin(self, path: str | None = None) -> None:
        directory = self.manager.directory_at(path or self.target)
        assert directory is not None
        self.manager.move(PARTITION, directory)

    def run(self) -> None:
        """Until nothing is due, files that wait for their removal included."""
        for _ in range(200):
            self.scheduler.run_due()
            self.disk.run()
            self.clock.advance(1_000)
            self.manager.tick(self.clock.now_ms(), self.clock.monotonic_ms())
            self.scheduler.run_due()
            self.disk.run()

    def restart(self, *, power_loss: bool) -> None:
        self.disk.left = None
        (self.disk.crash if power_loss else self.disk.kill)()
        self.open()
        self.scheduler.run_due()
        self.log = self.manager.logs[PARTITION]

    def names(self, path: str) -> list[str]:
        return [name for name in self.disk.list_directory(path) if name.startswith("topic")]


def contents(log: Log) -> list[bytes]:
    """Every batch that can be read, byte for byte."""
    found: list[bytes] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, 1 << 20, log.log_end_offset, min_one_batch=True)
        assert piece is not None
        data = piece.read()
        at = 0
        for _, header in read_batches(data):
            found.append(data[at : at + header.size_bytes])
            at += header.size_bytes
            offset = header.last_offset + 1
        piece.release()
    return found


def test_a_log_moves_with_all_that_belongs_to_it() -> None:
    mover = Mover()
    mover.append(10)
    mover.append(10, epoch=3)
    mover.log.delete_records_before(4)
    before, epochs = contents(mover.log), mover.log.epochs.entries
    log, end_offset = mover.log, mover.log.log_end_offset
    mover.begin()
    mover.run()
    assert mover.home == mover.target
    assert mover.manager.logs[PARTITION] is log
    assert mover.names(mover.source) == []
    assert mover.names(mover.target) == ["topic-0"]
    assert names.MOVED_FROM not in mover.disk.list_directory(f"{mover.target}/topic-0")
    assert (contents(log), log.epochs.entries, log.log_start_offset) == (before, epochs, 4)
    mover.append(5, epoch=3)  # the producer goes on where it was, and more segments follow
    assert log.log_end_offset == end_offset + 15
    mover.disk.run()
    mover.manager.close()
    mover.open()
    again = mover.manager.logs[PARTITION]
    assert (contents(again), again.epochs.entries) == (contents(log), epochs)
    assert (again.log_start_offset, again.log_end_offset, mover.home) == (4, end_offset + 15, mover.target)


def test_what_compaction_had_left_out_is_not_taken_for_lost_after_a_move() -> None:
    """The topic is compacted no more, and the process is killed before it writes down how far the log is on the other
    device.
    """
    mover = Mover()
    mover.append(20)
    first = mover.log.segments[0]
    file = first.open_file()
    file.truncate(first.find(3))
    mover.manager.cleaner.clean_to[PARTITION] = mover.log.segments[1].base_offset
    mover.run()
    mover.manager.close()
    mover.open()
    mover.log = mover.manager.logs[PARTITION]
    before = contents(mover.log)
    assert len(before) < 20
    mover.begin()
    while mover.home == mover.source:
        mover.scheduler.run_due()
        mover.disk.run()
    mover.restart(power_loss=False)
    assert mover.home == mover.target
    assert contents(mover.log) == before


def test_what_is_written_meanwhile_moves_too() -> None:
    mover = Mover()
    mover.append(20)
    mover.moves = MoveSettings(bytes_per_second=500)
    mover.begin()
    lags = []
    while mover.home == mover.source:
        mover.append()
        mover.clock.advance(10)
        mover.scheduler.run_one()
        mover.disk.run()
        lags += [move.lag for move in mover.manager.moves.under_way.values()]
    assert len(lags) > 3
    assert max(lags) > 40
    assert lags[-1] < 20
    mover.append(3)
    assert len(contents(mover.log)) * 3 == mover.sequence


def test_a_slice_in_flight_is_read_to_its_end() -> None:
    mover = Mover()
    mover.append(4)
    piece = mover.log.read(0, 1 << 20, 12, min_one_batch=True)
    assert piece is not None
    mover.begin()
    mover.run()
    assert len(list(read_batches(piece.read()))) == 4
    piece.release()
    mover.log.abandon()
    assert mover.disk.open_references == 0


@pytest.mark.parametrize("back", [False, True])
def test_asked_to_stay_it_stays(back: bool) -> None:
    mover = Mover()
    mover.append(20)
    mover.moves = MoveSettings(bytes_per_second=500)
    mover.begin()
    if back:  # a worker has begun by then
        mover.scheduler.run_one()
    mover.begin(mover.source)
    assert not mover.manager.moves.under_way
    mover.run()
    assert mover.home == mover.source
    assert mover.names(mover.target) == []


def test_a_move_that_is_asked_for_twice_is_one() -> None:
    mover = Mover()
    mover.append()
    mover.begin()
    move = mover.manager.moves.under_way[PARTITION]
    mover.begin()
    assert mover.manager.moves.under_way[PARTITION] is move


def test_a_truncated_log_is_copied_again() -> None:
    mover = Mover()
    mover.append(20)
    mover.moves = MoveSettings(bytes_per_second=500)
    mover.begin()
    for _ in range(3):
        mover.scheduler.run_one()
    assert mover.manager.moves.under_way[PARTITION].end_offset > 6
    mover.log.truncate_to(6)
    mover.sequence = 6
    mover.append(4, epoch=1)
    mover.run()
    assert mover.home == mover.target
    assert mover.names(mover.target) == ["topic-0"]
    assert [header.partition_leader_epoch for each in contents(mover.log) for _, header in read_batches(each)] == [
        0, 0, 1, 1, 1, 1,
    ]  # fmt: skip
    before = contents(mover.log)
    mover.restart(power_loss=False)
    assert contents(mover.log) == before


def test_what_retention_deletes_meanwhile_is_not_in_the_copy() -> None:
    mover = Mover(retention_bytes=1_000, retention_ms=-1)
    mover.append(20)
    mover.disk.run()
    mover.moves = MoveSettings(bytes_per_second=500)
    mover.begin()
    for _ in range(3):
        mover.scheduler.run_one()
    assert mover.log.apply_retention(1) > 0
    before = contents(mover.log)
    mover.run()
    assert mover.home == mover.target
    assert contents(mover.log) == before
    logs = [name for name in mover.disk.list_directory(f"{mover.target}/topic-0") if name.endswith(".log")]
    assert [names.offset_of(name) for name in logs] == mover.log.base_offsets


def test_a_deleted_log_moves_no_more() -> None:
    mover = Mover()
    mover.append(20)
    mover.moves = MoveSettings(bytes_per_second=500)
    mover.begin()
    mover.scheduler.run_one()
    mover.manager.delete(PARTITION)
    mover.run()
    assert mover.names("/a") == mover.names("/b") == []


def test_without_room_it_stays(caplog: pytest.LogCaptureFixture) -> None:
    mover = Mover()
    mover.append(20)
    mover.disk.faults.free_bytes = 64 << 20
    mover.begin()
    mover.run()
    mover.disk.faults.free_bytes = UNLIMITED
    assert mover.home == mover.source
    assert mover.manager.moves.failures == 1
    assert "event=log-not-moved" in caplog.text


def test_a_failed_copy_leaves_the_original_as_it_is() -> None:
    mover = Mover()
    mover.append(20)
    mover.disk.run()
    mover.disk.faults.syncs_to_fail = 1
    mover.begin()
    mover.run()
    assert mover.home == mover.source
    assert mover.names(mover.target) == []
    assert mover.log.failed is None
    mover.append()


def test_at_no_bytes_a_second_nothing_moves() -> None:
    mover = Mover()
    mover.append()
    mover.moves = MoveSettings(bytes_per_second=0)
    mover.begin()
    mover.run()
    assert mover.home == mover.source
    mover.moves = MoveSettings()
    mover.run()
    assert mover.home == mover.target


@pytest.mark.parametrize("flush_messages", [1, 1 << 62])
@pytest.mark.parametrize("power_loss", [False, True], ids=["killed", "power-loss"])
def test_dying_at_every_step_loses_nothing(power_loss: bool, flush_messages: int) -> None:
    deaths = set()
    for turn in range(2 * STEPS_MAX):
        step = turn // 2
        mover = Mover(seed=turn, flush_messages=flush_messages)
        mover.append(8)
        mover.append(4, epoch=2)
        mover.disk.run()
        mover.manager.write_checkpoints()
        mover.disk.run()
        mover.moves = MoveSettings(bytes_per_second=900)
        mover.begin()
        mover.disk.left = step
        ended = False
        try:
            for _ in range(20):
                mover.append(epoch=2)
                mover.scheduler.run_due()
                mover.disk.run(2)
                mover.clock.advance(20)
            mover.disk.run()
            ended = True
        except DyingError:
            pass
        written, promised = contents_of(mover), mover.log.recovery_point
        deaths.add(tuple(name.partition("-0")[2][-7:] for path in ("/a", "/b") for name in mover.names(path)))
        if ended:
            assert mover.home == mover.target
        mover.restart(power_loss=power_loss)
        kept = contents(mover.log)
        assert kept == written[: len(kept)]
        assert len(kept) * 3 >= (promised if power_loss else 3 * (len(written) - 1))
        mover.sequence = 3 * len(kept)
        mover.run()
        assert sorted(mover.names("/a") + mover.names("/b")) == ["topic-0"]
        assert mover.log.epochs.entries[0] == (0, 0)
        mover.append(2, epoch=5)
        assert contents(mover.log)[:-2] == kept
        if ended:
            break
    else:
        pytest.fail("the move takes more steps than are tried")
    before, between, after = ("", "-future"), ("-delete", "-future"), ("-delete", "")
    assert deaths >= {before, between, after}


def contents_of(mover: Mover) -> list[bytes]:
    mover.disk.left = None
    return contents(mover.log)


def test_a_copy_whose_original_is_offline_is_left_alone() -> None:
    mover = Mover()
    mover.append(20)
    mover.moves = MoveSettings(bytes_per_second=500)
    mover.begin()
    mover.scheduler.run_one()
    mover.scheduler.run_one()
    (copy,) = mover.names(mover.target)
    mover.disk.kill()
    mover.disk.write_file(f"{mover.source}/meta.properties", b"\x00\x01\x02")
    mover.open()
    assert mover.manager.failed_directories().keys() == {mover.source}
    mover.run()
    assert mover.names(mover.target) == [copy]
    assert not mover.manager.logs


def test_a_log_that_failed_is_not_moved() -> None:
    mover = Mover()
    mover.append()
    mover.begin()
    mover.log.fail(OSError(5, "Input/output error"))
    assert not mover.manager.moves.under_way
    with pytest.raises(KafkaError):
        mover.append()


def test_what_was_told_to_be_on_the_device_is_on_the_other_one() -> None:
    for seed in range(20):
        mover = Mover(seed, flush_messages=1)
        mover.append(8)
        mover.moves = MoveSettings(bytes_per_second=500)
        mover.begin()
        while mover.home == mover.source:
            mover.append()
            mover.disk.run()  # each is on the first device before the next step
            mover.scheduler.run_one()
        mover.disk.run()
        promised = mover.log.recovery_point
        assert promised == mover.log.log_end_offset
        mover.restart(power_loss=True)
        assert len(contents(mover.log)) * 3 >= promised


def test_power_loss_in_the_moment_of_the_change() -> None:
    for seed in range(40):
        mover = Mover(seed, flush_messages=1)
        mover.append(8)
        mover.moves = MoveSettings(bytes_per_second=500)
        mover.begin()
        while mover.home == mover.source:
            mover.append()
            mover.disk.run()
            promised = mover.log.recovery_point
            mover.scheduler.run_one()
        mover.disk.sync_directory_now("/a")
        mover.disk.sync_directory_now("/b")  # both names, and not yet what was copied last
        mover.restart(power_loss=True)
        assert mover.home == mover.target
        assert len(contents(mover.log)) * 3 >= promised


def test_a_flush_of_the_original_means_nothing_for_the_copy() -> None:
    mover = Mover(flush_messages=1)
    mover.append(8)
    mover.begin()
    mover.disk.run()
    mover.append()
    done: list[OSError | None] = []
    mover.log.flush(done.append)
    while mover.home == mover.source:
        mover.scheduler.run_one()
    mover.disk.faults.syncs_to_fail = 1
    mover.disk.run(1)  # the original's
    assert mover.log.recovery_point == 24
    assert done == []
    mover.run()
    assert (mover.log.failed, mover.log.recovery_point, done) == (None, 27, [None])


def test_a_batch_that_is_larger_than_the_pace_takes_several_rounds() -> None:
    mover = Mover(segment_bytes=1 << 20)
    batch = build_batch([Record(0, 1, b"key", bytes(range(250)) * 8)])
    mover.log.append_as_leader(memoryview(batch), 0, 1)
    mover.disk.run()
    mover.moves = MoveSettings(bytes_per_second=300)
    mover.begin()
    rounds = 0
    while mover.home == mover.source:
        mover.scheduler.run_one()
        rounds += 1
    assert rounds > 6
    assert contents(mover.log) == [bytes(batch)]


def test_a_copy_that_is_shorter_than_it_was_is_not_filled_with_zeroes() -> None:
    """Somebody has cut or removed the file in the other directory: the move fails, and the original stays."""
    disk = SimDisk()
    stem = names.segment_name(0)
    for directory in ("/a", "/b"):
        disk.make_directory(directory)
    disk.write_file(f"/a/{stem}{names.LOG}", b"records" * 10)
    with pytest.raises(OSError, match="has 0 bytes, and 35 were copied"):
        copy_piece(disk, "/a", "/b", Piece(0, 35, 70, is_whole=False), lambda _size: None, durable=True)
    disk.write_file(f"/b/{stem}{names.LOG}", b"records" * 5 + b"half of a job")
    assert copy_piece(disk, "/a", "/b", Piece(0, 35, 70, is_whole=False), lambda _size: None, durable=True)
    assert disk.read_file(f"/b/{stem}{names.LOG}") == b"records" * 10


def move_now(mover: Mover, path: str) -> None:
    """Nothing of it waits for the device."""
    mover.begin(path)
    for _ in range(10):
        mover.manager.moves.go_on()
        mover.scheduler.run_due()
    assert mover.home == path


@pytest.mark.parametrize("seed", range(24))
def test_what_a_killed_process_had_moved_is_on_the_device_before_the_original_goes(seed: int) -> None:
    """The start saw the copy under its new name, in the page cache, and removed the original or the mark. A power loss
    then left neither of the two, or both.
    """
    mover = Mover(seed)
    mover.append(6)
    mover.log.flush()
    mover.disk.run()
    before = contents(mover.log)
    move_now(mover, mover.target)
    mover.disk.run(seed % 4)
    mover.restart(power_loss=False)
    mover.disk.run(seed % 3)
    mover.restart(power_loss=True)
    assert contents(mover.log) == before
    mover.append(1)
    assert mover.log.log_end_offset == 21


@pytest.mark.parametrize("seed", range(48))
def test_a_log_that_moves_back_at_once_is_where_it_came_last(seed: int) -> None:
    """Both places had a mark, and the broker did not start; or the end of the first move took that of the second away,
    and the log was as it had been between them.
    """
    mover = Mover(seed, flush_messages=1)
    mover.append(6)
    mover.disk.run()
    move_now(mover, mover.target)
    mover.disk.run(seed % 8)
    mover.append(1)
    move_now(mover, mover.source)
    mover.append(1)
    mover.disk.run(seed // 8 * 3)
    promised = mover.log.recovery_point
    whole = contents(mover.log)
    mover.restart(power_loss=True)
    assert mover.log.log_end_offset >= promised
    assert contents(mover.log) == whole[: mover.log.log_end_offset // 3]


def test_a_move_that_runs_out_of_descriptors_at_its_end_leaves_none_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the copy that it had opened already, each time that it was tried."""
    mover = Mover(flush_messages=1)
    mover.append(8)
    mover.disk.run()
    mover.begin()
    mover.scheduler.run_one()  # a worker is about to copy what is there
    mover.append()
    mover.disk.run()
    move = mover.manager.moves.under_way[PARTITION]
    assert mover.log.recovery_point > move.end_offset
    before, open_file = mover.disk.open_references, mover.disk.open

    def limited(path: str, *, create: bool = False) -> SimFile:
        if path == f"{move.path}/{names.LEADER_EPOCH_CHECKPOINT}":
            raise OSError(errno.EMFILE, "Too many open files", path)
        return open_file(path, create=create)

    with monkeypatch.context() as patch:
        patch.setattr(mover.disk, "open", limited)
        while mover.manager.moves.under_way:
            mover.scheduler.run_one()
    assert mover.manager.moves.failures == 1
    assert mover.home == mover.source
    assert mover.disk.open_references == before


def test_the_producers_state_at_the_last_segments_beginning_is_on_the_other_device_before_what_is_older_goes() -> None:
    """It lies below the recovery point, and no flush looked at it."""
    for seed in range(12):
        mover = Mover(seed, segment_bytes=300)
        mover.append()
        while len(mover.log.segments) == 1:
            batch = build_batch([Record(0, 1, b"key", b"of nobody")])
            mover.log.append_as_leader(memoryview(batch), 0, 1)
        mover.log.flush()
        mover.disk.run()
        end_offset = mover.log.log_end_offset
        assert mover.log.recovery_point == end_offset > mover.log.active.base_offset
        mover.begin()
        while mover.home == mover.source:
            mover.scheduler.run_one()
        mover.log.delete_records_before(mover.log.active.base_offset)
        mover.manager.apply_retention(1)
        mover.disk.run()
        assert len(mover.log.segments) == 1
        mover.restart(power_loss=True)
        mover.sequence = 0
        mover.append()
        assert mover.log.log_end_offset == end_offset, seed
