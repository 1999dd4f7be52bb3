"""Keeps the in-sync replicas of what this broker leads: takes note of fetches, looks for who lags, and proposes
changes.

Who should be in sync is decided in replication/in_sync.py; here is when to look, and what becomes of a proposal. Owned
by `Replicas`.
"""

import logging
from typing import TYPE_CHECKING, Final

from headwater.base.errors import KafkaError
from headwater.base.ids import BrokerId
from headwater.metadata.image import PartitionState
from headwater.replication.in_sync import InSync
from headwater.replication.partition import Partition

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

logger = logging.getLogger("headwater.broker")

_PROPOSE_AGAIN_MS: Final = 500


class InSyncKeeper:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._me = broker.broker_id
        self._is_closed = False
        self.shrink_count = 0
        self.expand_count = 0
        self._check_lag_later()

    def close(self) -> None:
        self._is_closed = True

    def under_replicated(self) -> list[Partition]:
        """Those that are led here and have fewer in-sync replicas than replicas."""
        return [
            partition
            for partition in self._broker.partitions.values()
            if partition.in_sync is not None and len(partition.in_sync.members) < len(partition.in_sync.replicas)
        ]

    def under_min_in_sync(self) -> list[Partition]:
        """Those that take no record with acks=all."""
        return [partition for partition in self._broker.partitions.values() if not partition.has_enough_in_sync]

    def knows_replicas(self, partition: Partition, state: PartitionState) -> None:
        broker = self._broker
        if state.replicas == [self._me]:
            if partition.in_sync is not None or not partition.is_alone:
                partition.has_replicas(None)
            return
        in_sync = partition.in_sync
        if in_sync is None:
            in_sync = InSync(
                partition.topic_id, partition.index, self._me, state, broker.image.brokers,
                epoch_start_offset=partition.epoch_start_offset, now_ms=broker.clock.monotonic_ms(),
            )  # fmt: skip
        else:
            in_sync.state_changed(state)
        partition.has_replicas(in_sync)

    def follower_fetched(
        self, partition: Partition, replica: BrokerId, broker_epoch: int, offset: int, log_start_offset: int
    ) -> None:
        """Raises what the follower is to be told."""
        partition.follower_fetched(replica, broker_epoch, offset, self._broker.clock.monotonic_ms())
        in_sync = partition.in_sync
        if in_sync is None:
            return
        in_sync.followers[replica].log_start_offset = log_start_offset
        if in_sync.is_news(replica) and in_sync.may_join(
            replica, partition.log.log_start_offset, partition.high_watermark
        ):
            self.consider(partition, replica)

    def consider(self, partition: Partition, joining: BrokerId | None = None) -> None:
        """Proposes other in-sync replicas, if there should be others.

        A leader whose log has failed judges nobody: its followers lag because it can send them nothing, and left out
        they would leave it alone in sync, with a log that has lost what they have. It resigns
        (`broker/leader_resignation.py`).
        """
        in_sync = partition.in_sync
        if in_sync is None or partition.deleted or partition.log.failed is not None:
            return
        broker = self._broker
        change = in_sync.proposal(
            partition.log.log_start_offset,
            partition.high_watermark,
            partition.log.log_end_offset,
            broker.clock.monotonic_ms(),
            broker.config.int("replica.lag.time.max.ms"),
            joining,
        )
        if change is None:
            return
        in_sync.proposed(change)
        partition.has_replicas(in_sync)
        joined = len(set(change.in_sync_replicas) - in_sync.members.keys())
        self.expand_count += joined > 0
        if joined:
            logger.debug(
                "event=in-sync-replicas-expand partition=%s from=%s to=%s high_watermark=%d",
                partition.log.partition, list(in_sync.members), list(change.in_sync_replicas), partition.high_watermark,
            )  # fmt: skip
        if len(change.in_sync_replicas) - joined < len(in_sync.members):
            self.shrink_count += 1
            logger.warning(
                "event=in-sync-replicas-shrink partition=%s from=%s to=%s",
                partition.log.partition, list(in_sync.members), list(change.in_sync_replicas),
            )  # fmt: skip
        broker.store.propose(change, lambda problem: self._proposal_answered(partition, in_sync, problem))

    def _proposal_answered(self, partition: Partition, in_sync: InSync, problem: KafkaError | None) -> None:
        if problem is None or partition.deleted or partition.in_sync is not in_sync:
            return  # the new state has come by itself
        in_sync.not_accepted(self._broker.clock.monotonic_ms() + _PROPOSE_AGAIN_MS)
        self._broker.scheduler.call_later(_PROPOSE_AGAIN_MS, lambda: self.consider(partition))

    def _check_lag_later(self) -> None:
        interval_ms = max(1, self._broker.config.int("replica.lag.time.max.ms") // 2)
        self._broker.scheduler.call_later(interval_ms, self._check_lag)

    def _check_lag(self) -> None:
        if self._is_closed:
            return
        self._check_lag_later()
        self.consider_all()

    def consider_all(self) -> None:
        for partition in tuple(self._broker.partitions.values()):
            if partition.in_sync is not None:
                self.consider(partition)
