"""The properties of MongoSink, and `topic.override.<topic>.<property>` for single topics."""

from collections.abc import Mapping
from typing import Any, Final

from headwater.base.config.validators import AtLeast, OneOf
from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import HIGH, LOW, MEDIUM, REQUIRED, NonEmptyText, flag, listing, text, whole
from headwater.connect.connectors.mongo.projections import ALLOWING, BLOCKING

CONNECTION_KEY: Final = text("connection.uri", "mongodb://localhost:27017", HIGH, "mongodb://user:password@host:port or mongodb+srv://host, with the options of MongoDB's drivers; better a reference to a config provider.", NonEmptyText())  # fmt: skip
_PROJECTIONS: Final = OneOf("none", *ALLOWING, *BLOCKING, ignore_case=True)
_PREFIX: Final = "topic.override."
CONFIG_DEF: Final = ConfigDef(
    CONNECTION_KEY,
    text("database", REQUIRED, HIGH, "The database.", NonEmptyText()),
    text("collection", "", HIGH, "The collection; the topic's name if there is none."),
    text("document.id.strategy", "BsonOidStrategy", HIGH, "Where a document's _id comes from: BsonOidStrategy (a new one, so a record that comes again is another document), KafkaMetaDataStrategy (topic, partition and offset), FullKeyStrategy (the key, a document or a plain value), PartialKeyStrategy, PartialValueStrategy, ProvidedInKeyStrategy, ProvidedInValueStrategy, UuidStrategy, UuidProvidedInKeyStrategy, UuidProvidedInValueStrategy. An _id that the value has stays, unless it is to be overwritten."),
    flag("document.id.strategy.overwrite.existing", False, LOW, "Whether an _id that the value has is replaced."),
    text("document.id.strategy.uuid.format", "string", LOW, "string or binary.", OneOf("string", "binary")),
    text("document.id.strategy.partial.key.projection.type", "none", LOW, "allowlist or blocklist, for PartialKeyStrategy.", _PROJECTIONS),
    listing("document.id.strategy.partial.key.projection.list", [], LOW, "The fields of the key that are the _id, or that are not: a, a.b (within one), * (any one name), ** (all), a* (that begin so). Of an allowed a that is a document itself, a.** keeps what is in it."),
    text("document.id.strategy.partial.value.projection.type", "none", LOW, "allowlist or blocklist, for PartialValueStrategy.", _PROJECTIONS),
    listing("document.id.strategy.partial.value.projection.list", [], LOW, "The fields of the value that are the _id, or that are not, likewise."),
    text("writemodel.strategy", "DefaultWriteModelStrategy", MEDIUM, "What is done with a document: DefaultWriteModelStrategy and ReplaceOneDefaultStrategy (replaced by its _id, or inserted), ReplaceOneBusinessKeyStrategy (by the fields of its _id), InsertOneDefaultStrategy (a document whose _id is there already stays as it is), UpdateOneDefaultStrategy (its fields are set), UpdateOneTimestampsStrategy and UpdateOneBusinessKeyTimestampStrategy (with _insertedTS and _modifiedTS), DeleteOneDefaultStrategy, DeleteOneBusinessKeyStrategy."),
    flag("delete.on.null.values", False, MEDIUM, "Whether a record without a value deletes the document of its key; otherwise it is passed over."),
    text("delete.writemodel.strategy", "", LOW, "What a record without a value deletes: DeleteOneDefaultStrategy (by the _id), DeleteOneTombstoneBusinessKeyStrategy, or DeleteOneBusinessKeyStrategy (by the fields of the _id). If there is none: by fields with a writemodel.strategy that goes by them, else by the _id."),
    whole("max.batch.size", 0, MEDIUM, "How many documents one request has at most; 0: no limit but the driver's.", AtLeast(0)),
    flag("bulk.write.ordered", True, LOW, "Whether documents are written in the order of their records. Without it, of two records with the same id the first may count."),
)  # fmt: skip
_REFUSED: Final = (
    "post.processor.chain", "key.projection.type", "key.projection.list", "value.projection.type", "value.projection.list",
    "field.renamer.mapping", "field.renamer.regexp", "rate.limiting.timeout", "rate.limiting.every.n", "change.data.capture.handler",
    "mongo.errors.tolerance", "mongo.errors.log.enable", "provider", "max.num.retries", "retries.defer.timeout",
    "change.data.capture.handler.remove.null.values", "field.value.transformer", "field.value.transformer.fields",
)  # fmt: skip
# What the original does unasked, and is done here: MongoDB's own example of a config says most of it.
_DONE: Final = {
    "post.processor.chain": "com.mongodb.kafka.connect.sink.processor.DocumentIdAdder", "key.projection.type": "none",
    "key.projection.list": "", "value.projection.type": "none", "value.projection.list": "", "field.renamer.mapping": "[]",
    "field.renamer.regexp": "[]", "rate.limiting.timeout": "0", "rate.limiting.every.n": "0", "change.data.capture.handler": "",
    "change.data.capture.handler.remove.null.values": "false", "field.value.transformer": "", "field.value.transformer.fields": "",
    "mongo.errors.tolerance": "none", "timeseries.timefield": "", "timeseries.metafield": "", "timeseries.expire.after.seconds": "0",
    "namespace.mapper": "com.mongodb.kafka.connect.sink.namespace.mapping.DefaultNamespaceMapper",
}  # fmt: skip
REFUSED_PREFIXES: Final = (
    "namespace.mapper",
    "timeseries.",
    "server.api.",
    "connection.ssl.",
    "connection.provider.",
    "csfle.",
    "mongo.custom.auth.mechanism.",
)


def unsupported(props: Mapping[str, str]) -> list[str]:
    """Properties of the connector that this follows which have no effect here."""
    known = {name for name, value in props.items() if _DONE.get(name) == value.strip()}
    found = [name for name in props if name not in known and (name in _REFUSED or name.startswith(REFUSED_PREFIXES))]
    for name in props:
        if name.startswith(_PREFIX) and not any(name.endswith(f".{key.name}") for key in CONFIG_DEF):
            found.append(name)
    return sorted(found)


def config_of(props: Mapping[str, str], topic: str) -> dict[str, Any]:
    """With what is set for this topic alone."""
    prefix = f"{_PREFIX}{topic}."
    own = {name.removeprefix(prefix): value for name, value in props.items() if name.startswith(prefix)}
    return CONFIG_DEF.parse({**props, **own})


def overridden_topics(props: Mapping[str, str]) -> list[str]:
    names = sorted((key.name for key in CONFIG_DEF), key=len, reverse=True)
    found = set()
    for name in props:
        if name.startswith(_PREFIX):
            ending = next((each for each in names if name.endswith(f".{each}")), None)
            if ending is not None:
                found.add(name.removeprefix(_PREFIX).removesuffix(f".{ending}"))
    return sorted(found)
