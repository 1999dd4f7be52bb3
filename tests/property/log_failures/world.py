"""A log, a list as its model, and whatever a seed does to both: appends, truncations, moves, and failures of all kinds
between them.

What is done is chosen by weight (`_weighed`); what must hold then is in `model`.
"""

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from headwater.base.errors import KafkaError
from headwater.log.config import LogConfig
from headwater.log.log import Log
from headwater.records.builder import build_batch
from headwater.records.control import EndTransactionMarker, build_end_transaction_marker
from headwater.records.reader import Record
from property.log_failures.machine import PARTITION, Machine
from property.log_failures.model import ModelledLog
from property.log_failures.reading import Entry, marker_value

_PRODUCERS: Final = (1, 2, 3)  # of transactions
_IDEMPOTENT: Final = 4
_TELLS_LAST: Final = 14  # deeds, of a world that failed


class Kind(NamedTuple):
    """What a world has besides appends, truncations, full disks, lack of descriptors, kills and power losses."""

    name: str
    transactions: bool = False
    moves: bool = False  # between two log directories
    failed_syncs: bool = False


class LogWorld(ModelledLog):
    def __init__(self, kind: Kind, seed: int) -> None:
        self.kind = kind
        self.seed = seed
        self.chance = random.Random(seed)
        open_files_max = self.chance.choice([2, 3, 100])
        interval_bytes = self.chance.choice([1, 150, 4096])
        config = LogConfig(segment_bytes=600, index_interval_bytes=interval_bytes, retention_ms=10**15)
        super().__init__(Machine(seed, ["/data", "/more"] if kind.moves else ["/data"], open_files_max, config))
        self.count = 0  # of records: each has a value of its own
        self.done: list[str] = []
        self._deeds = self._weighed()

    def _weighed(self) -> dict[Callable[[], None], float]:
        elsewhere = 0.2 if self.kind.transactions else 1  # of a log that begins elsewhere less can be checked
        deeds: dict[Callable[[], None], float] = {
            self.append: 30,
            self.next_epoch: 3,
            self.flush: 8,
            self.disk_works: 8,
            self.checkpoint: 5,
            self.come_to_rest: 4,
            self.truncate: 6,
            self.begin_elsewhere: elsewhere,
            self.delete_records: elsewhere,
            self.descriptors: 4,
            self.room: 4,
            self.time_passes: 4,
            self.let_go: 3,
            self.kill: 2,
            self.lose_power: 3,
            self.stop: 2,
        }
        if self.kind.transactions:
            deeds |= {self.append_in_transaction: 12, self.end_transaction: 12, self.append_once: 6}
        if self.kind.moves:
            deeds |= {self.move: 3, self.move_goes_on: 14, self.stay: 0.3}
        if self.kind.failed_syncs:
            deeds[self.fail_sync] = 3
        return deeds

    def run(self, steps: int) -> None:
        for step in range(steps):
            try:
                self.step()
            except Exception as problem:
                problem.add_note(
                    f"log world {self.kind.name}:{self.seed}, step {step}, after {' '.join(self.done[-_TELLS_LAST:])}\n"
                    f"again: HEADWATER_LOG_WORLD={self.kind.name}:{self.seed} pytest tests/property/test_log_failures.py"
                )
                raise

    def step(self) -> None:
        ends_soon = self.sync_failed and self.chance.random() < 0.2  # before others have heard of a failed fsync, too
        if self.log.failed is not None or ends_soon:
            deed = self.chance.choice([self.kill, self.lose_power, self.stop])
        else:
            (deed,) = self.chance.choices(list(self._deeds), list(self._deeds.values()))
        self.done.append(deed.__name__)
        deed()
        self.check()

    # Appends

    def append(self) -> None:
        if self.chance.random() < 0.5:
            value = self._next_value()
            self._append_as_leader(value, build_batch([self._record(value)]))
            return
        offset, value = self.log.log_end_offset, self._next_value()
        records = [Record(offset, 1000 + self.count, b"k", value.encode())]
        batch = build_batch(records, base_offset=offset, partition_leader_epoch=self.epoch)
        self._try(value, lambda log, now_ms: log.append_as_follower(memoryview(batch), self.epoch, now_ms))

    def append_once(self) -> None:
        """By an idempotent producer, which goes on with what the log has of it."""
        producer = self.log.producers.producers.get(_IDEMPOTENT)
        sequence = producer.next_sequence if producer is not None else 0
        value = self._next_value()
        records = [self._record(value)]
        batch = build_batch(records, producer_id=_IDEMPOTENT, producer_epoch=0, base_sequence=sequence)
        self._append_as_leader(value, batch)

    def _append_as_leader(self, value: str, batch: bytearray) -> None:
        self._try(value, lambda log, now_ms: log.append_as_leader(memoryview(batch), self.epoch, now_ms))

    def append_in_transaction(self) -> None:
        value, producer_id = self._next_value(), self.chance.choice(_PRODUCERS)
        batch = build_batch([self._record(value)], producer_id=producer_id, producer_epoch=0, transactional=True)
        self._try(value, lambda log, now_ms: log.append_own(memoryview(batch), self.epoch, now_ms))

    def end_transaction(self) -> None:
        producer_id, committed = self.chance.choice(_PRODUCERS), self.chance.random() < 0.3
        marker = EndTransactionMarker(committed, 0)
        now_ms = self.machine.clock.now_ms()
        batch = build_end_transaction_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp=now_ms)
        self._try(
            marker_value(producer_id, committed),
            lambda log, now_ms: log.append_own(memoryview(batch), self.epoch, now_ms, marker),
        )

    def _record(self, value: str) -> Record:
        return Record(0, self.machine.clock.now_ms(), b"k", value.encode())

    def _next_value(self) -> str:
        self.count += 1
        return str(self.count)

    def _try(self, value: str, append: Callable[[Log, int], object]) -> None:
        """One that is refused has changed nothing."""
        entry = Entry(self.log.log_end_offset, self.epoch, value)
        self.ever.add(entry)
        with suppress(KafkaError):
            append(self.log, self.machine.clock.now_ms())
            self.model.append(entry)

    def next_epoch(self) -> None:
        self.epoch += 1

    # What else is done to a log

    def flush(self) -> None:
        self.log.flush()

    def disk_works(self) -> None:
        self.disk.run(self.chance.choice([1, 2, 5, None]))

    def checkpoint(self) -> None:
        self.machine.manager.write_checkpoints()

    def come_to_rest(self) -> None:
        """All is on the device and written down, as far as there is room for it: so truncations have something to take
        back.
        """
        self.log.flush()
        self.disk.run()
        self.machine.manager.write_checkpoints()
        self.disk.run()

    def time_passes(self) -> None:
        self.machine.pass_time(1000)

    def let_go(self) -> None:
        """A segment's file, as it happens where many are open."""
        self.chance.choice(self.log.segments).close()

    def truncate(self) -> None:
        log = self.log
        offset = self.chance.randint(max(log.log_start_offset, log.log_end_offset - 12), log.log_end_offset)
        with suppress(KafkaError):
            log.truncate_to(offset)
            self.model = [entry for entry in self.model if entry.offset < offset]
            self.flushed_to = min(self.flushed_to, offset)
            self.epoch += 1

    def begin_elsewhere(self) -> None:
        """It makes do with the descriptors that it has just let go of; this disk would refuse it those."""
        if not self.disk.has_descriptors:
            return
        log = self.log
        end = log.log_end_offset
        offset = self.chance.choice([end + 50, end, max(0, log.log_start_offset - 1)])
        with suppress(KafkaError):
            log.truncate_fully(offset)
            self.model = []
            self.start_offset = self.flushed_to = offset
            self.epoch += 1

    def delete_records(self) -> None:
        """The first segment's."""
        log = self.log
        if len(log.segments) > 1:
            with suppress(KafkaError, OSError):
                log.delete_records_before(log.base_offsets[1])
                log.apply_retention(self.machine.clock.now_ms())
            self.start_offset = log.log_start_offset
            self.model = [entry for entry in self.model if entry.offset >= self.start_offset]

    def move(self) -> None:
        manager = self.machine.manager
        here = manager.directory_of(PARTITION)
        manager.move(PARTITION, next(each for each in manager.directories if each.path != here))

    def stay(self) -> None:
        manager = self.machine.manager
        here = manager.directory_of(PARTITION)
        manager.move(PARTITION, next(each for each in manager.directories if each.path == here))

    def move_goes_on(self) -> None:
        self.machine.move_bytes_per_second = self.chance.choice([300, 700, 5000])
        self.machine.manager.moves.go_on()
        self.machine.scheduler.run_due()

    # Failures

    def descriptors(self) -> None:
        self.disk.has_descriptors = self.chance.random() < 0.5

    def room(self) -> None:
        self.disk.make_room()
        self.disk.others_fill_it = self.chance.random() < 0.3
        if self.chance.random() < 0.5:
            self.disk.faults.free_bytes = self.chance.choice([0, 50, 300])

    def fail_sync(self) -> None:
        """The next one, or at once the first of a flush."""
        self.disk.faults.syncs_to_fail = 1
        self.sync_failed = True
        if self.chance.random() < 0.5:
            self.log.flush()
            self.disk.run(1)

    def stop(self) -> None:
        self._some_room()
        self.end_and_start(self.machine.stop, loses_power=False)

    def kill(self) -> None:
        self._some_room()
        self.disk.faults.syncs_to_fail = 0
        self.end_and_start(self.machine.kill, loses_power=False)

    def lose_power(self) -> None:
        self._some_room()
        self.disk.faults.syncs_to_fail = 0
        self.end_and_start(self.machine.lose_power, loses_power=True)

    def _some_room(self) -> None:
        if self.chance.random() < 0.5:
            self.disk.make_room()
