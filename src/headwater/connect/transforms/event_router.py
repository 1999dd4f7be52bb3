"""EventRouter: of a row that was written into an outbox table, as a change in Debezium's envelope, the event itself.

Only insertions are events: deletions clean up, and updates are not expected (`table.op.invalid.behavior`). Records that
are no changes stay as they are.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from headwater.base.config.validators import OneOf
from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import HIGH, LOW, MEDIUM, Pattern, flag, text
from headwater.connect.data import schema as s
from headwater.connect.data.record import ConnectRecord, Header
from headwater.connect.data.schema import Schema, SchemaAndValue, Type
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConfigError, ConnectError, DataError
from headwater.connect.transforms.base import SCHEMAS_CACHED_MAX, Transformation, require_struct
from headwater.connect.transforms.json_payload import expanded
from headwater.connect.transforms.routers import RegexRouter

logger = logging.getLogger("headwater.connect")
_PLACES: Final = "table.fields.additional.placement"
_PAYLOAD: Final = "payload"
_PER_MS: Final = {"Timestamp": 1, "MicroTimestamp": 1_000, "NanoTimestamp": 1_000_000}


class _Added(NamedTuple):
    field: str
    place: str  # header, envelope or partition
    name: str


def _added(given: str) -> list[_Added]:
    made = []
    for each in (part.strip() for part in given.split(",") if given.strip()):
        field, *more = (part.strip() for part in each.split(":"))
        if len(more) not in (1, 2) or more[0].lower() not in ("header", "envelope", "partition"):
            raise ConfigError(f"{_PLACES}: {each!r} is not field:header, field:envelope:name or field:partition", name=_PLACES)  # fmt: skip
        made.append(_Added(field, more[0].lower(), more[-1] if len(more) == 2 else field))
    return made


class EventRouter(Transformation):
    doc = "Of a row of an outbox table, in Debezium's envelope, the event that it has."
    config_def = ConfigDef(
        text("table.op.invalid.behavior", "warn", MEDIUM, "What becomes of updates: they are passed over with a line in the log (warn, error), or are errors (fatal).", OneOf("warn", "error", "fatal", ignore_case=True)),
        text("table.field.event.id", "id", LOW, "The column with the event's id, which is the header id."),
        text("table.field.event.key", "aggregateid", LOW, "The column with the record's key."),
        text("table.field.event.type", "type", LOW, "Taken and not needed: the type is where table.fields.additional.placement puts it."),
        text("table.field.event.payload", "payload", LOW, "The column with the event itself."),
        text("table.field.event.timestamp", None, LOW, "The column with the record's time; that of the change if there is none."),
        text("table.field.event.schema.version", None, LOW, "The column with the version of the value's schema."),
        text(_PLACES, "", MEDIUM, "Where other columns go, with commas between: column:header:name, column:envelope:name or column:partition. With one in the envelope, the value is a struct that has the event as payload."),
        text("table.field.additional.missing", "error", LOW, "What a column among these means that is not there: error, or ignore.", OneOf("error", "ignore", ignore_case=True)),
        text("route.by.field", "aggregatetype", HIGH, "The column by whose value the topic is found."),
        text("route.topic.regex", "(?<routedByValue>.*)", LOW, "A pattern of that value.", Pattern()),
        text("route.topic.replacement", "outbox.event.${routedByValue}", HIGH, "The topic, as RegexRouter makes it."),
        flag("route.tombstone.on.empty.payload", False, LOW, "Whether an event without a payload is a record without a value."),
        flag("table.expand.json.payload", False, MEDIUM, "Whether a payload that is a JSON object as text becomes a struct; one that cannot stays text."),
        text("table.json.payload.null.behavior", "ignore", MEDIUM, "What a null in it becomes: nothing, or optional bytes.", OneOf("ignore", "optional_bytes", ignore_case=True)),
        text("table.json.payload.empty.array.behavior", "ignore", MEDIUM, "What an empty list in it becomes: nothing, or a list of texts.", OneOf("ignore", "optional_string", ignore_case=True)),
    )  # fmt: skip

    def setup(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._added = _added(config[_PLACES])
        self._enveloped = any(each.place == "envelope" for each in self._added)
        self._lenient = config["table.field.additional.missing"].lower() == "ignore"
        self._router = RegexRouter()
        self._router.setup({"regex": config["route.topic.regex"], "replacement": config["route.topic.replacement"]})
        self._nulls = config["table.json.payload.null.behavior"].lower() != "ignore"
        self._empty = config["table.json.payload.empty.array.behavior"].lower() != "ignore"
        self._schemas: dict[tuple[Schema, Schema, str, int | None], Schema] = {}

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        if record.value is None:
            return None
        if record.value_schema is None or not (record.value_schema.name or "").endswith(".Envelope"):
            return record
        change = require_struct(record.value, "Detect Debezium Operation")
        match change.get("op"):
            case "d":
                return None
            case "u":
                self._unexpected(record)
                return None
        return self._router.apply(self._event(record, change, require_struct(change.get("after"), "Read Outbox Event")))

    def _unexpected(self, record: ConnectRecord) -> None:
        behavior = self._config["table.op.invalid.behavior"].lower()
        if behavior == "fatal":
            raise ConnectError(f"A row of the outbox table was updated, in the topic {record.topic}: events are not expected to change")  # fmt: skip
        level = logging.WARNING if behavior == "warn" else logging.ERROR
        logger.log(level, "event=outbox-row-updated topic=%r", record.topic)

    def _event(self, record: ConnectRecord, change: Struct, row: Struct) -> ConnectRecord:
        config = self._config
        topic = row.get(config["route.by.field"])
        if not isinstance(topic, str):
            raise DataError(f"route.by.field: the value of {config['route.by.field']!r} is no text")
        payload = self._payload(row)
        headers = [*record.headers, self._header(row, config["table.field.event.id"], "id")]
        headers += [self._header(row, each.field, each.name) for each in self._there(row, "header")]
        partitions = [row.get(each.field) for each in self._there(row, "partition")]
        value = self._in_envelope(row, payload, topic) if self._enveloped else payload
        if config["route.tombstone.on.empty.payload"] and (payload.value is None or not str(payload.value).strip()):
            value = SchemaAndValue(None, None)
        key = row.schema.field(config["table.field.event.key"])
        if key is None:
            raise DataError(f"{config['table.field.event.key']} is not a valid field name")
        return record.replaced(
            topic=topic,
            partition=partitions[-1] if partitions else None,
            key_schema=key.schema,
            key=row.get(key.name),
            value_schema=value.schema,
            value=value.value,
            timestamp_ms=self._time_ms(change, row),
            headers=tuple(headers),
        )

    def _payload(self, row: Struct) -> SchemaAndValue:
        name = self._config["table.field.event.payload"]
        field = row.schema.field(name)
        if field is None:
            raise DataError(f"Unable to find payload field {name} in event")
        found = row.get(name)
        if self._config["table.expand.json.payload"] and isinstance(found, str):
            try:
                return expanded(found, name, nulls_as_bytes=self._nulls, empty_as_texts=self._empty)
            except (ValueError, RecursionError, DataError) as error:
                logger.warning("event=payload-not-expanded error=%r", str(error)[:200])
        return SchemaAndValue(field.schema, found)

    def _there(self, row: Struct, place: str) -> list[_Added]:
        """What goes to this place, of what the row has."""
        found = [each for each in self._added if each.place == place]
        for each in found:
            if row.schema.field(each.field) is None and not self._lenient:
                raise DataError(f"Unable to find field {each.field} in event")
        return [each for each in found if row.schema.field(each.field) is not None]

    def _header(self, row: Struct, field: str, name: str) -> Header:
        found = row.schema.field(field)
        if found is None:
            raise DataError(f"Unable to find event-id field {field} in event")
        return Header(name, found.schema, row.get(field))

    def _in_envelope(self, row: Struct, payload: SchemaAndValue, topic: str) -> SchemaAndValue:
        assert payload.schema is not None
        named = self._config["table.field.event.schema.version"]
        version = row.get(named) if named else None
        added = self._there(row, "envelope")
        known = payload.schema, row.schema, topic, version
        schema = self._schemas.get(known)
        if schema is None:
            fields = [(_PAYLOAD, payload.schema)]
            fields += [(each.name, field.schema) for each in added if (field := row.schema.field(each.field)) is not None]  # fmt: skip
            before, dot, last = (row.schema.name or "").rpartition(".")
            name = f"{before}{dot}{topic}.{last}" if last else topic
            schema = s.struct(fields, name=name, version=version)
            if len(self._schemas) >= SCHEMAS_CACHED_MAX:
                self._schemas.clear()
            self._schemas[known] = schema
        made = Struct(schema).put(_PAYLOAD, payload.value)
        for each in added:
            made.put(each.name, row.get(each.field))
        return SchemaAndValue(schema, made)

    def _time_ms(self, change: Struct, row: Struct) -> int | None:
        name = self._config["table.field.event.timestamp"]
        field = row.schema.field(name) if name else None
        if name and field is None:
            raise DataError(f"Unable to find timestamp field {name} in event")
        found: int | None = row.get(name) if name else None
        if field is None or found is None:
            made: int | None = change.get("ts_ms")
            return made
        per_ms = _PER_MS.get((field.schema.name or "").removeprefix("io.debezium.time."))
        if per_ms is None or field.schema.type is not Type.INT64:
            raise DataError(f"Unsupported field type {field.schema.name or field.schema.type.name} for event timestamp")
        return found // per_ms
