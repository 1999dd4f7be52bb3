"""InsertField: the record's topic, partition, offset or timestamp, or a fixed text, as a field."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import MEDIUM, REPLACE_NULL, text
from headwater.connect.data.logical import millis_to_timestamp
from headwater.connect.data.record import ConnectRecord, SinkRecord
from headwater.connect.data.runs import ValueColumns
from headwater.connect.data.schema import INT32, INT64, STRING, TIMESTAMP_SCHEMA, Schema, struct
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConfigError, DataError
from headwater.connect.transforms.base import Carried, PartTransformation, basics, require_map, require_struct

if TYPE_CHECKING:
    import pyarrow as pa

_OPTIONALITY: Final = " `!` behind the name makes the field required, `?` (or nothing) optional."
_SCHEMAS: Final = {
    "topic": STRING,
    "partition": INT32,
    "offset": INT64,
    "timestamp": TIMESTAMP_SCHEMA,
    "static": STRING,
}


_YEAR_10000_MS: Final = 253_402_300_800_000


class _Insertion(NamedTuple):
    kind: str
    name: str
    schema: Schema


class InsertField(PartTransformation):
    is_pure = True
    doc = "Adds fields: topic, partition, offset (sinks only), timestamp, or a fixed text."
    config_def = ConfigDef(
        text("topic.field", None, MEDIUM, "The field for the topic." + _OPTIONALITY),
        text("partition.field", None, MEDIUM, "The field for the partition." + _OPTIONALITY),
        text("offset.field", None, MEDIUM, "The field for the offset, in sinks." + _OPTIONALITY),
        text("timestamp.field", None, MEDIUM, "The field for the timestamp." + _OPTIONALITY),
        text("static.field", None, MEDIUM, "The field for the fixed text." + _OPTIONALITY),
        text("static.value", None, MEDIUM, "The fixed text."),
        REPLACE_NULL,
    )

    def setup(self, config: Mapping[str, Any]) -> None:
        self._static = config["static.value"]
        self._with_default = config["replace.null.with.default"]
        self._insertions = [
            _insertion(kind, config[f"{kind}.field"], schema)
            for kind, schema in _SCHEMAS.items()
            if config[f"{kind}.field"] is not None
        ]
        if not self._insertions:
            raise ConfigError("No field insertion configured")
        if config["static.field"] is not None and self._static is None:
            raise ConfigError.of("static.value", None, f"No value specified for static field: {config['static.field']}")

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        schema, value = self.of(record)
        if value is None:
            return record
        if schema is None:
            old_map = require_map(value, "field insertion")
            return self.put(record, None, {**old_map, **dict(self._values(record, typed=False))})
        old = require_struct(value, "field insertion")
        carried = self._carried.get(old.schema) or self.carried(old.schema, self._changed(old.schema))
        values, at = carried.values(old), len(old.schema.fields)
        for name, each in self._values(record, typed=True):
            while carried.schema.fields[at].name != name:
                at += 1
            values[at] = each
        return self.put(record, carried.schema, Struct.of(carried.schema, values))

    def apply_columns(self, values: ValueColumns) -> ValueColumns | None:
        if self.part != "value":
            return None
        schema = values.schema
        carried = self._carried.get(schema) or self.carried(schema, self._changed(schema))
        kept = carried.columns(values.columns)
        if kept is None:
            return None
        new = [self._column(kind, values) for kind, _, _ in self._insertions]
        if any(each is None for each in new):
            return None
        return values.with_fields(carried.schema, [*kept, *new])

    def _column(self, kind: str, values: ValueColumns) -> "pa.Array | None":
        import pyarrow as pa
        import pyarrow.compute as pc

        match kind:
            case "partition":
                return values.partitions()
            case "offset":
                return values.offsets()
            case "timestamp":
                found = values.timestamps_ms()
                ends = pc.min_max(found)
                if ends["min"].is_valid and not 0 <= ends["min"].as_py() <= ends["max"].as_py() < _YEAR_10000_MS:
                    return None
                return found.cast(pa.timestamp("ms", tz="UTC"))
        text = values.topic if kind == "topic" else self._static
        if text is None:  # records of several topics
            return None
        return pa.repeat(pa.scalar(text, pa.string()), len(values.columns[0]))

    def _changed(self, schema: Schema) -> Carried:
        names = [each.name for each in schema.fields]
        fields = [(each.name, each.schema) for each in schema.fields]
        fields += [(each.name, each.schema) for each in self._insertions]
        made = struct(fields, **basics(schema))
        return Carried(schema, made, names, with_default=self._with_default)

    def _values(self, record: ConnectRecord, *, typed: bool) -> Iterator[tuple[str, Any]]:
        """A partition or timestamp that a record does not have is not inserted."""
        for kind, name, _ in self._insertions:
            if kind == "topic":
                yield name, record.topic
            elif kind == "partition":
                if record.partition is not None:
                    yield name, record.partition
            elif kind == "offset":
                if not isinstance(record, SinkRecord):
                    raise DataError("Only SinkRecord supported for [field insertion], found: SourceRecord")
                yield name, record.offset
            elif kind == "timestamp":
                if record.timestamp_ms is not None:
                    yield name, millis_to_timestamp(record.timestamp_ms) if typed else record.timestamp_ms
            else:
                yield name, self._static


def _insertion(kind: str, spec: str, schema: Schema) -> _Insertion:
    name = spec[:-1] if spec.endswith(("?", "!")) else spec
    return _Insertion(kind, name, schema if spec.endswith("!") else schema.as_optional())
