"""`print` of a stream: a line for each record, for people who look at what passes."""

import sys
from collections.abc import Callable
from typing import Any, TextIO

from headwater.streams.model.processor import Context, Processor
from headwater.streams.model.record import Record


class StreamPrint(Processor):
    """Owns the file that it was given by name; standard output belongs to the process."""

    def __init__(self, label: str, mapper: Callable[[Any, Any], Any] | None, file: str | None) -> None:
        self._label = label
        self._mapper = mapper
        self._path = file
        self._file: TextIO | None = None

    def init(self, context: Context) -> None:  # noqa: ARG002
        if self._path is not None:
            self._file = open(self._path, "a", encoding="utf-8")  # noqa: SIM115 - closed by close()

    def process(self, record: Record) -> None:
        told = f"{record.key}, {record.value}" if self._mapper is None else self._mapper(record.key, record.value)
        out = self._file or sys.stdout
        out.write(f"[{self._label}]: {told}\n")
        out.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
