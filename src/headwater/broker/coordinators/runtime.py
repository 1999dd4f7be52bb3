"""The shards of one internal topic on this broker, and the way from a key to its shard.

The topic is made when somebody first looks for a coordinator. Every partition of it that this broker leads has a shard,
which is loaded when the partition comes and thrown away when it goes.
"""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Generic

from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.coordinators.host import CoordinatorHost
from headwater.broker.coordinators.hosted import Hosted
from headwater.broker.coordinators.loading import Loading
from headwater.broker.coordinators.placement import partition_for
from headwater.broker.coordinators.shard_protocol import ErrorResponse, MayWrite, S
from headwater.broker.deferred import Deferred
from headwater.coordinator.effects import Effects, Ticket
from headwater.replication.partition import Partition


class Runtime(Generic[S]):
    def __init__(
        self,
        broker: CoordinatorHost,
        topic: str,
        *,
        partitions_setting: str,
        replication_setting: str,
        topic_config: dict[str, str],
        make_shard: Callable[[Partition], S],
    ) -> None:
        self._broker = broker
        self.topic = topic
        self._partitions_setting = partitions_setting
        self._replication_setting = replication_setting
        self._topic_config = topic_config
        self._make_shard = make_shard
        self.hosted: dict[int, Hosted[S]] = {}
        self.on_hosted: Callable[[Hosted[S]], None] | None = None
        self._loading = Loading(broker.scheduler)
        self._ensuring: list[Callable[[KafkaError | None], None]] = []

    # Partitions come and go

    def partition_opened(self, partition: Partition) -> None:
        """This broker leads it, under an epoch of its own: what an earlier term has loaded counts no more."""
        before = self.hosted.get(partition.index)
        if before is not None:
            if before.partition is partition:
                return
            before.close()
        hosted = Hosted(self._broker, partition, lambda: self._make_shard(partition), self._loading)
        self.hosted[partition.index] = hosted
        if self.on_hosted is not None:
            self.on_hosted(hosted)
        hosted.load()

    def partition_closed(self, partition: Partition) -> None:
        hosted = self.hosted.get(partition.index)
        if hosted is not None and hosted.partition is partition:
            del self.hosted[partition.index]
            hosted.close()

    # Keys

    @property
    def partition_count(self) -> int:
        topic_id = self._broker.image.ids_by_name.get(self.topic)
        return 0 if topic_id is None else len(self._broker.image.topics[topic_id].partitions)

    def index_for(self, key: str) -> int:
        count = self.partition_count
        if count == 0:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")
        return partition_for(key, count)

    def find(self, key: str) -> Hosted[S]:
        """The loaded shard for a key; raises what a client is to be told otherwise."""
        hosted = self.hosted.get(self.index_for(key))
        if hosted is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "This is not the correct coordinator.")
        if not hosted.is_loaded:
            raise KafkaError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "The coordinator is loading and can't process requests."
            )
        return hosted

    def at_rest(self, key: str) -> Hosted[S] | None:
        """The shard for a key, if whatever it writes now is committed at once and nobody waits for anything before
        that.
        """
        image = self._broker.image
        topic_id = image.ids_by_name.get(self.topic)
        if topic_id is None:
            return None
        hosted = self.hosted.get(partition_for(key, len(image.topics[topic_id].partitions)))
        return hosted if hosted is not None and hosted.is_at_rest else None

    def call(
        self,
        key: str,
        decide: Callable[[S, Ticket], Effects],
        error: ErrorResponse,
        *,
        may_write: MayWrite = True,
        verdicts: Collection[ErrorCode] = (),
    ) -> Any:
        """A request for the shard of `key`: gives a Deferred, or the response if it is there at once.

        `verdicts` are errors that end a client, or what it does. A coordinator that was deposed and does not know it
        yet gets nothing committed, but it could still say these, by what it knew, and also that something has been done
        before (`Effects.is_recalled`): so such answers leave only when it is certain that it coordinates.
        """
        try:
            hosted = self.find(key)
        except KafkaError as problem:
            return error(problem.code)
        deferred = Deferred()
        if verdicts and self._broker.peers is not None:
            final = [error(code) for code in verdicts]

            def decide_and_look(shard: S, ticket: Ticket) -> Effects:
                effects = decide(shard, ticket)
                if effects.is_recalled:
                    final.extend(reply for _, reply in effects.replies)
                return effects

            settle = partial(self._judge, hosted, deferred, final, error)
            hosted.call(decide_and_look, settle, error, may_write=may_write)
        else:
            hosted.call(decide, deferred.complete, error, may_write=may_write)
        if deferred.done and not isinstance(deferred.response, BaseException):
            return deferred.response  # committed already: an answer as any other
        return deferred

    def _judge(
        self, hosted: Hosted[S], deferred: Deferred, final: list[Any], error: ErrorResponse, response: Any
    ) -> None:
        if response not in final:
            deferred.complete(response)
            return

        def confirmed(problem: KafkaError | None) -> None:
            is_certain = problem is None and self.hosted.get(hosted.partition.index) is hosted
            deferred.complete(response if is_certain else error(ErrorCode.NOT_COORDINATOR))

        partition = hosted.partition
        self._broker.store.confirm(partition.topic_id, partition.index, confirmed)

    def active(self) -> list[Hosted[S]]:
        return [hosted for hosted in self.hosted.values() if hosted.is_loaded]

    @property
    def is_loading(self) -> bool:
        return any(not hosted.is_loaded for hosted in self.hosted.values())

    # The topic

    def ensure_topic(self, done: Callable[[KafkaError | None], None]) -> None:
        """Makes the internal topic unless it is there."""
        broker = self._broker
        if self.topic in broker.image.ids_by_name:
            done(None)
        elif broker.peers is None:
            self._make_topic(done)
        else:
            self._ensuring.append(done)
            if len(self._ensuring) == 1:
                self._make_topic(self._made)

    def _made(self, problem: KafkaError | None) -> None:
        waiting, self._ensuring = self._ensuring, []
        for done in waiting:
            done(problem)

    def _make_topic(self, done: Callable[[KafkaError | None], None]) -> None:
        broker = self._broker
        broker.ensure_topic(
            self.topic,
            broker.config.int(self._partitions_setting),
            broker.config.int(self._replication_setting),
            self._topic_config,
            done,
        )
