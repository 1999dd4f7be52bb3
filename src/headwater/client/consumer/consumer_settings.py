"""The consumer's settings: Apache Kafka 4's names and defaults, and what the core takes of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headwater.base.config.definition import ConfigType
from headwater.base.config.validators import AtLeast, OneOf
from headwater.base.errors import UserError
from headwater.client.consumer.draining import BadRecord, bad_record_rule
from headwater.client.consumer.fetch_requests import READ_COMMITTED, READ_UNCOMMITTED, FetchSettings
from headwater.client.consumer.resolving import ResetPolicy
from headwater.client.serialization.resolving import Deserialize, deserializer_for
from headwater.client.settings.common import COMMON
from headwater.client.settings.common import OLD_NAMES as COMMON_OLD_NAMES
from headwater.client.settings.parsing import Settings, read_settings, row, table_of

_T = ConfigType

CONSUMER: Final = COMMON | table_of(
    row("group.id", _T.STRING, None, "The group that shares the work, and that offsets are committed for."),
    row(
        "group.protocol",
        _T.STRING,
        "classic",
        "How the group is run: classic (members assign), or consumer (KIP-848: the broker assigns).",
        OneOf("classic", "consumer"),
    ),
    row("group.instance.id", _T.STRING, None, "A name that outlives restarts: the member keeps its partitions then."),
    row("group.remote.assignor", _T.STRING, None, "The broker's assignor (group.protocol=consumer)."),
    row("session.timeout.ms", _T.INT, 45_000, "A member that is not heard of for this long is dead.", AtLeast(1)),
    row("heartbeat.interval.ms", _T.INT, 3_000, "How often a member says that it lives.", AtLeast(1)),
    row(
        "max.poll.interval.ms",
        _T.INT,
        300_000,
        "How long the application may take between two polls before its partitions go to others.",
        AtLeast(1),
    ),
    row("max.poll.records", _T.INT, 500, "How many records one poll gives at most.", AtLeast(1)),
    row(
        "partition.assignment.strategy",
        _T.LIST,
        ["range", "cooperative-sticky"],
        "The assignors, in order of preference: range, roundrobin, sticky, cooperative-sticky, or objects.",
    ),
    row("enable.auto.commit", _T.BOOLEAN, True, "Whether poll and close commit what was read before."),
    row("auto.commit.interval.ms", _T.INT, 5_000, "How often poll commits.", AtLeast(0)),
    row(
        "auto.offset.reset",
        _T.STRING,
        "latest",
        "Where to begin without an offset, or with one that is gone: earliest, latest, by_duration:PT1H, none (an error).",
    ),
    row("fetch.min.bytes", _T.INT, 1, "The broker waits for so much before it answers.", AtLeast(0)),
    row("fetch.max.wait.ms", _T.INT, 500, "How long it waits for fetch.min.bytes.", AtLeast(0)),
    row(
        "fetch.max.bytes",
        _T.INT,
        50 * 1024 * 1024,
        "How much one answer may hold; the consumer buffers about so much in all.",
        AtLeast(0),
    ),
    row("max.partition.fetch.bytes", _T.INT, 1024 * 1024, "How much of one partition one answer may hold.", AtLeast(0)),
    row(
        "isolation.level",
        _T.STRING,
        "read_uncommitted",
        "read_committed hides what transactions have not committed.",
        OneOf("read_uncommitted", "read_committed"),
    ),
    row("client.rack", _T.STRING, "", "Where the consumer stands: it may be sent to a replica that is near."),
    row(
        "allow.auto.create.topics",
        _T.BOOLEAN,
        True,
        "Whether asking for a topic may make it. One that a pattern matches is never made.",
    ),
    row("exclude.internal.topics", _T.BOOLEAN, True, "Whether patterns leave out internal topics."),
    row("default.api.timeout.ms", _T.INT, 60_000, "How long calls without a timeout may take.", AtLeast(0)),
    row("key.deserializer", _T.CLASS, None, "A name, a function or an object; without one, keys are bytes."),
    row("value.deserializer", _T.CLASS, None, "A name, a function or an object; without one, values are bytes."),
    row(
        "on.bad.record",
        _T.CLASS,
        "raise",
        "What a record that cannot be read does: raise, skip, or a function of the error. Ours, not Kafka's.",
    ),
    row(
        "check.crcs",
        _T.BOOLEAN,
        True,
        "Without effect: they are always checked, which costs next to nothing.",
        used=False,
    ),
    row("interceptor.classes", _T.LIST, [], "Without effect.", used=False),
)

# Names of earlier days, and what they are called today. A text with a space is an explanation.
OLD_NAMES: Final = COMMON_OLD_NAMES | {
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "auto.commit.enable": "enable.auto.commit",
}
_GONE: Final = {
    "zookeeper.connect": "consumers find the cluster by its brokers, not by ZooKeeper: bootstrap.servers",
    "zookeeper.session.timeout.ms": "groups are kept by brokers, not by ZooKeeper: session.timeout.ms",
    "zookeeper.sync.time.ms": "offsets are kept by brokers, not by ZooKeeper",
    "offsets.storage": "offsets are always kept by brokers",
    "dual.commit.enabled": "offsets are kept by brokers only",
    "consumer.timeout.ms": "poll takes a timeout",
    "consumer.id": "the broker gives the member its id; group.instance.id is a lasting one",
    "rebalance.max.retries": "the group rebalances by itself",
}
_OLD_RESETS: Final = {"smallest": "earliest", "largest": "latest"}


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """What the core needs to know. `raw` has the rest, by name."""

    raw: Settings
    group_id: str | None
    fetch: FetchSettings
    reset: ResetPolicy
    auto_commit: bool
    auto_commit_interval_ms: int
    max_poll_records: int
    api_timeout_ms: int
    key: Deserialize | None
    value: Deserialize | None
    bad_record: BadRecord | None
    auto_create: bool
    exclude_internal: bool


def consumer_settings(given: Mapping[str, object] | None, keywords: Mapping[str, object]) -> ConsumerSettings:
    for name in given or ():
        if name in _GONE:
            raise UserError(f"The setting {name!r} is of Kafka's past", _GONE[name], "Leave it out")
    raw = read_settings(CONSUMER, given, keywords, old_names=OLD_NAMES)
    group_id = raw["group.id"] or None
    auto_commit = raw.flag("enable.auto.commit")
    if auto_commit and group_id is None:
        if "enable.auto.commit" in raw.given:
            raise UserError("enable.auto.commit needs a group.id", "offsets are committed for a group")
        auto_commit = False
    _check_times(raw)
    return ConsumerSettings(
        raw=raw,
        group_id=group_id,
        fetch=FetchSettings(
            min_bytes=raw.number("fetch.min.bytes"),
            max_bytes=raw.number("fetch.max.bytes"),
            max_wait_ms=raw.number("fetch.max.wait.ms"),
            partition_max_bytes=raw.number("max.partition.fetch.bytes"),
            isolation_level=READ_COMMITTED if raw.text("isolation.level") == "read_committed" else READ_UNCOMMITTED,
            rack=raw.text("client.rack"),
        ),
        reset=_reset(raw.text("auto.offset.reset")),
        auto_commit=auto_commit,
        auto_commit_interval_ms=raw.number("auto.commit.interval.ms"),
        max_poll_records=raw.number("max.poll.records"),
        api_timeout_ms=raw.number("default.api.timeout.ms"),
        key=deserializer_for(raw["key.deserializer"], "key.deserializer"),
        value=deserializer_for(raw["value.deserializer"], "value.deserializer"),
        bad_record=bad_record_rule(raw["on.bad.record"]),
        auto_create=raw.flag("allow.auto.create.topics"),
        exclude_internal=raw.flag("exclude.internal.topics"),
    )


def _reset(text: str) -> ResetPolicy:
    try:
        return ResetPolicy.parse(_OLD_RESETS.get(text.lower(), text.lower() if ":" not in text else text))
    except ValueError as error:
        raise UserError(f"auto.offset.reset cannot be {text!r}", str(error)) from None


def _check_times(raw: Settings) -> None:
    if raw.text("group.protocol") == "classic":
        if raw.number("heartbeat.interval.ms") >= raw.number("session.timeout.ms"):
            raise UserError(
                "heartbeat.interval.ms must be below session.timeout.ms",
                "a member would be declared dead between two heartbeats",
                "A third of it is usual",
            )
        return
    for name in ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"):
        if name in raw.given:
            raise UserError(
                f"{name} cannot be set with group.protocol=consumer", "the broker decides it", "Leave it out"
            )


def value_of(settings: ConsumerSettings, name: str) -> Any:
    return settings.raw[name]
