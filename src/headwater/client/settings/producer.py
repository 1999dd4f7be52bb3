"""The settings of a producer, and the rules between them: what idempotence asks of the others, and what is refused."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headwater.base.config.definition import ConfigType
from headwater.base.config.validators import AtLeast, Between, OneOf
from headwater.base.errors import UserError
from headwater.client.settings.common import COMMON
from headwater.client.settings.common import OLD_NAMES as COMMON_OLD_NAMES
from headwater.client.settings.parsing import Settings, read_settings, row, table_of
from headwater.records.compression import CODEC_IDS

ACKS_ALL: Final = -1
IN_FLIGHT_MAX: Final = 5  # of an idempotent producer: a broker remembers as many batches of it per partition
_INT_MAX: Final = (1 << 31) - 1

PRODUCER: Final = {
    **COMMON,
    **table_of(
        row(
            "acks",
            ConfigType.STRING,
            "all",
            "Who must have a record before it counts as sent: nobody (0), the partition's leader (1), all in-sync replicas.",
            OneOf("all", "-1", "0", "1"),
        ),
        row(
            "retries",
            ConfigType.INT,
            _INT_MAX,
            "How often a batch is tried again. `delivery.timeout.ms` is the better limit.",
            Between(0, _INT_MAX),
        ),
        row(
            "delivery.timeout.ms",
            ConfigType.INT,
            120_000,
            "How long the delivery of a record may take, retries included; then it has failed.",
            AtLeast(0),
        ),
        row(
            "batch.size",
            ConfigType.INT,
            65_536,
            "How many bytes of records, before compression, a batch holds. Apache Kafka's default is 16384; the work that "
            "comes with each batch takes as long in Python as 100 to 200 records, so fewer and larger ones are faster.",
            AtLeast(0),
        ),
        row(
            "linger.ms",
            ConfigType.LONG,
            5,
            "How long a batch waits for more records. A record that somebody waits for (`result`, `flush`) goes at once.",
            AtLeast(0),
        ),
        row(
            "buffer.memory",
            ConfigType.LONG,
            33_554_432,
            "How many bytes of records may wait or be under way. `send` waits while it is full.",
            AtLeast(0),
        ),
        row(
            "max.block.ms",
            ConfigType.LONG,
            60_000,
            "How long `send` may wait for metadata or memory, and a call about transactions for its answer.",
            AtLeast(0),
        ),
        row(
            "max.request.size",
            ConfigType.INT,
            1_048_576,
            "The largest record, and the largest request unless one batch alone is larger, before compression.",
            AtLeast(0),
        ),
        row(
            "max.in.flight.requests.per.connection",
            ConfigType.INT,
            5,
            "How many requests one broker may have unanswered. Order under retries holds with idempotence, or with 1.",
            AtLeast(1),
        ),
        row(
            "compression.type",
            ConfigType.STRING,
            "none",
            "How batches are compressed.",
            OneOf(*CODEC_IDS),
        ),
        row("compression.gzip.level", ConfigType.INT, -1, "1 to 9, or -1 for zlib's own choice.", Between(-1, 9)),
        row("compression.lz4.level", ConfigType.INT, 9, "1 to 17.", Between(1, 17)),
        row("compression.zstd.level", ConfigType.INT, 3, "-131072 to 22.", Between(-131_072, 22)),
        row(
            "enable.idempotence",
            ConfigType.BOOLEAN,
            True,
            "A retry never writes a record twice, nor out of order. Needs acks=all, retries, and at most 5 requests in flight.",
        ),
        row("transactional.id", ConfigType.STRING, None, "The name under which transactions are made; None for none."),
        row(
            "transaction.timeout.ms",
            ConfigType.INT,
            60_000,
            "After how long the broker aborts a transaction that was left open.",
            AtLeast(1),
        ),
        row(
            "partitioner.class",
            ConfigType.CLASS,
            None,
            "None: by key, else sticky. `round_robin`, or a function or object: see `headwater.client.partitioner`.",
        ),
        row(
            "partitioner.ignore.keys",
            ConfigType.BOOLEAN,
            False,
            "Whether records with a key are spread as those without.",
        ),
        row(
            "partitioner.adaptive.partitioning.enable",
            ConfigType.BOOLEAN,
            True,
            "Whether the sticky choice prefers partitions with fewer batches waiting.",
        ),
        row(
            "key.serializer", ConfigType.CLASS, None, "A function, or an object with `serialize(topic, data, headers)`."
        ),
        row("value.serializer", ConfigType.CLASS, None, "As `key.serializer`, for values."),
        row(
            "allow.auto.create.topics",
            ConfigType.BOOLEAN,
            True,
            "Whether a topic that is written to may be made by the broker, if its own settings allow that.",
        ),
        row(
            "metadata.max.idle.ms",
            ConfigType.LONG,
            300_000,
            "After how long without a record a topic is forgotten.",
            AtLeast(5000),
        ),
        row("interceptor.classes", ConfigType.LIST, [], "Without effect.", used=False),
        row("partitioner.availability.timeout.ms", ConfigType.LONG, 0, "Without effect.", used=False),
    ),
}

OLD_NAMES: Final = {
    **COMMON_OLD_NAMES,
    "request.required.acks": "acks",
    "compression.codec": "compression.type",
    "message.send.max.retries": "retries",
    "queue.buffering.max.ms": "linger.ms",
}


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """The values as the producer's parts read them. Times in seconds, but for those that end in _ms."""

    acks: int
    retries: int
    delivery_timeout: float
    batch_bytes: int
    linger: float
    buffer_bytes: int
    max_block: float
    request_bytes_max: int
    in_flight_max: int
    codec: int
    level: int | None
    idempotent: bool
    transactional_id: str | None
    transaction_timeout_ms: int
    partitioner: Any
    ignore_keys: bool
    adaptive: bool
    key_serializer: Any
    value_serializer: Any
    auto_create: bool
    metadata_max_idle: float


def read_producer_settings(
    given: Mapping[str, object] | None, keywords: Mapping[str, object]
) -> tuple[Settings, ProducerSettings]:
    _refuse_old_acks(given, keywords)
    settings = read_settings(PRODUCER, given, keywords, old_names=OLD_NAMES)
    acks = {"all": ACKS_ALL, "-1": ACKS_ALL, "0": 0, "1": 1}[settings.text("acks")]
    codec = settings.text("compression.type")
    level_name = f"compression.{codec}.level"
    return settings, ProducerSettings(
        acks=acks,
        retries=settings.number("retries"),
        delivery_timeout=_delivery_timeout_ms(settings) / 1000,
        batch_bytes=settings.number("batch.size"),
        linger=settings.number("linger.ms") / 1000,
        buffer_bytes=settings.number("buffer.memory"),
        max_block=settings.number("max.block.ms") / 1000,
        request_bytes_max=settings.number("max.request.size"),
        in_flight_max=settings.number("max.in.flight.requests.per.connection"),
        codec=CODEC_IDS[codec],
        level=settings.number(level_name) if level_name in settings.given else None,
        idempotent=_idempotent(settings, acks),
        transactional_id=settings["transactional.id"],
        transaction_timeout_ms=settings.number("transaction.timeout.ms"),
        partitioner=settings["partitioner.class"],
        ignore_keys=settings.flag("partitioner.ignore.keys"),
        adaptive=settings.flag("partitioner.adaptive.partitioning.enable"),
        key_serializer=settings["key.serializer"],
        value_serializer=settings["value.serializer"],
        auto_create=settings.flag("allow.auto.create.topics"),
        metadata_max_idle=settings.number("metadata.max.idle.ms") / 1000,
    )


def _refuse_old_acks(given: Mapping[str, object] | None, keywords: Mapping[str, object]) -> None:
    """Early Kafka took any number of replicas. Numbers above 1 were dropped because they promised less than they
    said.
    """
    both = {**(given or {}), **keywords}
    for name in ("acks", "request.required.acks", "request_required_acks"):
        text = str(both.get(name, "")).strip()
        if text.isdecimal() and int(text) > 1:
            raise UserError(
                f"{name}={text} cannot be used",
                "a number of replicas to wait for was dropped from Kafka in 0.9; today it is 0, 1 or all, and how many "
                "replicas 'all' are at least is the topic's min.insync.replicas",
                f"Set acks=all, and min.insync.replicas={text} on the topic",
            )


def _delivery_timeout_ms(settings: Settings) -> int:
    total_ms = settings.number("delivery.timeout.ms")
    least_ms = settings.number("linger.ms") + settings.number("request.timeout.ms")
    if total_ms >= least_ms:
        return total_ms
    if "delivery.timeout.ms" not in settings.given:
        return least_ms
    raise UserError(
        f"delivery.timeout.ms={total_ms} is too short",
        f"one attempt alone may take linger.ms + request.timeout.ms = {least_ms} ms",
        "Set a longer delivery.timeout.ms, or a shorter request.timeout.ms",
    )


def _idempotent(settings: Settings, acks: int) -> bool:
    """Off if another setting forbids it, unless it was asked for by name (a transactional id asks for it too)."""
    wanted = settings.flag("enable.idempotence")
    asked = "enable.idempotence" in settings.given and wanted
    if settings["transactional.id"] is not None:
        if not wanted:
            raise UserError("transactional.id needs enable.idempotence", "transactions stand on it", "Leave it on")
        asked = True
    if not wanted:
        return False
    in_flight = settings.number("max.in.flight.requests.per.connection")
    obstacles = [
        ("acks", f"acks={settings.text('acks')}", "acks=all", acks != ACKS_ALL),
        ("retries", "retries=0", "retries of 1 or more", settings.number("retries") == 0),
        (
            "max.in.flight.requests.per.connection",
            f"max.in.flight.requests.per.connection={in_flight}",
            f"max.in.flight.requests.per.connection of {IN_FLIGHT_MAX} or less",
            in_flight > IN_FLIGHT_MAX,
        ),
    ]
    for _, said, needed, in_the_way in obstacles:
        if in_the_way and asked:
            raise UserError(f"Idempotence cannot be had with {said}", f"it needs {needed}", "Change one of the two")
    return not any(in_the_way for *_, in_the_way in obstacles)
