"""The group coordinator of this broker: shards of `__consumer_offsets`, and the view of the topics that they decide
upon.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.names import CONSUMER_OFFSETS
from headwater.broker.context import RequestContext
from headwater.broker.coordinators.host import CoordinatorHost
from headwater.broker.coordinators.runtime import Runtime
from headwater.broker.coordinators.shard_protocol import MayWrite, batch_bytes_max
from headwater.coordinator.effects import Effects, Producer, Ticket
from headwater.coordinator.groups.consumer.consumer_groups import ConsumerGroups
from headwater.coordinator.groups.context import GroupContext, GroupSettings, ShardState
from headwater.coordinator.groups.plain_commits import Part
from headwater.coordinator.groups.shard import GroupShard
from headwater.replication.partition import Partition

if TYPE_CHECKING:
    from headwater.base.config.broker import BrokerConfig
    from headwater.metadata.image import ClusterImage

_MINUTE_MS: Final = 60_000
_NO_CONFIG: Final[Mapping[str, str]] = {}

AppendCommit: TypeAlias = Callable[[Partition, str, str, bytes, list[Part], int], int]
"""Writes the records of a commit as one batch: partition of `__consumer_offsets`, group, topic, its id, parts, now. The
last offset, or -1: it cannot be done this way, and nothing was written."""


class TopicsView:
    """The topics as they are now. A new one is made for each change, so that shards can see that something changed."""

    def __init__(self, image: "ClusterImage", version: int) -> None:
        self._image = image
        self.version = version
        self.ids: Mapping[str, bytes] = image.ids_by_name
        self.names: Mapping[bytes, str] = {topic_id: topic.name for topic_id, topic in image.topics.items()}

    def partition_count(self, topic: str) -> int | None:
        topic_id = self._image.ids_by_name.get(topic)
        return None if topic_id is None else len(self._image.topics[topic_id].partitions)


class GroupCoordinator:
    """Owned by the broker."""

    def __init__(self, broker: CoordinatorHost) -> None:
        self._broker = broker
        self._topics = TopicsView(broker.image, 0)
        config = broker.config
        settings = group_settings(config)
        self.runtime: Runtime[GroupShard] = Runtime(
            broker,
            CONSUMER_OFFSETS,
            partitions_setting="offsets.topic.num.partitions",
            replication_setting="offsets.topic.replication.factor",
            topic_config={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.int("offsets.topic.segment.bytes")),
            },
            make_shard=lambda partition: GroupShard(
                settings,
                broker.random,
                self._topics,
                _consumer_engine,
                partial(batch_bytes_max, partition),
                self._config_of,
            ),
        )

    def call(
        self,
        context: RequestContext,
        group_id: str,
        decide: Callable[[GroupShard, GroupContext, Ticket, int], Effects],
        error: Callable[[ErrorCode], Any],
        *,
        may_write: MayWrite = True,
    ) -> Any:
        """A request about one group: a Deferred, or the error's response."""
        who = GroupContext(context.api_version, context.client_id or "", f"/{context.connection.client_host}")
        return self.runtime.call(
            group_id,
            lambda shard, ticket: decide(shard, who, ticket, self._broker.now_ms()),
            error,
            may_write=may_write,
        )

    def commit_at_once(
        self,
        version: int,
        append: AppendCommit,
        group_id: str,
        epoch: int,
        member_id: str,
        instance_id: str | None,
        topic: str | bytes,
        parts: list[Part],
    ) -> bool:
        """A commit that is decided, written and committed in one go. False: nothing was changed, `call` must look at
        it.
        """
        hosted = self.runtime.at_rest(group_id)
        if hosted is None:
            return False
        plain = hosted.shard.plain_commits
        admitted = plain.admit(version, group_id, epoch, member_id, instance_id, topic, parts)
        if admitted is None:
            return False
        name, topic_id = admitted
        now_ms = self._broker.now_ms()
        try:
            last_offset = append(hosted.partition, group_id, name, topic_id, parts, now_ms)
        except KafkaError:  # the general way meets the same trouble, and does what is to be done about it
            return False
        if last_offset < 0:
            return False
        hosted.wrote(last_offset)
        effects = plain.note(group_id, member_id, name, topic_id, parts, now_ms)
        if effects is not None:
            hosted.run(effects)
        return True

    def _config_of(self, group_id: str) -> Mapping[str, str]:
        """What the group has set for itself, as the image has it now."""
        return self._broker.image.group_configs.get(group_id, _NO_CONFIG)

    def topics_changed(self) -> None:
        """The image has other topics or partitions than before. Shards that are being loaded hear of it too."""
        self._topics = TopicsView(self._broker.image, self._topics.version + 1)
        for hosted in list(self.runtime.hosted.values()):
            hosted.decide(lambda shard: shard.on_metadata_changed(self._topics, self._broker.now_ms()))

    def topic_deleted(self, topic: str, topic_id: bytes) -> None:
        for hosted in list(self.runtime.hosted.values()):
            hosted.decide(lambda shard: shard.topic_deleted(topic, topic_id, self._broker.now_ms()))

    def transaction_ended(self, partition: int, producer: Producer, *, committed: bool, offset: int) -> None:
        """A marker was appended to this partition of `__consumer_offsets`, at that offset."""
        hosted = self.runtime.hosted.get(partition)
        if hosted is not None and hosted.is_loaded:
            hosted.wrote(offset)
            hosted.run(hosted.shard.end_transaction(producer, committed=committed))


def _consumer_engine(state: ShardState, _classic: object) -> ConsumerGroups:
    return ConsumerGroups(state)


def group_settings(config: "BrokerConfig") -> GroupSettings:
    return GroupSettings(
        session_timeout_min_ms=config.int("group.min.session.timeout.ms"),
        session_timeout_max_ms=config.int("group.max.session.timeout.ms"),
        initial_rebalance_delay_ms=config.int("group.initial.rebalance.delay.ms"),
        group_size_max=config.int("group.max.size"),
        offset_metadata_length_max=config.int("offset.metadata.max.bytes"),
        offsets_retention_ms=config.int("offsets.retention.minutes") * _MINUTE_MS,
        offsets_retention_check_interval_ms=config.int("offsets.retention.check.interval.ms"),
        consumer_session_timeout_ms=config.int("group.consumer.session.timeout.ms"),
        consumer_heartbeat_interval_ms=config.int("group.consumer.heartbeat.interval.ms"),
        consumer_group_size_max=config.int("group.consumer.max.size"),
        consumer_assignors=tuple(config.list("group.consumer.assignors")),
        consumer_assignment_interval_ms=config.int("group.consumer.assignment.interval.ms"),
        consumer_regex_refresh_interval_ms=config.int("group.consumer.regex.refresh.interval.ms"),
        rebalance_protocols=tuple(config.list("group.coordinator.rebalance.protocols")),
        consumer_migration_policy=(config.string("group.consumer.migration.policy") or "bidirectional").lower(),
    )
