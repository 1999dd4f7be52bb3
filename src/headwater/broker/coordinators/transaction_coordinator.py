"""The transaction coordinator of this broker: shards of `__transaction_state`, and the markers that they ask for.

A shard asks again after a while for markers that nobody has reported. What is still under way then is not sent a second
time: a marker that came late could end a transaction that began since. A marker that was refused because a later
coordinator, or a later epoch of the producer, has been seen is not asked for again either.
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import BrokerId, TopicPartition
from headwater.base.names import TRANSACTION_STATE
from headwater.broker.coordinators.delivery import Delivery
from headwater.broker.coordinators.host import CoordinatorHost
from headwater.broker.coordinators.hosted import Hosted
from headwater.broker.coordinators.marker_wait import MarkerWaits
from headwater.broker.coordinators.markers import NOTHING_TO_END, Marker, Results
from headwater.broker.coordinators.runtime import Runtime
from headwater.broker.coordinators.shard_protocol import batch_bytes_max
from headwater.broker.coordinators.verification import ask_coordinator
from headwater.broker.deferred import Deferred
from headwater.coordinator.effects import Effects, Producer, Ticket
from headwater.coordinator.transactions.effects import MarkersToWrite, TransactionEffects, TransactionSettings
from headwater.coordinator.transactions.shard import TransactionShard

if TYPE_CHECKING:
    from headwater.base.config.broker import BrokerConfig

# Whoever follows has taken this transaction over, or its producer has gone on: asking again changes nothing.
_FENCED: Final = frozenset({ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})

_VERDICTS: Final = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
)  # a producer that is told one of these has come to its end, or believes that its transaction has

logger = logging.getLogger("headwater.broker")

Attempt = tuple[TransactionShard, str, int]


class TransactionCoordinator:
    """Owned by the broker."""

    def __init__(self, broker: CoordinatorHost) -> None:
        self._broker = broker
        self._delivery = Delivery(broker)
        self.marker_waits = MarkerWaits(broker)
        self._under_way: dict[Attempt, set[TopicPartition]] = {}
        self._given_up: WeakKeyDictionary[TransactionShard, set[tuple[str, int]]] = WeakKeyDictionary()
        settings = transaction_settings(broker.config)
        self.runtime: Runtime[TransactionShard] = Runtime(
            broker,
            TRANSACTION_STATE,
            partitions_setting="transaction.state.log.num.partitions",
            replication_setting="transaction.state.log.replication.factor",
            topic_config=_topic_config(broker),
            make_shard=lambda partition: TransactionShard(
                settings, int(partition.leader_epoch), partial(batch_bytes_max, partition)
            ),
        )
        self.runtime.on_hosted = self._hosted

    def call(
        self,
        transactional_id: str,
        decide: Callable[[TransactionShard, Ticket, int], Effects],
        error: Callable[[ErrorCode], Any],
        *,
        may_write: bool = True,
    ) -> Any:
        """A request about one transactional id: a Deferred, or the error's response."""
        return self.runtime.call(
            transactional_id,
            lambda shard, ticket: decide(shard, ticket, self._broker.now_ms()),
            error,
            may_write=may_write,
            verdicts=_VERDICTS,
        )

    def call_with_producer_id(
        self,
        transactional_id: str,
        needs: Callable[[TransactionShard], bool],
        decide: Callable[[TransactionShard, int, Ticket, int], Effects],
        error: Callable[[ErrorCode], Any],
    ) -> Any:
        """The same for a decision that may need a new producer id: it is taken first."""
        try:
            is_needed = needs(self.runtime.find(transactional_id).shard)
        except KafkaError as problem:
            return error(problem.code)
        if not is_needed:
            return self.call(transactional_id, lambda shard, ticket, now_ms: decide(shard, -1, ticket, now_ms), error)
        deferred = Deferred()

        def taken(producer_id: int, problem: KafkaError | None) -> None:
            if problem is not None:
                deferred.complete(error(ErrorCode.COORDINATOR_NOT_AVAILABLE))
                return
            answer = self.call(
                transactional_id, lambda shard, ticket, now_ms: decide(shard, producer_id, ticket, now_ms), error
            )
            if isinstance(answer, Deferred):
                answer.listen(deferred.complete)
            else:
                deferred.complete(answer)

        self._broker.producer_ids.take(taken)
        return deferred

    def verify_or_add(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        *,
        add: bool,
        done: Callable[[Results], None],
    ) -> None:
        """Before a transactional append (KIP-890): are these partitions in the open transaction, or put them there."""
        wanted = list(partitions)
        producer = Producer(producer_id, producer_epoch)
        elsewhere = self._coordinator_elsewhere(transactional_id)
        if elsewhere is not None:
            ask_coordinator(self._broker, elsewhere, transactional_id, producer, wanted, add=add, done=done)
            return

        def refused(code: ErrorCode) -> Results:
            return dict.fromkeys(wanted, code)

        answer = self.call(
            transactional_id,
            lambda shard, ticket, now_ms: shard.verify_or_add(
                transactional_id, producer, wanted, ticket, now_ms, add=add
            ),
            refused,
            may_write=add,
        )
        if isinstance(answer, Deferred):
            answer.listen(done)
        else:
            done(answer)

    def is_verified(
        self, transactional_id: bytes, producer_id: int, producer_epoch: int, partition: TopicPartition
    ) -> bool:
        """Whether the partition is known to be in the open transaction, without asking anybody or waiting for
        anything.
        """
        try:
            name = transactional_id.decode()
        except UnicodeDecodeError:
            return False
        hosted = self.runtime.at_rest(name)
        if hosted is None:
            return False
        return hosted.shard.has_partition(name, producer_id, producer_epoch, partition)

    def _coordinator_elsewhere(self, transactional_id: str) -> BrokerId | None:
        """The broker that leads the id's partition, if that is not this one; None also if nobody can be asked."""
        broker = self._broker
        if broker.peers is None or not self.runtime.partition_count:
            return None
        leader = broker.image.topic(TRANSACTION_STATE).partitions[self.runtime.index_for(transactional_id)].leader
        return leader if leader != broker.broker_id and leader in broker.image.brokers else None

    # Markers

    def _hosted(self, hosted: Hosted[TransactionShard]) -> None:
        hosted.after_run = self._after_run

    def _after_run(self, hosted: Hosted[TransactionShard], effects: Effects, _last_written: int) -> None:
        if not isinstance(effects, TransactionEffects):
            return
        for markers in effects.markers:
            hosted.when_committed(lambda markers=markers: self._write(hosted, markers))  # type: ignore[misc]
        if effects.wants_producer_id:
            self._broker.producer_ids.take(lambda producer_id, problem: self._give(hosted, producer_id, problem))

    def _give(self, hosted: Hosted[TransactionShard], producer_id: int, problem: KafkaError | None) -> None:
        if problem is None and hosted.is_loaded:
            hosted.shard.give_producer_id(producer_id)

    def _write(self, hosted: Hosted[TransactionShard], asked: MarkersToWrite) -> None:
        shard = hosted.shard
        attempt = (shard, asked.transactional_id, asked.attempt)
        if self._given_up and attempt[1:] in self._given_up.get(shard, ()):
            return
        under_way = self._under_way.get(attempt, ())
        partitions = [name for name in asked.partitions if name not in under_way]
        if not partitions:
            return
        self._under_way.setdefault(attempt, set()).update(partitions)
        marker = Marker(
            asked.producer_id,
            asked.producer_epoch,
            asked.coordinator_epoch,
            asked.committed,
            asked.transaction_version,
        )

        def is_wanted() -> bool:
            return hosted.shard is shard and hosted.is_loaded

        def written(results: Results) -> None:
            self._arrived(attempt, results)
            finished = [name for name, code in results.items() if code in NOTHING_TO_END]
            if is_wanted() and finished:
                hosted.decide(
                    lambda shard: shard.markers_written(
                        asked.transactional_id, asked.attempt, finished, self._broker.now_ms()
                    )
                )
                self.marker_waits.completed(asked.transactional_id)

        self._delivery.deliver(marker, partitions, is_wanted, written)

    def _arrived(self, attempt: Attempt, results: Results) -> None:
        under_way = self._under_way.get(attempt)
        if under_way is not None:
            under_way.difference_update(results)
            if not under_way:
                del self._under_way[attempt]
        fenced = [name for name, code in results.items() if code in _FENCED]
        if fenced:
            shard, transactional_id, number = attempt
            logger.warning(
                "event=markers-given-up transactional_id=%r partition=%s reason=%s",
                transactional_id,
                fenced[0],
                results[fenced[0]].name,
            )
            self._given_up.setdefault(shard, set()).add((transactional_id, number))


def _topic_config(broker: CoordinatorHost) -> dict[str, str]:
    config = broker.config
    values = {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "segment.bytes": str(config.int("transaction.state.log.segment.bytes")),
    }
    if broker.peers is not None:
        replicas = config.int("transaction.state.log.replication.factor")
        values["min.insync.replicas"] = str(min(config.int("transaction.state.log.min.isr"), replicas))
    return values


def transaction_settings(config: "BrokerConfig") -> TransactionSettings:
    return TransactionSettings(
        timeout_max_ms=config.int("transaction.max.timeout.ms"),
        expiration_ms=config.int("transactional.id.expiration.ms"),
        expiry_interval_ms=config.int("transaction.remove.expired.transaction.cleanup.interval.ms"),
        two_phase_commit=config.bool("transaction.two.phase.commit.enable"),
    )
