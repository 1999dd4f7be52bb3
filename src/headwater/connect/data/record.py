"""Records between connectors, transforms and converters. Immutable: a transform gives another one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, Final, NamedTuple, Self

from headwater.client import ConsumerRecord
from headwater.connect.data.schema import Schema, SchemaAndValue
from headwater.connect.data.validation import fits
from headwater.connect.errors import DataError


class Header(NamedTuple):
    key: str
    schema: Schema | None
    value: Any


Headers = tuple[Header, ...]


class _Slots(NamedTuple):
    puts: dict[str, Callable[[Any, Any], None]]
    get_all: Callable[[Any], tuple[Any, ...]]


_SLOTS: Final[dict[type, _Slots]] = {}  # of the classes here; those that a connector derives from them have other ways


def _slots(kind: Any) -> _Slots:
    names = [each.name for each in fields(kind)]
    return _Slots({name: getattr(kind, name).__set__ for name in names}, attrgetter(*names))


def header(key: str, given: SchemaAndValue) -> Header:
    """Checks that the value fits, as Connect does when a header is added."""
    schema, value = given
    if schema is not None:
        if value is None and not schema.optional:
            raise DataError(f"A null value requires an optional schema but was {schema}")
        if value is not None and not fits(schema, value):
            raise DataError(f"The value {value} is not compatible with the schema {schema}")
    return Header(key, schema, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectRecord:
    topic: str
    partition: int | None = None
    key_schema: Schema | None = None
    key: Any = None
    value_schema: Schema | None = None
    value: Any = None
    timestamp_ms: int | None = None
    headers: Headers = ()

    def replaced(self, **changes: Any) -> Self:
        """As `dataclasses.replace`, and quicker: transforms do little else."""
        slots = _SLOTS.get(type(self))
        if slots is None or not changes.keys() <= slots.puts.keys():  # `replace` says what there is not
            return replace(self, **changes)
        made = object.__new__(type(self))
        for put, value in zip(slots.puts.values(), slots.get_all(self), strict=True):
            put(made, value)
        for name, value in changes.items():
            slots.puts[name](made, value)
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord(ConnectRecord):
    """`source_partition` and `source_offset` say where the record came from: maps of plain values, or None."""

    source_partition: Mapping[str, Any] | None = None
    source_offset: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRecord(ConnectRecord):
    """`original_*` say where the record stands in Kafka, whatever transforms made of its topic; `original` is what the
    consumer gave, None if no worker made the record.
    """

    offset: int
    timestamp_type: int = 0
    original_topic: str = ""
    original_partition: int = -1
    original: ConsumerRecord | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.original_topic:
            object.__setattr__(self, "original_topic", self.topic)
            object.__setattr__(self, "original_partition", self.partition if self.partition is not None else -1)


_SLOTS.update((kind, _slots(kind)) for kind in (ConnectRecord, SourceRecord, SinkRecord))
