"""The options of the sink: those of Spark's own Kafka sink, and `delivery`. Pure.

`delivery` is exactly-once (default for streams) or at-least-once; `transactionalIdPrefix` names the transactions, the
consumer group and the decisions of a query, in front of the query's id.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headwater.base.errors import UserError
from headwater.spark.client_options import bad_value, bootstrap_servers, check_producer, client_settings
from headwater.spark.serdes.options import COLUMNS, SerdeOptions, is_serde_option, serde_options

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

    from headwater.spark.serdes.encoding import SinkColumn

EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"
_KNOWN: Final = frozenset(
    ("topic", "includeheaders", "delivery", "transactionalidprefix", "checkpointlocation", "queryname", "path")
)
_REFUSED: Final = {
    "kafka.transactional.id": "Name the transactions with the option transactionalIdPrefix",
    "kafka.key.serializer": "Keys are columns of strings or bytes, or typed by the option key.format",
    "kafka.value.serializer": "Values are columns of strings or bytes, or typed by the option value.format",
    "kafka.acks": "The writer waits for all in-sync replicas",
    "kafka.enable.idempotence": "The writer is idempotent",
}
_WANTED: Final = {
    "key": "string or binary",
    "value": "string or binary",
    "headers": "array<struct<key:string,value:binary>>",
    "topic": "string",
    "partition": "int",
}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    bootstrap_servers: str
    topic: str | None  # None: a column says it
    delivery: str
    prefix: str
    client: Mapping[str, str] = field(default_factory=dict)
    serdes: SerdeOptions | None = None  # None: keys and values are strings or bytes
    encodings: "tuple[SinkColumn, ...]" = ()  # of typed columns, once their schemas are registered


def parse_sink_options(options: Mapping[str, str], columns: list[str], *, streaming: bool) -> SinkOptions:
    given = {name.lower(): value for name, value in options.items()}
    for name in given:
        if name in _REFUSED:
            raise UserError(f"The option {name} cannot be set", "the writer decides it", _REFUSED[name])
        if not name.startswith("kafka.") and name not in _KNOWN and not is_serde_option(name, sink=True):
            raise UserError(
                f"The option {name!r} is not known", "", "The options are those of Spark's Kafka sink, and delivery"
            )
    _check_columns(columns, given.get("topic"))
    delivery = given.get("delivery", EXACTLY_ONCE if streaming else AT_LEAST_ONCE).strip().lower()
    if delivery not in (EXACTLY_ONCE, AT_LEAST_ONCE):
        raise bad_value("delivery", delivery, f"it is not one of: {EXACTLY_ONCE}, {AT_LEAST_ONCE}")
    if delivery == EXACTLY_ONCE and not streaming:
        raise bad_value(
            "delivery",
            delivery,
            "a batch has no checkpoint to go on from",
            "Write it as a stream with the trigger availableNow",
        )
    prefix = given.get("transactionalidprefix", "headwater").strip()
    if not prefix:
        raise bad_value("transactionalIdPrefix", prefix, "it is empty")
    client = client_settings(given)
    check_producer(client)
    topic = given.get("topic")
    serdes = serde_options(given, (topic,) if topic else (), sink=True)
    return SinkOptions(bootstrap_servers(given), topic, delivery, prefix, client, serdes)


def _check_columns(columns: list[str], topic: str | None) -> None:
    if "value" not in columns:
        raise UserError(
            "There is no column 'value' to write",
            f"the columns are {', '.join(columns)}",
            "Select or rename one: expr AS value",
        )
    unknown = [name for name in columns if name not in _WANTED]
    if unknown:
        raise UserError(
            f"The column {unknown[0]!r} has no place in a record",
            f"a record has {', '.join(sorted(_WANTED))}",
            "Put it into the value, as with to_json(struct(*)) AS value",
        )
    if topic is None and "topic" not in columns:
        raise UserError(
            "No topic is given", "there is neither an option topic nor a column topic", 'Add .option("topic", ...)'
        )


def check_types(options: SinkOptions, schema: "StructType") -> None:
    """Raises what each task would, on the driver and before a transaction is begun."""
    typed = {each.column for each in options.serdes.formats} if options.serdes is not None else set()
    for each in schema:
        name: str = each.name
        if name in typed or (name == "topic" and options.topic is not None):
            continue
        if not _fits(name, each.dataType):
            hint = f"Cast it, or say how it is written with the option {name}.format" if name in COLUMNS else "Cast it"
            raise UserError(
                f"The column {name} cannot be written",
                f"it is {each.dataType.simpleString()}, not {_WANTED[name]}",
                hint,
            )


def _fits(name: str, of_type: "DataType") -> bool:
    from pyspark.sql import types as spark

    text = (spark.StringType, spark.BinaryType, spark.NullType)
    match name:
        case "topic":
            return isinstance(of_type, spark.StringType)
        case "partition":
            return isinstance(of_type, spark.IntegralType)
        case "headers" if isinstance(of_type, spark.ArrayType) and isinstance(of_type.elementType, spark.StructType):
            there = {each.name: each.dataType for each in of_type.elementType}
            return all(isinstance(there.get(part), text) for part in ("key", "value"))
        case "headers":
            return isinstance(of_type, spark.NullType)
    return isinstance(of_type, text)
