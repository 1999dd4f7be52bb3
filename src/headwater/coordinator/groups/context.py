"""What a group decision is given: who asks, what the cluster has, what the broker was set to, and the shard's table of
groups.

`ShardState` is owned by one `GroupShard` and shared with its two engines, classic and consumer. Everything else here is
read only.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from headwater.base.config.group import (
    CONSUMER_ASSIGNMENT_INTERVAL,
    CONSUMER_HEARTBEAT_INTERVAL,
    CONSUMER_SESSION_TIMEOUT,
    group_number,
)
from headwater.base.errors import ErrorCode
from headwater.base.ports import Random
from headwater.coordinator.effects import CoordinatorRecord, Ticket
from headwater.coordinator.groups.sizes import fit

if TYPE_CHECKING:
    from headwater.coordinator.groups.group import Group

ErrorResponse: TypeAlias = Callable[[ErrorCode], Any]
"""Makes the response of one API that says nothing but an error."""

_NO_LIMIT: Final = 2**31 - 1
_NO_CONFIG: Final[Mapping[str, str]] = {}

Parked: TypeAlias = list[tuple[Ticket, ErrorResponse]]


@dataclass(frozen=True, slots=True)
class GroupContext:
    """Who asks."""

    api_version: int
    client_id: str = ""  # empty when the client sent none
    client_host: str = ""  # as Kafka shows it: "/127.0.0.1"


class Topics(Protocol):
    """The cluster's topics, as the groups need to know them. A change makes a new view, with a higher version."""

    @property
    def ids(self) -> Mapping[str, bytes]: ...

    @property
    def names(self) -> Mapping[bytes, str]: ...

    @property
    def version(self) -> int: ...

    def partition_count(self, topic: str) -> int | None: ...


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The broker's properties for groups, with Kafka's defaults."""

    session_timeout_min_ms: int = 6_000  # group.min.session.timeout.ms
    session_timeout_max_ms: int = 1_800_000  # group.max.session.timeout.ms
    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    group_size_max: int = 2**31 - 1  # group.max.size
    offset_metadata_length_max: int = 4_096  # offset.metadata.max.bytes; Kafka counts characters
    offsets_retention_ms: int = 10_080 * 60_000  # offsets.retention.minutes
    offsets_retention_check_interval_ms: int = 600_000  # offsets.retention.check.interval.ms
    consumer_session_timeout_ms: int = 45_000  # group.consumer.session.timeout.ms
    consumer_heartbeat_interval_ms: int = 5_000  # group.consumer.heartbeat.interval.ms
    consumer_group_size_max: int = 2**31 - 1  # group.consumer.max.size
    consumer_assignors: tuple[str, ...] = ("uniform", "range")  # group.consumer.assignors, the first is the default
    consumer_assignment_interval_ms: int = 1_000  # group.consumer.assignment.interval.ms
    consumer_regex_refresh_interval_ms: int = 600_000  # group.consumer.regex.refresh.interval.ms
    consumer_migration_policy: str = "bidirectional"  # group.consumer.migration.policy
    rebalance_protocols: tuple[str, ...] = ("classic", "consumer")  # group.coordinator.rebalance.protocols


@dataclass(slots=True)
class ShardState:
    """The groups of one partition of `__consumer_offsets`, and what decisions about them rest on."""

    settings: GroupSettings
    random: Random
    topics: Topics
    groups: "dict[str, Group]" = field(default_factory=dict)
    config_of: Callable[[str], Mapping[str, str]] = lambda _: _NO_CONFIG  # what a group has set for itself
    batch_bytes_max: Callable[[], int] = lambda: _NO_LIMIT  # of what is written at once: the topic's config may change

    def settings_of(self, group_id: str) -> GroupSettings:
        """The broker's settings, with what the group has set for itself."""
        config, settings = self.config_of(group_id), self.settings
        if not config:
            return settings
        return replace(
            settings,
            consumer_session_timeout_ms=group_number(
                config, CONSUMER_SESSION_TIMEOUT, settings.consumer_session_timeout_ms
            ),
            consumer_heartbeat_interval_ms=group_number(
                config, CONSUMER_HEARTBEAT_INTERVAL, settings.consumer_heartbeat_interval_ms
            ),
            consumer_assignment_interval_ms=group_number(
                config, CONSUMER_ASSIGNMENT_INTERVAL, settings.consumer_assignment_interval_ms
            ),
        )

    def fits(self, records: Sequence[CoordinatorRecord]) -> bool:
        """Whether the log would take them as one batch. To be asked before a client's decision that can be as large as
        the client likes.
        """
        return fit(records, self.batch_bytes_max())
