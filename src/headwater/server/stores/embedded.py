"""The metadata store of a broker that stands alone: one file of entries beside the partitions.

The file is `headwater.metadata` in the first log directory; metadata/journal.py describes its bytes. Every commit is
appended and synced before it is applied. At start the file is read once, and written anew when most of it is history.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicId
from headwater.base.ports import Disk, File, Sync
from headwater.metadata.image import Change, ClusterImage, PartitionChanged, ProducerIdsReserved
from headwater.metadata.journal import decode_entries, encode_entry, snapshot

FILE_NAME: Final = "headwater.metadata"
_REWRITE_FROM_BYTES: Final = 1 << 20

logger = logging.getLogger("headwater.server")


class EmbeddedStore:
    """Owned by the broker's loop. Commits are synced one after the other, in the order they came."""

    def __init__(self, disk: Disk, directory: str, image: ClusterImage) -> None:
        self._disk = disk
        self._path = f"{directory}/{FILE_NAME}"
        self._image = image
        self._file: File | None = None
        self._queue: list[tuple[Sequence[Change], Callable[[KafkaError | None], None]]] = []
        self._busy = False
        self._size = 0  # up to the last whole entry
        self.is_new = True  # there was no file
        self.failed: KafkaError | None = None
        self.on_applied: Callable[[Sequence[Change]], None] = lambda _changes: None

    def load(self) -> None:
        """Reads what was committed into the image; cuts a torn tail. Raises UserError."""
        try:
            self._load()
        except OSError as problem:
            raise UserError(
                f"The metadata file {self._path} cannot be used", str(problem), "check the directory and its disk"
            ) from None

    def _load(self) -> None:
        disk = self._disk
        self.is_new = not disk.exists(self._path)
        data = b"" if self.is_new else disk.read_file(self._path)
        end = 0
        for entry_end, changes in decode_entries(data, self._path):
            end = entry_end
            for change in changes:
                self._image.apply(change)
        if end > _REWRITE_FROM_BYTES:
            compact = encode_entry(snapshot(self._image))
            if len(compact) < end // 2:
                disk.write_file(self._path, compact)
                end = len(compact)
        self._file = disk.open(self._path, create=True)
        if self.is_new:  # syncs of the file keep its bytes, not its name
            disk.sync_directory_now(self._path.rpartition("/")[0])
        torn_bytes = self._file.size() - end
        if torn_bytes > 0:
            logger.warning(
                "event=metadata-tail-cut path=%s at=%d bytes=%d note='a change that a crash has cut short; nobody was told of it'",
                self._path, end, torn_bytes,
            )  # fmt: skip
            self._file.truncate(end)
        if data:  # a killed process may have left its last entry in the page cache; now that we go by it, it must stay
            disk.sync_now(self._file)

    def commit(self, changes: Sequence[Change], done: Callable[[KafkaError | None], None]) -> None:
        self._queue.append((changes, done))
        if not self._busy:
            self._next()

    def propose(self, change: PartitionChanged, done: Callable[[KafkaError | None], None]) -> None:  # noqa: ARG002
        done(KafkaError(ErrorCode.INVALID_REQUEST, "A broker that stands alone has no other replicas."))

    def confirm(self, topic_id: TopicId, partition: int, done: Callable[[KafkaError | None], None]) -> None:  # noqa: ARG002
        done(None)  # nobody else could lead it

    def reserve_producer_ids(self, count: int, done: Callable[[int, KafkaError | None], None]) -> None:
        first = self._image.next_producer_id

        def committed(error: KafkaError | None) -> None:
            done(first if error is None else -1, error)

        self.commit([ProducerIdsReserved(first + count)], committed)

    def commit_now(self, changes: Sequence[Change]) -> None:
        """The same, waited for: at start, before anybody can ask. Raises OSError."""
        assert self._file is not None
        assert not self._queue
        self._file.append(encode_entry(changes))
        self._disk.sync_now(self._file)
        for change in changes:
            self._image.apply(change)

    def close(self) -> None:
        if self._file is not None:
            self._file.release()
            self._file = None

    def _next(self) -> None:
        assert self._file is not None
        self._busy = True
        error = self.failed or self._append(self._file, encode_entry(self._queue[0][0]))
        if error is not None:
            self._finish(error)
        else:
            self._disk.submit(Sync(self._file), self._synced)

    def _append(self, file: File, entry: bytes) -> KafkaError | None:
        try:
            self._size = file.size()
            file.append(entry)
        except OSError as problem:
            error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"cannot write {self._path}: {problem.strerror}")
            if not self._cut(file):
                self.failed = error
            return error
        return None

    def _cut(self, file: File) -> bool:
        """Back to the last whole entry. A piece of one may not stay: the next would stand behind it."""
        try:
            if file.size() > self._size:
                file.truncate(self._size)
        except OSError:
            return False
        return True

    def _synced(self, problem: OSError | None) -> None:
        if problem is None:
            self._finish(None)
            return
        # After a failed fsync nobody knows what the disk holds. Refuse every later change until a restart has read it.
        self.failed = KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"sync of {self._path} failed ({problem.strerror}); restart after mending the disk",
        )
        logger.error(
            "event=metadata-failed path=%s error=%r: no more changes until a restart", self._path, str(problem)
        )
        if self._file is not None:
            self._cut(self._file)
        self._finish(self.failed)

    def _finish(self, error: KafkaError | None) -> None:
        """Tells the one who asked. Whatever breaks on the way, the changes behind it get their turn."""
        changes, done = self._queue.pop(0)
        try:
            if error is None:
                for change in changes:
                    self._image.apply(change)
                self.on_applied(changes)
        except Exception:
            logger.exception("event=change-not-followed")
        self._busy = False
        try:
            done(error)
        except Exception:
            logger.exception("event=change-not-answered")
        if self._queue and not self._busy:
            self._next()
