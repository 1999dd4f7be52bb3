"""The properties of MongoSource, and the topic that a namespace has."""

import json
from collections.abc import Mapping
from typing import Any, Final

from headwater.base.config.validators import AtLeast, OneOf
from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import HIGH, LOW, MEDIUM, flag, text, whole
from headwater.connect.connectors.mongo.sink_options import CONNECTION_KEY, REFUSED_PREFIXES
from headwater.connect.errors import ConfigError

_FORMATTER: Final = "com.mongodb.kafka.connect.source.json.formatter."
CONFIG_DEF: Final = ConfigDef(
    CONNECTION_KEY,
    text("database", "", HIGH, "The database; all of them if there is none (change streams only)."),
    text("collection", "", HIGH, "The collection; all of the database if there is none (change streams only)."),
    text("poll.field", "", HIGH, "A field that only grows: documents whose field is higher than the last are read, in its order, then that of _id. Changes that leave it as it is, deletions, and documents that are written late with a lower value are missed. Empty: change streams, which need a replica set."),
    whole("poll.interval.ms", 5000, MEDIUM, "How often the collection is asked, with poll.field.", AtLeast(1)),
    text("topic.prefix", "", HIGH, "Stands before the namespace in the topic's name."),
    text("topic.suffix", "", LOW, "Stands behind it."),
    text("topic.separator", ".", LOW, "Stands between them, and between database and collection."),
    text("topic.namespace.map", "", LOW, 'Topics by namespace instead, as JSON: {"db.collection": "topic", "*": "others"}.'),
    text("pipeline", "[]", MEDIUM, "Stages of an aggregation over the change stream, as MongoDB's extended JSON."),
    whole("batch.size", 0, LOW, "Documents that the server sends at once; 0: as it likes.", AtLeast(0)),
    whole("poll.max.batch.size", 1000, LOW, "Documents that one poll gives at most.", AtLeast(1)),
    whole("poll.await.time.ms", 5000, LOW, "How long a poll waits for a change.", AtLeast(1)),
    flag("publish.full.document.only", False, MEDIUM, "Whether the value is the document alone, not the change."),
    flag("publish.full.document.only.tombstone.on.delete", False, MEDIUM, "Whether a deletion is then a record without a value."),
    text("change.stream.full.document", "", MEDIUM, "Whether an update has the whole document.", OneOf("", "default", "updateLookup", "whenAvailable", "required")),
    text("change.stream.full.document.before.change", "", LOW, "Whether a change has the document before it.", OneOf("", "default", "off", "whenAvailable", "required")),
    text("startup.mode", "latest", MEDIUM, "latest: changes from now on. Nothing is kept before the first record, so a task that starts anew before it begins at its own start, and changes while it was away are missed. copy_existing: all documents first.", OneOf("latest", "copy_existing")),
    flag("copy.existing", False, LOW, "An older name of startup.mode=copy_existing; startup.mode counts if it is given."),
    flag("change.stream.document.key.as.key", True, MEDIUM, "Whether the key of a record is that of its document, as far as the change has one; otherwise it is the change's own (its resume token)."),
    text("output.format.key", "json", MEDIUM, "json or bson.", OneOf("json", "bson")),
    text("output.format.value", "json", MEDIUM, "json or bson.", OneOf("json", "bson")),
    text("output.json.formatter", f"{_FORMATTER}DefaultJson", LOW, "DefaultJson (MongoDB's strict mode) or ExtendedJson (canonical)."),
    text("offset.partition.name", "", LOW, "A name for where the offsets belong, instead of address and namespace; another one begins anew."),
)  # fmt: skip
_REFUSED: Final = (
    "topic.mapper", "output.schema.key", "output.schema.value", "output.schema.infer.value", "collation",
    "mongo.errors.tolerance", "mongo.errors.log.enable", "mongo.errors.deadletterqueue.topic.name", "provider",
    "startup.mode.timestamp.start.at.operation.time", "change.stream.show.expanded.events",
    "errors.deadletterqueue.topic.name",
)  # fmt: skip
_DONE: Final = {  # what the original does unasked, and is done here
    "change.stream.show.expanded.events": "false", "collation": "", "copy.existing.namespace.regex": "", "copy.existing.pipeline": "",
    "errors.deadletterqueue.topic.name": "", "heartbeat.interval.ms": "0", "mongo.errors.tolerance": "none",
    "output.schema.infer.value": "false", "copy.existing.allow.disk.use": "true", "startup.mode.copy.existing.allow.disk.use": "true",
    "startup.mode.copy.existing.namespace.regex": "", "startup.mode.copy.existing.pipeline": "",
    "topic.mapper": "com.mongodb.kafka.connect.source.topic.mapping.DefaultTopicMapper",
}  # fmt: skip
_PREFIXES: Final = (*REFUSED_PREFIXES, "copy.existing.", "startup.mode.copy.existing.", "heartbeat.")
_FOR_STREAMS: Final = (
    "pipeline", "change.stream.full.document", "change.stream.full.document.before.change", "startup.mode",
    "publish.full.document.only.tombstone.on.delete", "poll.await.time.ms", "copy.existing", "change.stream.document.key.as.key",
)  # fmt: skip


def unsupported(props: Mapping[str, str]) -> list[str]:
    known = {name for name, value in props.items() if _DONE.get(name) == value.strip()}
    return sorted(name for name in props.keys() - known if name in _REFUSED or name.startswith(_PREFIXES))


def parse(props: Mapping[str, str]) -> dict[str, Any]:
    config = CONFIG_DEF.parse(props)
    if config["copy.existing"] and "startup.mode" not in props:
        config["startup.mode"] = "copy_existing"
    return config


def check(config: Mapping[str, Any], given: Mapping[str, str]) -> None:
    """Properties together. Raises ConfigError."""
    if config["collection"] and not config["database"]:
        raise ConfigError("A collection needs a database", name="database")
    if config["poll.field"] and not config["collection"]:
        raise ConfigError("poll.field needs a collection", name="collection")
    if config["poll.field"]:
        needless = next((name for name in _FOR_STREAMS if name in given), None)
        if needless is not None:
            raise ConfigError(f"{needless} is for change streams, and poll.field does without", name=needless)
    formatter(config)
    pipeline_of(config)
    topic_of(config, "db", "collection")


def formatter(config: Mapping[str, Any]) -> str:
    found = str(config["output.json.formatter"]).removeprefix(_FORMATTER)
    if found not in ("DefaultJson", "ExtendedJson"):
        raise ConfigError("output.json.formatter is DefaultJson or ExtendedJson", name="output.json.formatter")
    return found


def pipeline_of(config: Mapping[str, Any]) -> list[Any]:
    from bson import json_util
    from bson.errors import BSONError

    try:
        found = json_util.loads(config["pipeline"])
    except (ValueError, TypeError, BSONError):
        found = None
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ConfigError("pipeline: a JSON list of stages is needed", name="pipeline")
    return found


def topic_of(config: Mapping[str, Any], database: str, collection: str) -> str:
    separator = config["topic.separator"]
    named = _mapped(config, f"{database}.{collection}" if collection else database)
    if named is None:
        named = separator.join(each for each in (database, collection) if each)
    return str(separator.join(each for each in (config["topic.prefix"], named, config["topic.suffix"]) if each))


def _mapped(config: Mapping[str, Any], namespace: str) -> str | None:
    if not config["topic.namespace.map"]:
        return None
    try:
        found = json.loads(config["topic.namespace.map"])
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(each, str) and each for each in found.values()):
        raise ConfigError("topic.namespace.map: a JSON object of topics is needed", name="topic.namespace.map")
    return found.get(namespace, found.get("*"))
