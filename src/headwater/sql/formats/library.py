"""The formats by name."""

from __future__ import annotations

from typing import Final

from headwater.sql.formats.delimited import DelimitedFormat
from headwater.sql.formats.json_rows import JsonFormat
from headwater.sql.formats.kafka_rows import KafkaFormat, NoneFormat
from headwater.sql.formats.port import Format
from headwater.sql.formats.registry.serde import AVRO, JSON_SR, PROTOBUF, PROTOBUF_NOSR, RegistryFormat
from headwater.sql.language.errors import SqlError, did_you_mean

_ALL: Final[tuple[Format, ...]] = (
    JsonFormat(),
    DelimitedFormat(),
    KafkaFormat(),
    NoneFormat(),
    AVRO,
    JSON_SR,
    PROTOBUF,
    PROTOBUF_NOSR,
)
FORMATS: Final[dict[str, Format]] = {each.name: each for each in _ALL}


def format_named(name: str) -> Format:
    wanted = name.upper()
    found = FORMATS.get(wanted)
    if found is not None:
        return found
    raise SqlError(f"Unknown format: {name}", hint=did_you_mean(wanted, FORMATS))


def with_registry(name: str) -> RegistryFormat | None:
    """The format, if its schemas are in a registry."""
    found = format_named(name)
    return found if isinstance(found, RegistryFormat) and found.framed else None
