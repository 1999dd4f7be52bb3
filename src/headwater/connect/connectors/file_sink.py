"""FileStreamSink: the values of records as lines of a file, or of stdout. At least once: a worker that dies between
writing and committing writes those lines again.

A pipe without a reader, or with one that does not read, holds the task back and never the worker: records wait in
Kafka.
"""

import errno
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from headwater.connect.api import Offsets, SinkConnector, SinkTask
from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import HIGH, text
from headwater.connect.data.java_text import java_float, java_string
from headwater.connect.data.record import SinkRecord
from headwater.connect.data.runs import SinkRun
from headwater.connect.data.schema import Schema, Type
from headwater.connect.errors import ConnectError, RetriableError

_STDOUT: Final = 1
_WAITING_BYTES_MAX: Final = 1024 * 1024


class FileStreamSinkTask(SinkTask):
    def start(self, props: Mapping[str, str]) -> None:
        self._file = FileStreamSinkConnector.config_def.parse(props)["file"]
        self._descriptor: int | None = _STDOUT if self._file is None else None
        self._waiting = b""
        if self._file is not None:
            self._open()

    def put(self, records: Sequence[SinkRecord]) -> None:
        self._write()
        if len(self._waiting) > _WAITING_BYTES_MAX:
            raise RetriableError(f"{self._file} does not take what is written")
        self._waiting += _lines(records)
        self._write()

    def pre_commit(self, offsets: Offsets) -> Offsets:
        self._write()
        return {} if self._waiting else offsets

    def stop(self) -> None:
        descriptor, self._descriptor = getattr(self, "_descriptor", None), None
        if descriptor is not None and descriptor != _STDOUT:
            os.close(descriptor)

    def _open(self) -> bool:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            self._descriptor = os.open(self._file, flags, 0o644)
        except OSError as error:
            if error.errno == errno.ENXIO:  # a pipe that nobody reads
                return False
            raise ConnectError(f"Cannot write {self._file}: {error.strerror}") from None
        return True

    def _write(self) -> None:
        if self._descriptor is None and not self._open():
            if self._waiting:
                return
            raise RetriableError(f"Nobody reads the pipe {self._file}")
        assert self._descriptor is not None
        while self._waiting:
            try:
                written = os.write(self._descriptor, self._waiting)
            except BlockingIOError:
                return
            except OSError as error:
                raise ConnectError(f"Cannot write {self._file or 'stdout'}: {error.strerror}") from None
            self._waiting = self._waiting[written:]


def _lines(records: Sequence[SinkRecord]) -> bytes:
    if isinstance(records, SinkRun):
        values = records.values
        if set(map(type, values.values)) == {str}:
            shown: Iterable[str] = values.values
        else:
            shown = (_line(values.schema_at(index), value) for index, value in enumerate(values.values))
    else:
        shown = (_line(record.value_schema, record.value) for record in records)
    return "".join([f"{each}\n" for each in shown]).encode("utf-8", "replace")


def _line(schema: Schema | None, value: Any) -> str:
    single = schema is not None and schema.type is Type.FLOAT32
    return java_float(value) if single and value is not None else java_string(value)


class FileStreamSinkConnector(SinkConnector):
    doc = "The values of records as lines of a file, or of stdout where no file is named."
    aliases = ("org.apache.kafka.connect.file.FileStreamSinkConnector",)
    config_def: ClassVar[ConfigDef] = ConfigDef(
        text("file", None, HIGH, "The file; it is appended to. Without one, lines go to stdout.")
    )
    task_class = FileStreamSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.props)] * max_tasks

    def alter_offsets(self, props: Mapping[str, str], offsets: object) -> bool:
        del props, offsets
        return True
