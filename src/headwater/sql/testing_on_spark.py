"""The cases of `headwater.sql.testing` as they run in production: on a broker, in slots of Spark, many in one runtime.

    cases = CasesOnSpark(Runtime(spark), brokers, state_dir)
    cases.run(statements, inputs)        # what `testing.run` gives

Each query of a case has topics of its own, so that cases and queries disturb each other in nothing and may run at a
time, in threads. Where a query reads several topics, or topics of its own, a record is sent when the one before it has
gone all the way through: the order between topics is then that of the list.
"""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client import LATEST, Admin, Consumer, NewTopic, Producer
from headwater.sql.plan.session import PersistentQuery
from headwater.sql.testing import Run, Sent, encoded, prepared
from headwater.streams.model.record import OutputRecord
from headwater.streams.topics.plan import external_topics, plan_topics

if TYPE_CHECKING:
    from headwater.streams.on_spark import Runtime, SparkRun

_COMMIT_MS: Final = 10
_POLL_S: Final = 0.02


class CasesOnSpark:
    """Safe for threads."""

    def __init__(self, runtime: Runtime, brokers: str, state_dir: str | Path) -> None:
        self._runtime = runtime
        self._brokers = brokers
        self._state_dir = Path(state_dir)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._name = uuid.uuid4().hex[:8]

    def run(
        self,
        statements: str | Iterable[str],
        inputs: Iterable[Mapping[str, Any]],
        properties: Mapping[str, str] | None = None,
        *,
        topics: Iterable[Mapping[str, Any]] = (),
    ) -> list[Sent]:
        """As `testing.run`. Raises what a query died of."""
        text = statements if isinstance(statements, str) else "\n".join(statements)
        known = list(topics)
        made, inserted = prepared(text, properties, known)
        with self._lock:
            case = f"{self._name}-{next(self._numbers)}"

        def carry_out(query: PersistentQuery, records: list[tuple[str, OutputRecord]]) -> list[OutputRecord]:
            prefix = f"{case}-{query.id}-"
            apart, _ = prepared(text, properties, known, prefix=prefix, brokers=self._brokers)
            found = self._carry_out(apart.queries[query.id], [(f"{prefix}{topic}", each) for topic, each in records])
            return [OutputRecord(query.sink.topic, 0, *rest) for rest in found]

        given = [(str(each["topic"]), encoded(each, made)) for each in inputs]
        return Run(made, [*inserted, *given], carry_out).outputs()

    def _carry_out(self, query: PersistentQuery, records: list[tuple[str, OutputRecord]]) -> list[Any]:
        topology = query.app.topology()
        topics = external_topics(topology)
        reads = plan_topics(query.app.name, topology, dict.fromkeys(topics, 1)).sources
        in_order = len(reads) > 1
        with Admin({"bootstrap.servers": self._brokers}) as admin:
            for name in {*topics, query.sink.topic}:
                admin.create_topics([NewTopic(name, 1, 1, configs={"retention.ms": "-1"})])
            run = self._runtime.run(
                query.app, state_dir=self._state_dir, commit_interval_ms=_COMMIT_MS, emit_interval_ms=0
            )
            try:
                with (
                    Producer({"bootstrap.servers": self._brokers, "linger.ms": 0}) as producer,
                    _Sink(self._brokers, admin, query, set(reads), run) as sink,
                ):
                    for topic, each in records:
                        if topic in topics:
                            producer.send(
                                topic,
                                each.value,
                                key=each.key,
                                partition=0,
                                timestamp_ms=each.timestamp,
                                headers=list(each.headers),
                            )
                            if in_order:
                                producer.flush()
                                sink.settle()
                    producer.flush()
                    return sink.settle()
            finally:
                run.stop()


class _Sink:
    """What a query has written; and whether it has processed everything that there is for it."""

    def __init__(self, brokers: str, admin: Admin, query: PersistentQuery, reads: set[str], run: SparkRun) -> None:
        self._admin = admin
        self._group = query.app.name
        self._run = run
        self._topic = query.sink.topic
        self._reads = [TopicPartition(name, 0) for name in sorted(reads)]
        self._all = sorted({*self._reads, TopicPartition(self._topic, 0)})
        self._last: dict[TopicPartition, int] = {}  # the offset of the last record of each partition, without markers
        self._written: list[Any] = []
        settings = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        self._consumer = Consumer({"bootstrap.servers": brokers, **settings})

    def __enter__(self) -> _Sink:
        self._consumer.assign(self._all)
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def settle(self) -> list[Any]:
        """Waits until the query has committed all that it reads: what the sink has got so far, as (key, value,
        timestamp, headers).
        """
        while True:
            if not self._run.running:
                self._run.wait()
            committed = self._committed()
            self._read_to_the_end()
            if all(committed.get(each, 0) > self._last.get(each, -1) for each in self._reads):
                return self._written

    def _committed(self) -> dict[TopicPartition, int]:
        """None for a partition whose offset is in a transaction that is still open."""
        try:
            found = self._admin.list_group_offsets(self._group, self._reads, require_stable=True)
        except KafkaError as error:
            if error.code != ErrorCode.UNSTABLE_OFFSET_COMMIT:
                raise
            return {}
        return {each: committed.offset for each, committed in found.items()}

    def _read_to_the_end(self) -> None:
        """Of what is in the log now, also of transactions that are still open: the outputs of what was committed are
        among it.
        """
        ends: dict[TopicPartition, int] = {}
        for each, found in self._admin.list_offsets(dict.fromkeys(self._all, LATEST)).items():
            if isinstance(found, KafkaError):
                raise found
            ends[each] = found.offset
        while any(self._consumer.position(each) < end for each, end in ends.items()):
            for record in self._consumer.poll(_POLL_S):
                self._last[TopicPartition(record.topic, record.partition)] = record.offset
                if record.topic == self._topic:
                    row = (record.key, record.value, record.timestamp_ms, tuple(record.headers))
                    self._written.append(row)
