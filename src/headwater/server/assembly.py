"""Puts a broker together on given ports: what the server does with the kernel, the simulation does with a heap of
events.

`open` locks and opens the log directories, `join` makes the broker known under its endpoints: alone, or in a cluster
(server/membership.py), where it learns only then which topics there are.

For a broker alone the metadata file says which topics there should be; the log directories say which there are. A
directory that the metadata does not know was written by Apache Kafka (or by us, before the metadata was lost): it is
adopted, with its topic id. One whose topic was deleted just before a crash is known by its id, and removed.
"""

import base64
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headwater.base.config.broker import BrokerConfig
from headwater.base.coordination import Coordination
from headwater.base.errors import KafkaError, UserError
from headwater.base.ids import NO_TOPIC_ID, BrokerId, TopicId
from headwater.base.names import is_legal_topic_name
from headwater.base.peers import Peers
from headwater.base.ports import Clock, Disk, Random, Scheduler
from headwater.broker.broker import Broker
from headwater.log.compaction.cleaner import CleanerSettings
from headwater.log.compaction.job import Pace, no_pace
from headwater.log.config import LogConfig
from headwater.log.context import LogContext
from headwater.log.directory_moves import MoveSettings
from headwater.log.log import Log
from headwater.log.manager import LogManager, ManagerSettings
from headwater.log.unflushed_bytes import DIRTY_BYTES_MAX
from headwater.metadata.image import BrokerState, ClusterImage, Endpoint, MetadataStore, TopicCreated
from headwater.server.stores.embedded import EmbeddedStore

if TYPE_CHECKING:
    from headwater.broker.leader_resignation import LeaderResignation
    from headwater.server.membership import Membership

_TICK_MS: Final = 500
_ADOPTED_PARTITIONS_MAX: Final = 100_000

logger = logging.getLogger("headwater.server")


class Assembly:
    """The parts on their way to becoming a broker. `open` calls `ready` when the logs are recovered."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        disk: Disk,
        clock: Clock,
        random: Random,
        scheduler: Scheduler,
        dirty_bytes_max: int = DIRTY_BYTES_MAX,
        pace_of: Callable[[float], Pace] = lambda _bytes_per_second: no_pace,
        coordination: Coordination | None = None,
        peers: Peers | None = None,
    ) -> None:
        self._config = config
        self._disk = disk
        self._clock = clock
        self._random = random
        self._scheduler = scheduler
        self._pace_of = pace_of
        context = LogContext(disk, scheduler, random, dirty_bytes_max=dirty_bytes_max)
        self.logs = LogManager(
            context,
            config.log_dirs(),
            self._config_of,
            _settings(config, topics_are_known=coordination is None),
            self._cleaner_settings,
            self._move_settings,
        )
        self.image = ClusterImage("")
        self.store = EmbeddedStore(disk, config.log_dirs()[0], self.image)
        self.membership: Membership | None = None
        self._coordination = coordination
        self._peers = peers
        self.on_all_failed: Callable[[str], None] = lambda _why: None  # no log directory is left
        self._is_open = False
        self._resigning: LeaderResignation | None = None

    def open(self, ready: Callable[[Broker], None]) -> None:
        """Raises UserError or OSError, and has let go of the directories then."""
        self.logs.lock()
        try:
            found = self._identify()
            self.image.cluster_id = found.get("cluster.id") or _new_cluster_id(self._random)
            if self._coordination is not None:  # the id is offered to ZooKeeper, in case the cluster is new
                self._open_in_cluster(self._coordination, ready)
                return
            self._claim(self.image.cluster_id)
            self._refuse_without_metadata()
            self.store.load()
            self._config.set_dynamic(
                self.image.broker_configs.get("", {}), self.image.broker_configs.get(str(self._config.node_id()), {})
            )
            self.logs.open(lambda: ready(self._broker(self.store)))
        except BaseException:
            self.close()
            raise

    def _open_in_cluster(self, coordination: Coordination, ready: Callable[[Broker], None]) -> None:
        from headwater.server.membership import Membership  # a broker alone does without it

        self.membership = membership = Membership(self._config, self.image, coordination, self._scheduler, self._disk)

        def connected(cluster_id: str) -> None:
            self._claim(cluster_id)
            self.logs.open(lambda: ready(self._broker(membership.store)))

        membership.connect(connected)

    def join(self, broker: Broker, endpoints: list[Endpoint], done: Callable[[KafkaError | None], None]) -> None:
        """From now on the broker is known under these endpoints. `done`: it knows the cluster, and may serve."""
        rack = self._config.string("broker.rack")
        me = BrokerState(broker.broker_id, endpoints, rack)
        if self.membership is None:
            self.image.brokers[broker.broker_id] = me
            self.image.controller_id = broker.broker_id
            done(None)
        else:
            self.membership.join(broker, me, done)

    def leave(self, left: Callable[[], None]) -> None:
        """Hands leaderships over before a stop. `left` may come late, or never: the caller has its own patience."""
        if self.membership is None:
            left()
        else:
            self.membership.leave(left)

    def close(self) -> None:
        """Lets go of everything: cleanly, or as it is when not all logs were open."""
        membership = self.membership
        if membership is not None:
            membership.cease()
        if self._is_open:
            self.logs.close(-1 if membership is None else membership.store.broker_epoch)
        else:
            self.logs.abandon()
        self.store.close()
        if membership is not None:
            membership.close()

    def _identify(self) -> dict[str, str]:
        """Whose directories these are: what `meta.properties` says."""
        found = self.logs.identity()
        if "broker.id" in found:
            if not found["broker.id"].isdecimal():
                raise UserError(
                    f"A meta.properties in log.dirs has broker.id={found['broker.id']}", "an id is a whole number"
                )
            self._config.adopt_node_id(int(found["broker.id"]))
        return found

    def _refuse_without_metadata(self) -> None:
        """A broker alone can do without any of its log directories but the first."""
        first = self.logs.directories[0]
        if first.problem is not None:
            raise UserError(
                f"The log directory {first.path} cannot be used, and the broker cannot start without it",
                f"it is the first of log.dirs, which holds the broker's metadata: {first.problem}",
                "repair it; the other directories need nothing",
            )

    def _claim(self, cluster_id: str) -> None:
        self.image.cluster_id = cluster_id
        self.logs.claim(cluster_id, self._config.node_id())

    def _config_of(self, topic: str) -> LogConfig:
        topic_id = self.image.ids_by_name.get(topic)
        overrides = self.image.topics[topic_id].config if topic_id is not None else {}
        return LogConfig.from_values(self._config.topic_values(overrides))

    def _cleaner_settings(self) -> CleanerSettings:
        """As they are now: most of them may change while the broker runs."""
        config = self._config
        return CleanerSettings(
            enabled=config.bool("log.cleaner.enable"),
            threads=config.int("log.cleaner.threads"),
            backoff_ms=config.int("log.cleaner.backoff.ms"),
            map_bytes=config.int("log.cleaner.dedupe.buffer.size"),
            pace=self._pace_of(config.float("log.cleaner.io.max.bytes.per.second")),
        )

    def _move_settings(self) -> MoveSettings:
        rate = self._config.int("replica.alter.log.dirs.io.max.bytes.per.second")
        return MoveSettings(rate, self._pace_of(rate))

    def _broker(self, store: MetadataStore) -> Broker:
        broker = Broker(
            self._config,
            self.image,
            store,
            self.logs,
            clock=self._clock,
            random=self._random,
            scheduler=self._scheduler,
            disk=self._disk,
            peers=self._peers,
        )
        if self.membership is None:
            self._reconcile(broker)
            broker.open_partitions()
            self.store.on_applied = broker.apply
        self.logs.high_watermark_of = broker.high_watermark_of
        self._scheduler.call_later(_TICK_MS, lambda: self._tick(broker))
        self._is_open = True
        if self.membership is not None:
            from headwater.broker.leader_resignation import LeaderResignation

            self._resigning = resigning = LeaderResignation(broker)
            self.logs.on_directory_failed = lambda: self._scheduler.call_soon(resigning.look)
        return broker

    def _tick(self, broker: Broker) -> None:
        self._scheduler.call_later(_TICK_MS, lambda: self._tick(broker))
        self.logs.tick(self._clock.now_ms(), self._clock.monotonic_ms())
        broker.open_missing()
        if self._resigning is not None:
            self._resigning.look()
        failed = self.logs.failed_directories()
        if self.store.failed is not None:
            failed[self.logs.directories[0].path] = str(self.store.failed)
        if len(failed) == len(self.logs.directories):
            self.on_all_failed("; ".join(f"{path}: {why}" for path, why in failed.items()))

    # Directories against metadata

    def _reconcile(self, broker: Broker) -> None:
        adopted: dict[str, list[Log]] = {}
        for partition, log in list(self.logs.logs.items()):
            if not is_legal_topic_name(partition.topic):
                logger.warning("event=directory-ignored path=%r reason='not the name of a topic'", log.directory)
                continue
            known = self.image.ids_by_name.get(partition.topic)
            if log.topic_id in self.image.deleted_topics:
                self.logs.delete(partition)
            elif known is None and log.topic_id == NO_TOPIC_ID and not self.store.is_new:
                self.logs.set_aside(partition)  # of a topic that was deleted before its directory was on the device
            elif known is None:
                adopted.setdefault(partition.topic, []).append(log)
            elif log.topic_id not in (known, NO_TOPIC_ID):
                raise UserError(
                    f"The directory {log.directory} belongs to another topic of the same name",
                    f"its partition.metadata has topic id {log.topic_id.hex()}, the metadata has {known.hex()}",
                    "move the directory away if it is not needed",
                )
        changes = [self._adoption(broker, topic, logs) for topic, logs in sorted(adopted.items())]
        if changes:
            logger.warning(
                "event=topics-adopted topics=%s note='configs that were not in the directories have their defaults'",
                ",".join(change.name for change in changes),
            )
            self.store.commit_now(changes)

    def _adoption(self, broker: Broker, topic: str, logs: list[Log]) -> TopicCreated:
        ids = {log.topic_id for log in logs} - {NO_TOPIC_ID}
        if len(ids) > 1:
            raise UserError(
                f"The directories of topic {topic} have different topic ids",
                "they come from different clusters, or from before and after the topic was made again",
                "move the wrong ones away",
            )
        count = max(log.partition.partition for log in logs) + 1
        if count > _ADOPTED_PARTITIONS_MAX:
            raise UserError(
                f"The directory {topic}-{count - 1} looks like a partition, and is probably none",
                f"adopting it would make a topic of {count} partitions",
                "move the directory out of log.dirs",
            )
        topic_id: TopicId = ids.pop() if ids else broker.new_topic_id()
        return TopicCreated(topic, topic_id, ((int(BrokerId(self._config.node_id())),),) * count, {})


def _settings(config: BrokerConfig, *, topics_are_known: bool) -> ManagerSettings:
    return ManagerSettings(
        topics_are_known=topics_are_known,
        retention_check_interval_ms=config.int("log.retention.check.interval.ms"),
        checkpoint_interval_ms=config.int("log.flush.offset.checkpoint.interval.ms"),
        high_watermark_interval_ms=config.int("replica.high.watermark.checkpoint.interval.ms"),
    )


def _new_cluster_id(random: Random) -> str:
    """As Kafka makes them: a UUID in base64url, 22 characters, not beginning with a dash."""
    while True:
        text = base64.urlsafe_b64encode(random.bytes(16)).decode().rstrip("=")
        if not text.startswith("-"):
            return text
