"""What a record is in a collection: which `_id`, and what is done: replaced, updated, inserted, deleted. No connection
here.

What a record has never becomes an operator: filters compare by $eq, whose value is taken literally, and names in them
that begin with `$` are refused.
"""

import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from headwater.connect.connectors.mongo.documents import bson_value, document_of, encoded
from headwater.connect.connectors.mongo.projections import flattened, projected
from headwater.connect.data.record import SinkRecord
from headwater.connect.errors import ConfigError, DataError

_IDS: Final = "com.mongodb.kafka.connect.sink.processor.id.strategy."
_WRITES: Final = "com.mongodb.kafka.connect.sink.writemodel.strategy."
IDS_OF_KEYS: Final = ("FullKeyStrategy", "PartialKeyStrategy", "ProvidedInKeyStrategy", "UuidProvidedInKeyStrategy")
ID_STRATEGIES: Final = (
    "BsonOidStrategy", "KafkaMetaDataStrategy", *IDS_OF_KEYS, "PartialValueStrategy", "ProvidedInValueStrategy",
    "UuidProvidedInValueStrategy", "UuidStrategy",
)  # fmt: skip
WRITE_STRATEGIES: Final = (
    "DefaultWriteModelStrategy", "ReplaceOneDefaultStrategy", "ReplaceOneBusinessKeyStrategy", "InsertOneDefaultStrategy",
    "UpdateOneDefaultStrategy", "UpdateOneTimestampsStrategy", "UpdateOneBusinessKeyTimestampStrategy", "DeleteOneDefaultStrategy",
    "DeleteOneBusinessKeyStrategy",
)  # fmt: skip
DELETE_STRATEGIES: Final = (
    "DeleteOneDefaultStrategy", "DeleteOneBusinessKeyStrategy", "DeleteOneTombstoneBusinessKeyStrategy"
)  # fmt: skip


class Write(NamedTuple):
    """`kind` is replace, insert, update or delete; all but insert go by the filter, and make what is missing."""

    kind: str
    filter: dict[str, Any]
    document: Any = None


def short_name(text: str, prefix: str, known: tuple[str, ...], name: str) -> str:
    found = text.removeprefix(prefix)
    if found not in known:
        raise ConfigError(f"{name} is one of {', '.join(known)}", name=name)
    return found


def id_strategy(config: Mapping[str, Any]) -> str:
    return short_name(config["document.id.strategy"], _IDS, ID_STRATEGIES, "document.id.strategy")


def write_strategy(config: Mapping[str, Any]) -> str:
    return short_name(config["writemodel.strategy"], _WRITES, WRITE_STRATEGIES, "writemodel.strategy")


def delete_strategy(config: Mapping[str, Any]) -> str:
    """Of records without a value."""
    name = "delete.writemodel.strategy"
    if not config[name]:
        return DELETE_STRATEGIES["BusinessKey" in write_strategy(config)]
    return short_name(config[name], _WRITES, DELETE_STRATEGIES, name)


def write_of(config: Mapping[str, Any], record: SinkRecord, now: datetime) -> Write | None:
    """None: there is nothing to do. Raises DataError for a record that cannot be a document."""
    strategy = write_strategy(config)
    if record.value is None:
        if not config["delete.on.null.values"]:
            return None
        return Write("delete", _where(config, delete_strategy(config), _id_of(config, record, None)))
    if strategy == "DeleteOneDefaultStrategy":
        return Write("delete", _where_key(_key(record)))
    document = document_of(record.value, "value")
    overwrites = config["document.id.strategy.overwrite.existing"]
    if overwrites or "_id" not in document or (document["_id"] is None and "Provided" in id_strategy(config)):
        document = {"_id": _id_of(config, record, document), **{n: v for n, v in document.items() if n != "_id"}}
    where = _where(config, strategy, document["_id"])
    if "BusinessKey" in strategy:
        del document["_id"]
    return _written(strategy, where, document, now)


def _where_key(key: Any) -> dict[str, Any]:
    """The filter of a deletion by a record that has a value: its key is the id, or has it."""
    fields = key if isinstance(key, dict) and "_id" in key else {"_id": key}
    _check_names(fields, "key")
    found = {name: {"$eq": each} for name, each in fields.items()}
    encoded(found)
    return found


def _where(config: Mapping[str, Any], strategy: str, id_: Any) -> dict[str, Any]:
    """The filter: by the id, or by its fields."""
    if isinstance(id_, dict):
        _check_names(id_, "_id")
    found = {"_id": {"$eq": id_}}
    if "BusinessKey" in strategy:
        if not isinstance(id_, dict) or not id_:
            raise DataError(f"{strategy} needs an id that is a document: PartialKeyStrategy or PartialValueStrategy")
        fields = flattened(id_) if "Partial" in id_strategy(config) else id_
        found = {name: {"$eq": each} for name, each in fields.items()}
    encoded(found)
    return found


def _check_names(document: Mapping[str, Any], what: str) -> None:
    wrong = next((name for name in document if name.startswith("$")), None)
    if wrong is not None:
        raise DataError(f"The {what} has the field {wrong!r}: names that begin with $ are MongoDB's operators")


def _written(strategy: str, where: dict[str, Any], document: dict[str, Any], now: datetime) -> Write:
    if strategy.startswith("DeleteOne"):
        return Write("delete", where)
    if strategy.startswith("InsertOne"):
        return Write("insert", {}, encoded(document))
    _check_names(document, "value")  # a replacement whose first name is an operator is an update
    if strategy.startswith("UpdateOne"):
        fields = {name: each for name, each in document.items() if name != "_id"}
        change: dict[str, Any] = {"$set": fields}
        if "Timestamp" in strategy:
            change = {"$set": {**fields, "_modifiedTS": now}, "$setOnInsert": {"_insertedTS": now}}
        encoded(change)
        return Write("update", where, change)
    return Write("replace", where, encoded(document))


def _id_of(config: Mapping[str, Any], record: SinkRecord, document: dict[str, Any] | None) -> Any:
    strategy = id_strategy(config)
    found = _MAKERS[strategy](config, record, document)
    return _provided_uuid(found) if strategy.startswith("UuidProvided") else found


def _provided_uuid(given: Any) -> Any:
    """Binary, whatever document.id.strategy.uuid.format says: that is of ids which are made here."""
    from bson.binary import UUID_SUBTYPE, Binary

    if isinstance(given, Binary) and given.subtype == UUID_SUBTYPE:
        return given
    try:
        return Binary.from_uuid(given if isinstance(given, uuid.UUID) else uuid.UUID(str(given)))
    except ValueError:
        raise DataError(f"The _id {given!r} is no UUID") from None


def _uuid(config: Mapping[str, Any], made: uuid.UUID) -> Any:
    from bson.binary import Binary

    return str(made) if config["document.id.strategy.uuid.format"].lower() == "string" else Binary.from_uuid(made)


def _object_id(_config: Mapping[str, Any], _record: SinkRecord, _document: Any) -> Any:
    from bson import ObjectId

    return ObjectId()


def _kafka_place(_config: Mapping[str, Any], record: SinkRecord, _document: Any) -> str:
    return f"{record.topic}#{record.original_partition}#{record.offset}"


def _key(record: SinkRecord) -> Any:
    """A document where it can be one, else the plain key."""
    if record.key is None:
        raise DataError("document.id.strategy: the record has no key")
    try:
        return document_of(record.key, "key")
    except DataError:
        return bson_value(record.key_schema, record.key)


def _full_key(_config: Mapping[str, Any], record: SinkRecord, _document: Any) -> Any:
    return _key(record)


def _key_document(record: SinkRecord) -> dict[str, Any]:
    found = _key(record)
    if not isinstance(found, dict):
        raise DataError("document.id.strategy: the key is no document")
    return found


def _partial_key(config: Mapping[str, Any], record: SinkRecord, _document: Any) -> dict[str, Any]:
    return _projected(config, "key", _key_document(record))


def _partial_value(config: Mapping[str, Any], _record: SinkRecord, document: Any) -> dict[str, Any]:
    return _projected(config, "value", document)


def _projected(config: Mapping[str, Any], part: str, document: Mapping[str, Any]) -> dict[str, Any]:
    kind = config[f"document.id.strategy.partial.{part}.projection.type"].lower()
    found = projected(document, kind, config[f"document.id.strategy.partial.{part}.projection.list"])
    if not found:
        raise DataError(f"document.id.strategy: none of the fields for the _id is in the {part}")
    return found


def _id_in(holder: Mapping[str, Any] | None, part: str) -> Any:
    if holder is None or holder.get("_id") is None:
        raise DataError(f"document.id.strategy: the {part} has no _id")
    return holder["_id"]


_MAKERS: Final[dict[str, Callable[[Mapping[str, Any], SinkRecord, Any], Any]]] = {
    "BsonOidStrategy": _object_id,
    "KafkaMetaDataStrategy": _kafka_place,
    "FullKeyStrategy": _full_key,
    "PartialKeyStrategy": _partial_key,
    "PartialValueStrategy": _partial_value,
    "ProvidedInKeyStrategy": lambda _config, record, _document: _id_in(_key_document(record), "key"),
    "ProvidedInValueStrategy": lambda _config, _record, document: _id_in(document, "value"),
    "UuidProvidedInKeyStrategy": lambda _config, record, _document: _id_in(_key_document(record), "key"),
    "UuidProvidedInValueStrategy": lambda _config, _record, document: _id_in(document, "value"),
    "UuidStrategy": lambda config, _record, _document: _uuid(config, uuid.uuid4()),
}
