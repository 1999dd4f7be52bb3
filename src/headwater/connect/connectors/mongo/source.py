"""MongoSource: documents of a collection by a field that grows, or changes by change streams.

A record's key is the JSON (or BSON) of `{"_id": ...}`, its value that of the document, or of the change. Offsets: of a
poll {"poll": the last field and _id}, of a stream {"_id": the resume token}, as extended JSON; with "copy" while all
documents are still being copied, which begins anew after a crash. The last document of a copy has the stream's alone.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, ClassVar, Final
from uuid import UUID

from headwater.connect.api import SourceConnector, SourceOffsets, SourceTask
from headwater.connect.config.definition import ConfigDef, ConfigValue
from headwater.connect.connectors.mongo.client import check_uri, client_of, driver, told
from headwater.connect.connectors.mongo.source_options import (
    CONFIG_DEF,
    check,
    formatter,
    parse,
    pipeline_of,
    topic_of,
    unsupported,
)
from headwater.connect.data import schema as s
from headwater.connect.data.record import SourceRecord
from headwater.connect.data.schema import Schema
from headwater.connect.errors import ConfigError, ConnectError

logger = logging.getLogger("headwater.connect")
# In the order of MongoDB's sort. Its $gt compares within one of them.
_TYPES: Final = (
    "number", "string", "object", "array", "binData", "objectId", "bool", "date", "timestamp", "regex"
)  # fmt: skip


def next_filter(field: str, last: Mapping[str, Any] | None) -> dict[str, Any]:
    """Which documents come after the last one, in the order of the field, then of _id."""
    if last is None:
        return {field: {"$ne": None}}
    if field == "_id":
        return {"$or": _above("_id", last["_id"])}
    same = {field: {"$eq": last["value"]}, "$or": _above("_id", last["_id"])}
    return {"$or": [*_above(field, last["value"]), same]}


def _above(field: str, value: Any) -> list[dict[str, Any]]:
    """Higher ones of the same type, and all of the types that are sorted behind it."""
    within = {"$gte": float("-inf")} if value != value else {"$gt": value}  # nothing is $gt NaN, which is sorted first
    kind = _type_of(value)
    behind = _TYPES[_TYPES.index(kind) + 1 :] if kind is not None else ()
    return [{field: within}, *([{field: {"$type": list(behind)}}] if behind else [])]


def _type_of(value: Any) -> str | None:
    import bson

    kinds: tuple[tuple[Any, str], ...] = (
        (bool, "bool"), (int | float | bson.Decimal128, "number"), (str, "string"), (Mapping, "object"), (list, "array"),
        (bytes | UUID, "binData"), (bson.ObjectId, "objectId"), (datetime, "date"), (bson.Timestamp, "timestamp"),
    )  # fmt: skip
    return next((name for kind, name in kinds if isinstance(value, kind)), None)


def value_at(document: Mapping[str, Any], path: str) -> Any:
    """`a.b` is a field of a field."""
    found: Any = document
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def partition_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Without the user and the password of the address."""
    if config["offset.partition.name"]:
        return {"ns": config["offset.partition.name"]}
    scheme, _, rest = str(config["connection.uri"]).partition("://")
    hosts = rest.partition("/")[0].rpartition("@")[2].partition("?")[0]
    namespace = ".".join(each for each in (config["database"], config["collection"]) if each)
    return {"ns": f"{scheme}://{hosts}/{namespace}"}


class MongoSourceTask(SourceTask):
    def __init__(self) -> None:
        self._stop = threading.Event()
        self._client: Any = None
        self._stream: Any = None
        self._copy: Iterator[SourceRecord] | None = None

    def start(self, props: Mapping[str, str]) -> None:
        from bson import json_util

        self._json = json_util
        self._config = parse(props)
        self._partition = partition_of(self._config)
        self._client = client_of(self._config)
        self._errors = driver().errors.PyMongoError
        offset = self.context.offset_reader.offset(self._partition) or {}
        self._last = json_util.loads(offset["poll"]) if "poll" in offset else None
        self._token = json_util.loads(offset["_id"]) if "_id" in offset and "copy" not in offset else None
        self._due = 0.0

    def poll(self) -> list[SourceRecord] | None:
        try:
            return self._documents() if self._config["poll.field"] else self._changes()
        except self._errors as error:
            self._close_stream()
            raise told(error) from None

    def _documents(self) -> list[SourceRecord] | None:
        config = self._config
        wait = self._due - time.monotonic()
        if wait > 0:
            self._stop.wait(min(wait, 0.5))
            return None
        field, most = config["poll.field"], config["poll.max.batch.size"]
        order = [("_id", 1)] if field == "_id" else [(field, 1), ("_id", 1)]
        collection = self._client[config["database"]][config["collection"]]
        cursor = (
            collection.find(next_filter(field, self._last), batch_size=config["batch.size"]).sort(order).limit(most)
        )
        with contextlib.closing(cursor):
            found = list(cursor)
        self._due = 0.0 if len(found) == most else time.monotonic() + config["poll.interval.ms"] / 1000
        made = []
        for document in found:
            self._last = {"value": value_at(document, field), "_id": document["_id"]}
            offset = {"poll": self._canonical(self._last)}
            made.append(
                self._record(config["database"], config["collection"], {"_id": document["_id"]}, document, offset)
            )
        return made or None

    def _changes(self) -> list[SourceRecord] | None:
        if self._stream is None:
            self._open()
        if self._copy is not None:
            return self._copied()
        made: list[SourceRecord] = []
        while len(made) < self._config["poll.max.batch.size"] and not self._stop.is_set():
            change = self._stream.try_next()
            if change is None:
                break
            record = self._change(change)
            if record is not None:
                made.append(record)
        self._token = self._stream.resume_token or self._token  # of what is given, never of what an error has swallowed
        if not self._stream.alive:
            logger.warning("event=change-stream-ended namespace=%r reason='dropped or renamed'", self._partition["ns"])
            self._close_stream()
        return made or None

    def _open(self) -> None:
        config = self._config
        watched = self._client
        if config["database"]:
            watched = watched[config["database"]]
        if config["collection"]:
            watched = watched[config["collection"]]
        # Unlike resume_after, start_after may stand behind the end of a stream,
        # when what it watched was dropped or renamed.
        options: dict[str, Any] = {"max_await_time_ms": config["poll.await.time.ms"], "start_after": self._token}
        if config["change.stream.full.document"] not in ("", "default"):
            options["full_document"] = config["change.stream.full.document"]
        elif config["publish.full.document.only"]:
            options["full_document"] = "updateLookup"
        if config["change.stream.full.document.before.change"] not in ("", "default"):
            options["full_document_before_change"] = config["change.stream.full.document.before.change"]
        self._stream = watched.watch(pipeline_of(config), batch_size=config["batch.size"] or None, **options)
        if self._token is None and config["startup.mode"] == "copy_existing":
            self._copy = self._existing(self._canonical(self._stream.resume_token))
        else:
            self._token = self._stream.resume_token or self._token

    def _existing(self, token: str) -> Iterator[SourceRecord]:
        """All documents, after the stream was opened: a change meanwhile comes again, behind its document."""
        before: SourceRecord | None = None
        for record in self._all_documents(token):
            if before is not None:
                yield before
            before = record
        if before is not None:
            yield before.replaced(source_offset={"_id": token})

    def _all_documents(self, token: str) -> Iterator[SourceRecord]:
        config = self._config
        databases = [config["database"]] if config["database"] else [
            name for name in self._client.list_database_names() if name not in ("admin", "config", "local")
        ]  # fmt: skip
        for database in databases:
            names = [config["collection"]] if config["collection"] else self._client[database].list_collection_names()
            for name in names:
                for event in self._inserted(database, name):
                    made = self._of_event(event, {"_id": token, "copy": "true"}, (database, name))
                    if made is not None:
                        yield made

    def _inserted(self, database: str, name: str) -> Iterator[Mapping[str, Any]]:
        """Each document of a collection as the change that inserts it, behind the stages of `pipeline`."""
        collection, stages = self._client[database][name], pipeline_of(self._config)
        place = {"db": database, "coll": name}
        if stages:
            made = {"_id": {"_id": "$_id", "copyingData": True}, "operationType": "insert", "ns": place, "documentKey": {"_id": "$_id"}, "fullDocument": "$$ROOT"}  # fmt: skip
            yield from collection.aggregate([{"$replaceRoot": {"newRoot": made}}, *stages], allowDiskUse=True)
            return
        for document in collection.find():
            id_ = document["_id"]
            yield {"_id": {"_id": id_, "copyingData": True}, "operationType": "insert", "ns": place, "documentKey": {"_id": id_}, "fullDocument": document}  # fmt: skip

    def _copied(self) -> list[SourceRecord] | None:
        assert self._copy is not None
        made = []
        for record in self._copy:
            made.append(record)
            if len(made) == self._config["poll.max.batch.size"]:
                return made
        self._copy, self._token = None, self._stream.resume_token
        return made or None

    def _change(self, change: Mapping[str, Any]) -> SourceRecord | None:
        offset = {"_id": self._canonical(change["_id"])}
        namespace = change.get("ns", {})
        place = (namespace.get("db", ""), namespace.get("coll", ""))
        if not place[0]:
            return None  # the end of the stream, which belongs to no topic
        return self._of_event(change, offset, place)

    def _of_event(
        self, event: Mapping[str, Any], offset: dict[str, str], place: tuple[str, str]
    ) -> SourceRecord | None:
        """The key is that of the document; the event's own where there is none, as when a collection is dropped."""
        config = self._config
        of_document = config["change.stream.document.key.as.key"] and "documentKey" in event
        key = event["documentKey"] if of_document else {"_id": event["_id"]}
        if not config["publish.full.document.only"]:
            return self._record(*place, key, event, offset)
        document = event.get("fullDocument")
        deletes = config["publish.full.document.only.tombstone.on.delete"]
        if "documentKey" not in event or (document is None and not deletes):
            return None
        return self._record(*place, key, document, offset)

    def _record(
        self, database: str, collection: str, key: Mapping[str, Any], value: Any, offset: dict[str, str]
    ) -> SourceRecord:
        key_schema, key_data = self._written("key", key)
        value_schema, value_data = (None, None) if value is None else self._written("value", value)
        return SourceRecord(
            topic=topic_of(self._config, database, collection),
            key_schema=key_schema,
            key=key_data,
            value_schema=value_schema,
            value=value_data,
            source_partition=self._partition,
            source_offset=offset,
        )

    def _written(self, part: str, document: Mapping[str, Any]) -> tuple[Schema, Any]:
        if self._config[f"output.format.{part}"] == "bson":
            import bson

            return s.BYTES, bson.encode(document)
        strict = self._json.LEGACY_JSON_OPTIONS
        options = self._json.CANONICAL_JSON_OPTIONS if formatter(self._config) == "ExtendedJson" else strict
        return s.STRING, self._json.dumps(document, json_options=options)

    def _canonical(self, document: Any) -> str:
        return str(self._json.dumps(document, json_options=self._json.CANONICAL_JSON_OPTIONS))

    def stop(self) -> None:
        self._stop.set()

    def _close_stream(self) -> None:
        """The next poll opens another, behind what was given; a copy that was not through begins anew."""
        stream, self._stream, self._copy = self._stream, None, None
        if stream is not None:
            with contextlib.suppress(self._errors):
                stream.close()

    def close(self) -> None:
        self._close_stream()
        if self._client is not None:
            self._client.close()


def _document(text: Any) -> Mapping[str, Any] | None:
    """Of extended JSON; None: it is none, or no object."""
    from bson import json_util
    from bson.errors import BSONError

    try:
        found = json_util.loads(text) if isinstance(text, str) else None
    except (ValueError, TypeError, BSONError):
        return None
    return found if isinstance(found, Mapping) else None


class MongoSourceConnector(SourceConnector):
    doc = "Documents of a MongoDB collection, by a field that grows, or changes, by change streams."
    aliases = ("com.mongodb.kafka.connect.MongoSourceConnector",)
    config_def: ClassVar[ConfigDef] = CONFIG_DEF
    task_class = MongoSourceTask

    def alter_offsets(self, props: Mapping[str, str], offsets: SourceOffsets) -> bool:
        config = parse(props)
        here, polls = partition_of(config), bool(config["poll.field"])
        for partition, offset in offsets:
            if offset is None:  # of whatever partition: what nobody reads can be taken away
                continue
            if partition != here:
                raise ConnectError(f"The partition of this connector is {here}")
            found = _document(offset.get("poll" if polls else "_id"))
            if found is None or (polls and not {"value", "_id"} <= found.keys()):
                form = '{"poll": the last "value" and "_id"}' if polls else '{"_id": a resume token}'
                raise ConnectError(f"An offset of MongoSource is {form}, as the text of extended JSON")
        return True

    def validate(self, props: Mapping[str, str], found: dict[str, ConfigValue]) -> None:
        found["connection.uri"].errors += [f"{name} is not supported here; remove it" for name in unsupported(props)]
        if any(each.errors for name, each in found.items() if name != "connection.uri"):
            return
        try:
            check_uri(found["connection.uri"].value)
            check({name: each.value for name, each in found.items()}, props)
        except ConfigError as error:
            found[error.name or "connection.uri"].errors.append(str(error))
