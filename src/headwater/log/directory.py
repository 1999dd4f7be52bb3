"""One log directory (`log.dirs` has one or more): its lock, its identity and the checkpoints that all its logs share.

`meta.properties` says whose directory it is; one of another cluster or broker is refused. The checkpoints hold, for
each partition, the recovery point, the log start offset where it is not simply the first segment's, and the high
watermark. `.kafka_cleanshutdown` is written last of all at a clean shutdown and taken away before anything is changed;
the checksums in it tell whether the checkpoints are as they were left. One that is not counts as empty.

`.headwater_syncfailed` says that an fsync failed: the kernel may hold pages that never reached the device and look
well. The next start reads what it recovers from the device itself. Owned by the manager.
"""

import logging
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import partial

from headwater.base.checksum import crc32c
from headwater.base.errors import UserError
from headwater.base.ids import TopicPartition
from headwater.base.ports import Disk, Random, Replace, SyncDirectory
from headwater.log import names
from headwater.log.checkpoint import (
    CheckpointError,
    CleanShutdown,
    Offsets,
    format_clean_shutdown,
    format_offsets,
    format_properties,
    parse_clean_shutdown,
    parse_offsets,
    parse_properties,
    read_if_present,
)

logger = logging.getLogger("headwater.log")


class UnusableDirectoryError(UserError):
    """Something is wrong with this directory alone: a broker that has others goes on without it."""


class LogDirectory:
    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self.problem: str | None = None  # why it is offline: nothing is read or written there until a restart
        self.clean = False  # whether the last owner shut down cleanly
        self.last_broker_epoch = -1
        self.epochs_crc: Mapping[str, int] = {}  # of each log's leader epochs, as that owner left them
        self.lacks_checkpoint = False  # of recovery points: it is gone or damaged, and with it the list of logs
        self._is_damaged = False  # one of the checkpoints cannot be read
        self.is_distrusted = False  # an fsync has failed here, and nobody has looked since
        self.adopted = False  # Apache Kafka 4 made it: its topics may have settings that are not known here
        self.recovery_points: Offsets = {}  # in the file, there is none past these, nor will be
        self.synced_recovery_points: Offsets = {}  # in the file on the device, there is none below these
        self.log_start_offsets: Offsets = {}
        self.high_watermarks: Offsets = {}
        self.cleaner_offsets: Offsets = {}  # below it, a log is compacted; all that may stand in the file
        self.mentioned: set[TopicPartition] = set()  # whose offsets may stand in a checkpoint on the disk
        self._written: dict[str, bytes] = {}  # what each checkpoint held when we last wrote it
        self._in_flight: dict[str, bool] = {}  # being written off the loop; whether it is still wanted then

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def take_offline(self, error: Exception) -> None:
        if self.problem is None:
            self.problem = _reason(error)
            logger.error("event=log-directory-offline path=%s reason=%r", self.path, self.problem)

    def lock(self) -> None:
        """Raises UserError if another process has it, OSError if it cannot be used."""
        try:
            self._disk.make_directory(self.path)
            self._disk.lock(self._file(names.LOCK))
        except BlockingIOError:
            raise UserError(
                f"The log directory {self.path} is in use",
                "another broker (Headwater or Apache Kafka) holds its lock",
                "stop that one, or set log.dirs to another directory",
            ) from None

    def unlock(self) -> None:
        self._disk.unlock(self._file(names.LOCK))

    # Identity

    def read_identity(self) -> dict[str, str]:
        """`meta.properties` with `broker.id` filled in whatever its version; empty if there is none."""
        text = read_if_present(self._disk, self._file(names.META_PROPERTIES))
        properties = parse_properties(text) if text else {}
        if (properties or (text and text.strip())) and properties.get("version") not in ("0", "1"):
            raise UnusableDirectoryError(
                f"{self._file(names.META_PROPERTIES)} has version {properties.get('version')}",
                "only 0 and 1 are known",
                "was it written by a later version, or damaged?",
            )
        if "node.id" in properties:
            properties.setdefault("broker.id", properties["node.id"])
        return properties

    def claim(self, cluster_id: str, broker_id: int, random: Random) -> None:
        """Checks that the directory is ours, or makes it so."""
        found = self.read_identity()
        for name, ours in (("cluster.id", cluster_id), ("broker.id", str(broker_id))):
            if found.get(name, ours) != ours:
                raise UserError(
                    f"The log directory {self.path} belongs to another {name.replace('.id', '')}",
                    f"its meta.properties has {name}={found[name]}, this broker has {ours}",
                    f"use another log.dirs, or set the {name} that it was made for",
                )
        self.adopted = found.get("version") == "1"
        if not found:
            properties = {
                "version": "0",
                "broker.id": str(broker_id),
                "cluster.id": cluster_id,
                "directory.id": urlsafe_b64encode(random.bytes(16)).rstrip(b"=").decode(),
            }
            self._disk.write_file(self._file(names.META_PROPERTIES), format_properties(properties))
            self._disk.sync_directory_now(self.path.rpartition("/")[0] or "/")

    # Checkpoints

    def load(self) -> None:
        """Reads the checkpoints, and takes the clean-shutdown mark away for good."""
        mark = self._read_mark()
        self.clean = mark is not None
        self.is_distrusted = self._disk.exists(self._file(names.SYNC_FAILED))
        expected: Mapping[str, int] = {}
        if mark is not None:
            self.last_broker_epoch = mark.broker_epoch
            self.epochs_crc = mark.epochs
            expected = mark.checkpoints
        self.recovery_points = self._offsets(names.RECOVERY_POINT_CHECKPOINT, expected)
        self.log_start_offsets = self._offsets(names.LOG_START_OFFSET_CHECKPOINT, expected)
        self.high_watermarks = self._offsets(names.REPLICATION_OFFSET_CHECKPOINT, expected)
        self.cleaner_offsets = self._offsets(names.CLEANER_OFFSET_CHECKPOINT, expected)
        self.mentioned = {*self.recovery_points, *self.log_start_offsets}
        if self._disk.exists(self._file(names.CLEAN_SHUTDOWN)):
            self._disk.remove(self._file(names.CLEAN_SHUTDOWN))
            self._disk.sync_directory_now(self.path)

    def _read_mark(self) -> CleanShutdown | None:
        text = read_if_present(self._disk, self._file(names.CLEAN_SHUTDOWN))
        if text is None:
            return None
        mark = parse_clean_shutdown(text)
        if mark is None:
            logger.error("event=file-damaged path=%s note='all logs are looked at'", self._file(names.CLEAN_SHUTDOWN))
        return mark

    def _offsets(self, name: str, expected: Mapping[str, int]) -> Offsets:
        text = read_if_present(self._disk, self._file(name))
        is_needed = name == names.RECOVERY_POINT_CHECKPOINT
        if text is None:
            self.lacks_checkpoint |= is_needed
            return {}
        try:
            if name in expected and crc32c(text) != expected[name]:
                raise CheckpointError("it has changed since the last shutdown")
            return parse_offsets(text)
        except CheckpointError as error:
            logger.error("event=checkpoint-unusable path=%s reason=%r", self._file(name), str(error))
            self.lacks_checkpoint |= is_needed
            self._is_damaged = True
            return {}

    @property
    def knows_compaction(self) -> bool:
        """Whether all gaps that compaction has made lie below the recovery points and cleaner offsets that were read.

        Our cleaner leaves alone what lies past the recovery point on the device. Apache Kafka's does not, and a
        checkpoint that is gone or damaged tells nothing. A new directory has none yet, and nothing in it was compacted.
        """
        is_lost = self.lacks_checkpoint and bool(self.cleaner_offsets)
        return not (self.adopted or self._is_damaged or is_lost)

    def checkpoint(self, name: str, offsets: Offsets) -> None:
        """Writes one if it has changed, off the loop. Skipped while the last one is still being written."""
        data = format_offsets(offsets)
        self._expect(name, offsets)
        if self._written.get(name) != data and name not in self._in_flight:
            self._submit(name, data, offsets)

    def _submit(self, name: str, data: bytes, offsets: Offsets) -> None:
        """It is made beside, and put in its place by the loop: never over one that was written meanwhile."""
        self._in_flight[name] = True
        self._disk.submit(Replace(self._file(name + names.NEXT), data), partial(self._made, name, data, offsets))

    def _made(self, name: str, data: bytes, offsets: Offsets, error: OSError | None) -> None:
        is_wanted = self._in_flight.pop(name)
        try:
            if error is not None:
                raise error
            if is_wanted:
                self._disk.rename(self._file(name + names.NEXT), self._file(name))
                self._written[name] = data
                self._disk.submit(SyncDirectory(self.path), partial(self._synced, name, data, offsets))
            else:
                self._disk.remove(self._file(name + names.NEXT))
        except OSError as problem:
            logger.error("event=checkpoint-failed path=%s error=%r", self._file(name), str(problem))

    def _synced(self, name: str, data: bytes, offsets: Offsets, error: OSError | None) -> None:
        """Until then, an older one may come back after a power loss."""
        if error is None and name == names.RECOVERY_POINT_CHECKPOINT and self._written.get(name) == data:
            self.synced_recovery_points = offsets

    def checkpoint_now(self, name: str, offsets: Offsets) -> None:
        """At shutdown, and where nothing may go on before it is on the device. Raises OSError."""
        data = format_offsets(offsets)
        self._expect(name, offsets)
        if name in self._in_flight:
            self._in_flight[name] = False
        self._disk.write_file(self._file(name), data)
        self._written[name] = data
        if name == names.RECOVERY_POINT_CHECKPOINT:
            self.recovery_points = self.synced_recovery_points = offsets

    def _expect(self, name: str, offsets: Offsets) -> None:
        """They may come into the file, or what it has may stay there: the disk may be full."""
        self.mentioned |= offsets.keys()
        if name == names.RECOVERY_POINT_CHECKPOINT:
            before = self.recovery_points
            self.recovery_points = {
                partition: max(offset, before.get(partition, 0)) for partition, offset in offsets.items()
            }
        elif name == names.CLEANER_OFFSET_CHECKPOINT:
            self.cleaner_offsets = {**self.cleaner_offsets, **offsets}

    def mentions(self, partition: TopicPartition) -> bool:
        return partition in self.mentioned

    def mark_clean(self, broker_epoch: int, epochs_crc: Mapping[str, int]) -> None:
        """Everything in the directory is on the device: the last thing that is written."""
        checkpoints = {name: crc32c(data) for name, data in self._written.items()}
        mark = CleanShutdown(broker_epoch, checkpoints, epochs_crc)
        self._disk.write_file(self._file(names.CLEAN_SHUTDOWN), format_clean_shutdown(mark))

    # After a failed fsync

    def distrust(self) -> None:
        """For the next start. It need not reach the device: what it warns of does not outlive the kernel either."""
        mark = self._file(names.SYNC_FAILED)
        try:
            try:
                self._disk.write_file(mark, b"", durable=False)
            except OSError:  # that takes a descriptor
                self._disk.make_empty_file(mark)
        except OSError as error:
            logger.error("event=sync-failure-not-noted path=%s error=%r", self.path, str(error))

    def believe(self) -> None:
        self.is_distrusted = False
        try:
            self._disk.remove(self._file(names.SYNC_FAILED))
        except OSError as error:
            logger.error("event=file-not-removed path=%s error=%r", self._file(names.SYNC_FAILED), str(error))


def _reason(error: Exception) -> str:
    if isinstance(error, UserError):
        return f"{error.what}: {error.why}"
    return str(error) or type(error).__name__
