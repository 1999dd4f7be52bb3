"""FileStreamSource: the lines of a file, or of stdin, as records; the file may grow, be rotated or cut off.

The source partition is `{"filename": ...}`, the offset `{"position": bytes}`: Kafka's own names. A line counts when its
end is there. What is there when the file is replaced by another of the same name is read to its end first. A file that
is shorter than the position was cut off: it is read from its beginning. Pipes are opened without waiting for a writer.
"""

import errno
import os
import re
import select
import stat
import threading
import time
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any, ClassVar, Final

from headwater.base.config.validators import AtLeast
from headwater.connect.api import SourceConnector, SourceOffsets, SourceTask
from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import HIGH, LOW, REQUIRED, NonEmptyText, text, whole
from headwater.connect.data.runs import SourceRun
from headwater.connect.data.schema import STRING
from headwater.connect.errors import ConnectError

FILENAME: Final = "filename"
POSITION: Final = "position"
_STDIN: Final = 0
_READ_BYTES: Final = 256 * 1024
_LINE_BYTES_MAX: Final = 64 * 1024 * 1024
_WAIT_S: Final = 0.1
_LINE: Final = re.compile(rb"([^\r\n]*)(\r\n|\n|\r(?!$))")


class TakenLines:
    """Texts of lines that follow each other, and the position behind each, counted when somebody asks."""

    def __init__(self, texts: list[str], begin: int, sizes: Iterable[int]) -> None:
        self.texts = texts
        self._begin, self._sizes = begin, sizes
        self._ends: list[int] | None = None

    def end(self, index: int) -> int:
        if self._ends is None:
            self._ends = list(accumulate(self._sizes, initial=self._begin))
        return self._ends[index + 1]


class Lines:
    """Bytes in, whole lines out, with the position behind each. Pure."""

    def __init__(self, position: int = 0) -> None:
        self.position = position  # behind the last line that was given
        self._rest = b""

    def feed(self, data: bytes) -> None:
        self._rest += data
        if len(self._rest) > _LINE_BYTES_MAX:
            raise ConnectError(f"A line is longer than {_LINE_BYTES_MAX} bytes, or there are that many waiting")

    @property
    def full(self) -> bool:
        return len(self._rest) >= _READ_BYTES

    def take(self, limit: int) -> TakenLines:
        returns = self._rest.count(b"\r")
        if not returns:
            return self._split(limit, b"")
        if returns == self._rest.count(b"\r\n"):
            return self._split(limit, b"\r")
        return self._match(limit)

    def _split(self, limit: int, before_end: bytes) -> TakenLines:
        """Where all lines end alike: at once."""
        *lines, rest = self._rest.split(b"\n", limit)
        begin, self._rest = self.position, rest
        texts = [str(line.removesuffix(before_end) if before_end else line, "utf-8", "replace") for line in lines]
        self.position += sum(map(len, lines)) + len(lines)
        return TakenLines(texts, begin, (len(line) + 1 for line in lines))

    def _match(self, limit: int) -> TakenLines:
        texts: list[str] = []
        sizes: list[int] = []
        at = 0
        while len(texts) < limit:
            found = _LINE.match(self._rest, at)
            if found is None:
                break
            sizes.append(found.end() - at)
            at = found.end()
            texts.append(found[1].decode("utf-8", "replace"))
        begin, self._rest = self.position, self._rest[at:]
        self.position += at
        return TakenLines(texts, begin, sizes)


class FileStreamSourceTask(SourceTask):
    def __init__(self) -> None:
        self._stop = threading.Event()
        self._descriptor: int | None = None

    def start(self, props: Mapping[str, str]) -> None:
        config = FileStreamSourceConnector.config_def.parse(props)
        self._file: str | None = config["file"]
        self._topic: str = config["topic"]
        self._batch_size: int = config["batch.size"]
        self._partition = {FILENAME: self._file}
        self._descriptor = _STDIN if self._file is None else None
        offset = self.context.offset_reader.offset(self._partition) if self._file is not None else None
        self._lines = Lines(_position(offset) if offset is not None else 0)

    def poll(self) -> SourceRun | None:
        taken = self._lines.take(self._batch_size)
        if not taken.texts and self._read():
            taken = self._lines.take(self._batch_size)
        if not taken.texts:
            self._stop.wait(_WAIT_S)
            return None
        return SourceRun(
            self._topic,
            taken.texts,
            STRING,
            timestamps_ms=time.time_ns() // 1_000_000,
            source_partition=self._partition,
            offset_at=lambda index: {POSITION: taken.end(index)},
        )

    def stop(self) -> None:
        self._stop.set()

    def close(self) -> None:
        """By the task's own thread, after its last poll."""
        if self._descriptor not in (None, _STDIN):
            assert self._descriptor is not None
            os.close(self._descriptor)
        self._descriptor = None

    def _read(self) -> bool:
        if self._descriptor is None and not self._open():
            return False
        assert self._descriptor is not None
        if self._file is None and not select.select([_STDIN], [], [], _WAIT_S)[0]:
            return False
        try:
            if self._feed(self._descriptor):
                return True
        except BlockingIOError:  # a pipe whose writer has nothing now
            return False
        if self._file is None or not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            return False
        if not self._was_cut_off(self._descriptor):
            if not self._was_replaced(self._descriptor):
                return False
            if self._feed(self._descriptor):  # it had grown after its end was met, and before it was replaced
                return True
        self._lines = Lines()
        self.close()
        return self._open() and self._read()

    def _feed(self, descriptor: int) -> bool:
        """False at the end of the file."""
        data = os.read(descriptor, _READ_BYTES)
        self._lines.feed(data)
        return bool(data)

    def _open(self) -> bool:
        assert self._file is not None
        try:
            descriptor = os.open(self._file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return False  # it may come
        except OSError as error:
            raise ConnectError(f"Cannot read {self._file}: {error.strerror}") from None
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            os.close(descriptor)
            raise ConnectError(f"Cannot read {self._file}: {os.strerror(errno.EISDIR)}")
        self._descriptor = descriptor
        if stat.S_ISREG(found.st_mode):
            if found.st_size < self._lines.position:
                self._lines = Lines()
            os.lseek(descriptor, self._lines.position, os.SEEK_SET)
        return True

    def _was_cut_off(self, descriptor: int) -> bool:
        return os.fstat(descriptor).st_size < os.lseek(descriptor, 0, os.SEEK_CUR)

    def _was_replaced(self, descriptor: int) -> bool:
        """Whether another file has its name by now."""
        assert self._file is not None
        ours = os.fstat(descriptor)
        try:
            named = os.stat(self._file)
        except OSError:
            return False
        return (named.st_dev, named.st_ino) != (ours.st_dev, ours.st_ino)


def _position(offset: Mapping[str, Any]) -> int:
    position = offset.get(POSITION)
    if not isinstance(position, int) or isinstance(position, bool):
        raise ConnectError(f"Offset position is the incorrect type: {position!r}")
    return max(0, position)


class FileStreamSourceConnector(SourceConnector):
    doc = "The lines of a file, or of stdin where no file is named, as records of a topic."
    aliases = ("org.apache.kafka.connect.file.FileStreamSourceConnector",)
    config_def: ClassVar[ConfigDef] = ConfigDef(
        text("file", None, HIGH, "The file. Without one, lines come from stdin (standalone workers only)."),
        text("topic", REQUIRED, HIGH, "The topic that lines go to.", NonEmptyText()),
        whole("batch.size", 2000, LOW, "How many lines one poll gives at most.", AtLeast(1)),
    )
    task_class = FileStreamSourceTask
    stdin_without = "file"

    def alter_offsets(self, props: Mapping[str, str], offsets: SourceOffsets) -> bool:
        if not props.get("file"):
            raise ConnectError("Offsets cannot be modified if the 'file' configuration is unspecified: stdin has none")
        for partition, offset in offsets:
            if offset is None:  # of whatever partition: what nobody reads can be taken away
                continue
            if FILENAME not in partition:
                raise ConnectError("Partition objects should contain the key 'filename'")
            _checked(offset)
        return True


def _checked(offset: Mapping[str, Any]) -> None:
    if POSITION not in offset:
        raise ConnectError("Offset objects should either be null or contain the key 'position'")
    position = offset[POSITION]
    if not isinstance(position, int) or isinstance(position, bool):
        raise ConnectError("The value for the 'position' key in the offset is expected to be a Long value")
    if position < 0:
        raise ConnectError("The value for the 'position' key in the offset should be a non-negative value")
