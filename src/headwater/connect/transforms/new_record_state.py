"""ExtractNewRecordState: of a change in Debezium's envelope, the row as it is now.

A deletion leaves no row: `delete.tombstone.handling.mode` says what becomes of it, and of the tombstone behind it.
Records that are no changes (heartbeats, transactions, messages) stay as they are; truncations are dropped.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from headwater.base.config.validators import OneOf
from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import LOW, MEDIUM, REPLACE_NULL, flag, listing, text
from headwater.connect.data import schema as s
from headwater.connect.data.record import ConnectRecord, Header
from headwater.connect.data.schema import Schema
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConfigError, DataError
from headwater.connect.transforms.base import SCHEMAS_CACHED_MAX, Transformation, basics, require_struct

_MODE: Final = "delete.tombstone.handling.mode"
_MODES: Final = ("drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone")
_EARLIER: Final = ("drop.tombstones", "delete.handling.mode")  # which it has replaced
_DELETED: Final = "__deleted"
_OF_CHANGE: Final = ("op", "ts_ms", "ts_us", "ts_ns")
_OF_TRANSACTION: Final = ("id", "total_order", "data_collection_order")
_PURPOSE: Final = "source field insertion"
_ADDED: Final = "op, ts_ms, source.table, or a name alone for one of source; behind a colon another name for it"


class _Reference(NamedTuple):
    """A field of the envelope, or of a struct in it, and the name that it gets."""

    struct: str | None
    field: str
    name: str

    def schema_in(self, envelope: Schema) -> Schema | None:
        """None: there is no such field."""
        holder = self._struct_in(envelope)
        found = holder.field(self.field) or envelope.field(self.field)
        return None if found is None else found.schema.changed(optional=True, default=None)

    def value_in(self, change: Struct) -> Any:
        holder = change if self.struct is None else change.get_without_default(self.struct)
        if holder is None:
            return None
        return (holder if holder.schema.field(self.field) is not None else change).get_without_default(self.field)

    def _struct_in(self, envelope: Schema) -> Schema:
        if self.struct is None:
            return envelope
        found = envelope.field(self.struct)
        if found is None:
            raise DataError(f"There is no struct {self.struct!r} in the change: it has {', '.join(each.name for each in envelope.fields)}")  # fmt: skip
        return found.schema


def _reference(text: str, prefix: str, name: str) -> _Reference:
    path, _, renamed = text.strip().partition(":")
    struct, dot, field = path.partition(".")
    if not path or ":" in renamed or (dot and not field) or "." in field:
        raise ConfigError(f"{name}: {text!r} is not field, struct.field or field:name", name=name)
    if dot:
        return _Reference(struct, field, prefix + (renamed or f"{struct}_{field}"))
    parent = None if path in _OF_CHANGE else "transaction" if path in _OF_TRANSACTION else "source"
    return _Reference(parent, path, prefix + (renamed or path))


class ExtractNewRecordState(Transformation):
    is_pure = True
    doc = "Of a change in Debezium's envelope, the row as it is now."
    config_def = ConfigDef(
        text(
            _MODE,
            "tombstone",
            MEDIUM,
            "What becomes of deletions. tombstone: they are records without a value, and the tombstones behind them go. drop: both go. rewrite: the row as it was with __deleted=true, and the others with __deleted=false; without the tombstones, or with (rewrite-with-tombstone). delete-to-tombstone: they become tombstones without a schema either.",
            OneOf(*_MODES, ignore_case=True),
        ),
        text("route.by.field", "", LOW, "A field of the row whose value is the topic."),
        listing("add.fields", [], LOW, f"What of the change is added to the row: {_ADDED}."),
        text("add.fields.prefix", "__", LOW, "What stands before the names of these."),
        listing("add.headers", [], LOW, "What of the change is added to the headers, likewise."),
        text("add.headers.prefix", "__", LOW, "What stands before the names of these."),
        text("drop.fields.header.name", "", LOW, "A header with a list of fields that are taken out of the row."),
        flag("drop.fields.from.key", False, LOW, "Whether they are taken out of the key, too."),
        flag("drop.fields.keep.schema.compatible", True, LOW, "Whether only optional ones are taken out."),
        REPLACE_NULL,
    )

    def configure(self, props: Mapping[str, str | None]) -> None:
        found = next((each for each in _EARLIER if each in props), None)
        if found is not None:
            raise ConfigError(f"{found} has no effect any more: {_MODE} has taken its place", name=found)
        super().configure(props)

    def setup(self, config: Mapping[str, Any]) -> None:
        self._mode = config[_MODE].lower()
        self._rewrites = self._mode.startswith("rewrite")
        self._route = config["route.by.field"]
        self._fields = [_reference(each, config["add.fields.prefix"], "add.fields") for each in config["add.fields"]]
        self._headers = [_reference(each, config["add.headers.prefix"], "add.headers") for each in config["add.headers"]]  # fmt: skip
        self._dropping, self._from_key = config["drop.fields.header.name"], config["drop.fields.from.key"]
        self._compatible = config["drop.fields.keep.schema.compatible"]
        self._with_default = config["replace.null.with.default"]
        self._schemas: dict[tuple[Schema, Schema], Schema] = {}

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        if record.value is None:
            return record.replaced(headers=self._more_headers(record)) if self._mode == "rewrite-with-tombstone" else None  # fmt: skip
        schema = record.value_schema
        if schema is None or not (schema.name or "").endswith(".Envelope"):
            return record
        change = require_struct(record.value, _PURPOSE)
        before, after = (change.get(each) if schema.field(each) is not None else None for each in ("before", "after"))
        record = record.replaced(headers=self._more_headers(record))
        if after is not None:
            made = self._routed(record, after)
            return self._without(self._row(made, change, after, deleted="false"))
        if before is None or self._mode == "drop":
            return None
        record = self._routed(record, before)
        if self._rewrites:
            return self._row(self._with_row(record, before), change, None, deleted="true")
        found = schema.field("after")
        gone = found.schema if found is not None and self._mode == "tombstone" else None
        return self._without(record.replaced(value_schema=gone, value=None))

    def _more_headers(self, record: ConnectRecord) -> tuple[Header, ...]:
        if record.value is None:  # a tombstone has no change to look at, but it is a deletion's
            return (*record.headers, *(Header(each.name, s.STRING, "d") for each in self._headers if each.field == "op"))  # fmt: skip
        change: Struct = record.value
        found = ((each, each.schema_in(change.schema)) for each in self._headers)
        return (*record.headers, *(Header(each.name, schema, each.value_in(change)) for each, schema in found if schema is not None))  # fmt: skip

    def _routed(self, record: ConnectRecord, row: Struct) -> ConnectRecord:
        topic = row.get(self._route) if self._route else None
        if topic is not None and not isinstance(topic, str):
            raise DataError(f"route.by.field: the value of {self._route!r} is no text")
        return record.replaced(topic=topic) if topic and topic.strip() else record

    def _with_row(self, record: ConnectRecord, row: Struct) -> ConnectRecord:
        """With this row as its value, less the fields that are to be dropped."""
        return self._without(record.replaced(value_schema=row.schema, value=row))

    def _row(self, record: ConnectRecord, change: Struct, after: Struct | None, *, deleted: str) -> ConnectRecord:
        row: Struct = record.value if after is None else after
        schema = self._schema_of(row.schema, change.schema)
        made = Struct(schema)
        for field in row.schema.fields:
            defaults = self._rewrites and self._with_default
            made.put(field.name, row.get(field.name) if defaults else row.get_without_default(field.name))
        if self._rewrites:
            made.put(_DELETED, deleted)
        for each in self._fields:
            if schema.field(each.name) is not None:
                made.put(each.name, each.value_in(change))
        return record.replaced(value_schema=schema, value=made)

    def _schema_of(self, row: Schema, envelope: Schema) -> Schema:
        found = self._schemas.get((row, envelope))
        if found is None:
            fields = [(each.name, each.schema) for each in row.fields]
            if self._rewrites:
                fields.append((_DELETED, s.OPTIONAL_STRING))
            added = ((each.name, each.schema_in(envelope)) for each in self._fields)
            fields += [(name, schema) for name, schema in added if schema is not None]
            found = s.struct(fields, **basics(row))
            if len(self._schemas) >= SCHEMAS_CACHED_MAX:
                self._schemas.clear()
            self._schemas[row, envelope] = found
        return found

    def _without(self, record: ConnectRecord) -> ConnectRecord:
        """Less the fields that a header of the record names."""
        found = next((each.value for each in record.headers if each.key == self._dropping), None) if self._dropping else None  # fmt: skip
        if not found:
            return record
        if not isinstance(found, list):
            raise DataError(f"drop.fields.header.name: the header {self._dropping!r} is no list of names")
        names = frozenset(found)
        if self._from_key and isinstance(record.key, Struct):
            key = self._less(record.key, names)
            record = record.replaced(key_schema=key.schema, key=key)
        if isinstance(record.value, Struct):
            value = self._less(record.value, names)
            record = record.replaced(value_schema=value.schema, value=value)
        return record

    def _less(self, row: Struct, names: frozenset[str]) -> Struct:
        kept = [each for each in row.schema.fields if each.name not in names or (self._compatible and not each.schema.optional)]  # fmt: skip
        if len(kept) == len(row.schema.fields):
            return row
        made = Struct(s.struct([(each.name, each.schema) for each in kept], **basics(row.schema)))
        for each in kept:
            made.put(each.name, row.get(each.name))
        return made
