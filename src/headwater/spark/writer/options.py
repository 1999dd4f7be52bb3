"""The options of the sink: those of Spark's own Kafka sink, and `delivery`. Pure.

`delivery` is exactly-once (default for streams) or at-least-once; `transactionalIdPrefix` names the transactions, the
consumer group and the decisions of a query, in front of the query's id.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headwater.base.errors import UserError
from headwater.spark.client_options import bad_value, bootstrap_servers, check_producer, client_settings
from headwater.spark.serdes.options import SerdeOptions, is_serde_option, serde_options

if TYPE_CHECKING:
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
_COLUMNS: Final = {"key", "value", "headers", "topic", "partition"}


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
    unknown = [name for name in columns if name not in _COLUMNS]
    if unknown:
        raise UserError(
            f"The column {unknown[0]!r} has no place in a record",
            f"a record has {', '.join(sorted(_COLUMNS))}",
            "Put it into the value, as with to_json(struct(*)) AS value",
        )
    if topic is None and "topic" not in columns:
        raise UserError(
            "No topic is given", "there is neither an option topic nor a column topic", 'Add .option("topic", ...)'
        )
