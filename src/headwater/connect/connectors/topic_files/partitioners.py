"""Which directory a record belongs to, below that of its topic. Pure: the record and the config decide, and nothing
else.

`default` is `partition=N`; `field` is `name=value` for each field, escaped as Hive does it; `time` is the hour of the
record's timestamp in a zone. A directory never leaves that of the topic: what separates paths is escaped.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

from headwater.connect.data.logical import millis_to_timestamp
from headwater.connect.data.record import SinkRecord
from headwater.connect.data.struct import Struct
from headwater.connect.errors import DataError

Partitioner = Callable[[SinkRecord], str]
NULL_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"  # Hive's name for null and for an empty text
_ESCAPED: Final = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")
_NAME_BYTES_MAX: Final = 255


def escape(text: str) -> str:
    """Hive's escapes: a percent sign and two digits for what would mean something in a path."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


def by_partition(record: SinkRecord) -> str:
    return f"partition={record.original_partition}"


def by_fields(names: Sequence[str]) -> Partitioner:
    def directory(record: SinkRecord) -> str:
        return "/".join(_segment(name, _field(record.value, name)) for name in names)

    return directory


def by_time(zone: ZoneInfo) -> Partitioner:
    def directory(record: SinkRecord) -> str:
        if record.timestamp_ms is None:
            raise DataError("The record has no timestamp: partitioner=time has no directory for it")
        try:
            there = millis_to_timestamp(record.timestamp_ms).astimezone(zone)
        except OverflowError:
            raise DataError(f"Not a time between the years 1 and 9999: {record.timestamp_ms} ms") from None
        return f"year={there.year:04}/month={there.month:02}/day={there.day:02}/hour={there.hour:02}"

    return directory


def _field(value: Any, name: str) -> Any:
    if isinstance(value, Struct):
        if value.schema.field(name) is None:
            raise DataError(f"The value has no field {name!r}: partition.field.name names it")
        return value.get(name)
    if isinstance(value, Mapping):
        if name not in value:
            raise DataError(f"The value has no field {name!r}: partition.field.name names it")
        return value[name]
    raise DataError(f"partition.field.name needs values with fields, not {type(value).__name__}")


def _segment(name: str, value: Any) -> str:
    made = f"{escape(name)}={escape(_text(name, value)) or NULL_VALUE}"
    try:
        size = len(made.encode())
    except UnicodeEncodeError:
        raise DataError(f"The field {name!r} is not text that a directory's name could have") from None
    if size > _NAME_BYTES_MAX:
        raise DataError(f"The field {name!r} is too long for a directory's name: {size} bytes of {_NAME_BYTES_MAX}")
    return made


def _text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    raise DataError(
        f"The field {name!r} is {type(value).__name__}: directories are made of texts, whole numbers, booleans, decimals and dates"
    )
