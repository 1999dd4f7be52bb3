"""The transaction coordinator of this broker: shards of `__transaction_state`, and the markers that they ask for."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.base.names import TRANSACTION_STATE
from headwater.broker.coordinators.hosted import Hosted
from headwater.broker.coordinators.markers import Marker, Results, write_markers
from headwater.broker.coordinators.runtime import Runtime
from headwater.broker.deferred import Deferred
from headwater.coordinator.effects import Effects, Producer, Ticket
from headwater.coordinator.transactions.effects import MarkersToWrite, TransactionEffects, TransactionSettings
from headwater.coordinator.transactions.shard import TransactionShard

if TYPE_CHECKING:
    from headwater.base.config.broker import BrokerConfig
    from headwater.broker.broker import Broker

# A partition that is not here (any more) has nothing to end.
_NOTHING_TO_END: Final = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class Transactions:
    """Owned by the broker."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        settings = transaction_settings(broker.config)
        self.runtime: Runtime[TransactionShard] = Runtime(
            broker,
            TRANSACTION_STATE,
            partitions_setting="transaction.state.log.num.partitions",
            replication_setting="transaction.state.log.replication.factor",
            topic_config={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "segment.bytes": str(broker.config.int("transaction.state.log.segment.bytes")),
            },
            make_shard=lambda partition: TransactionShard(settings, int(partition.leader_epoch)),
        )
        self.runtime.on_hosted = self._hosted

    def call(
        self,
        transactional_id: str,
        decide: Callable[[TransactionShard, Ticket, int], Effects],
        error: Callable[[ErrorCode], Any],
    ) -> Any:
        """A request about one transactional id: a Deferred, or the error's response."""
        return self.runtime.call(
            transactional_id, lambda shard, ticket: decide(shard, ticket, self._broker.now_ms()), error
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

        def refused(code: ErrorCode) -> Results:
            return dict.fromkeys(wanted, code)

        answer = self.call(
            transactional_id,
            lambda shard, ticket, now_ms: shard.verify_or_add(
                transactional_id, producer, wanted, ticket, now_ms, add=add
            ),
            refused,
        )
        if isinstance(answer, Deferred):
            answer.listen(done)
        else:
            done(answer)

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
        marker = Marker(
            asked.producer_id,
            asked.producer_epoch,
            asked.coordinator_epoch,
            asked.committed,
            asked.transaction_version,
        )
        shard = hosted.shard

        def written(results: Results) -> None:
            finished = [name for name, code in results.items() if code in _NOTHING_TO_END]
            if hosted.shard is shard and hosted.is_loaded:
                now_ms = self._broker.now_ms()
                hosted.run(shard.markers_written(asked.transactional_id, asked.attempt, finished, now_ms))

        write_markers(self._broker, marker, asked.partitions, written)


def transaction_settings(config: "BrokerConfig") -> TransactionSettings:
    return TransactionSettings(
        timeout_max_ms=config.int("transaction.max.timeout.ms"),
        expiration_ms=config.int("transactional.id.expiration.ms"),
        expiry_interval_ms=config.int("transaction.remove.expired.transaction.cleanup.interval.ms"),
        two_phase_commit=config.bool("transaction.two.phase.commit.enable"),
    )
