"""The topic `_schemas` as one node sees it: read from its beginning, followed for ever, and written by the leader.

Owns the state: only its reader applies records to it, in the order of the log, what this node writes included. The
leader writes with a transactional id that all registries of a group share. So a leader that was replaced, and does not
know it yet, can write nothing: the broker knows a newer producer. All records of one decision are one transaction.
"""

import asyncio
import logging
import time
from typing import Any, Final

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client import AsyncAdmin, AsyncConsumer, AsyncProducer, ConfigResource, NewTopic, ResourceType
from headwater.client.errors import BootstrapFailed, ConnectionFailed
from headwater.client.producer.types import ProducerFenced
from headwater.registry.config import RegistryConfig
from headwater.registry.records import Record, encode_key, encode_value, noop
from headwater.registry.state import State

logger = logging.getLogger("headwater.registry")

_POLL_RECORDS_MAX: Final = 5000
_KNOWN_AGAIN_S: Final = 0.1
_REACHED_AGAIN_S: Final = 0.5
_REQUEST_MS: Final = 30_000
_LINGER_MS: Final = 1000  # a transaction is flushed when all of its records are there
_RESIGNED: Final = "another registry may lead by now, and no broker has said whether it was written"
_FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING)


class NotLeading(Exception):
    """Another registry leads by now: nothing was written."""


class WriteFailed(Exception):
    """It is not known whether the records were written. Who goes on must begin as a new leader does."""


class WriteTimedOut(WriteFailed):
    """The brokers have not answered in time."""


def _is_fenced(problem: KafkaError) -> bool:
    return isinstance(problem, ProducerFenced) or problem.code in _FENCED


def _ended(writing: "asyncio.Task[int]") -> None:
    """Whoever waited for it has been told already."""
    if not writing.cancelled():
        writing.exception()


def check_topic(name: str, partitions: int, cleanup_policy: str) -> None:
    """A topic that somebody else has made: whether schemas are kept in it, and in order. Raises UserError."""
    if partitions != 1:
        raise UserError(
            f"The topic {name} has {partitions} partitions",
            "the order of schemas is the order of one partition",
            "Name another topic with --set kafkastore.topic=...",
        )
    if cleanup_policy != "compact":
        raise UserError(
            f"The topic {name} has cleanup.policy={cleanup_policy}",
            "schemas would be deleted when they are old; only compaction keeps the last record of each key",
            f"`headwater topic alter {name} --set cleanup.policy=compact`, or name another topic with --set kafkastore.topic=...",
        )


def writer_settings(config: RegistryConfig) -> dict[str, Any]:
    """Of the leader's producer. Whatever `kafkastore.timeout.ms` is, one attempt fits into it."""
    timeout_ms = config.number("kafkastore.timeout.ms")
    linger_ms = min(_LINGER_MS, timeout_ms // 2)
    return {
        **config.client(),
        "transactional.id": config.text("schema.registry.group.id"),
        "acks": "all",
        "linger.ms": linger_ms,
        "max.block.ms": timeout_ms,
        "delivery.timeout.ms": timeout_ms,
        "request.timeout.ms": min(_REQUEST_MS, timeout_ms - linger_ms),
        "max.request.size": config.number("request.bytes.max") + 65536,
    }


class SchemaLog:
    def __init__(self, config: RegistryConfig) -> None:
        self.state = State()
        self.cluster_id = ""
        self.applied_offset = -1  # of the last record that is in the state
        self._read_below = 0  # everything before it is in the state; compaction may have taken the last record of that
        self._unreachable = ""  # why no broker could be reached, or the topic not be found
        self._config = config
        self._topic = config.text("kafkastore.topic")
        self._partition = TopicPartition(self._topic, 0)
        self._client = config.client()
        self._consumer: AsyncConsumer | None = None
        self._producer: AsyncProducer | None = None
        self._resigned: asyncio.Future[None] = asyncio.get_running_loop().create_future()  # one for each `lead`
        self._reading: asyncio.Task[None] | None = None
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        # The last offset of the transaction under way, and whether it was read: it is committed then.
        self._watched, self._has_read_watched = -1, False
        self._failed: asyncio.Future[UserError] = asyncio.get_running_loop().create_future()

    # Reading

    async def open(self) -> None:
        """Makes the topic if it is not there, and reads it to its end. Raises UserError."""
        timeout_s = self._config.number("kafkastore.init.timeout.ms") / 1000
        try:
            async with asyncio.timeout(timeout_s):
                await self._make_topic_when_reached()
                await self._read_all()
        except TimeoutError:
            raise UserError(
                f"The schema registry could not read the topic {self._topic} within {timeout_s:g} s",
                self._unreachable or f"the brokers at {self._config.bootstrap_servers} did not answer in time",
                "Look whether they run (`headwater cluster health`), name others with --set "
                "kafkastore.bootstrap.servers=HOST:PORT, or set kafkastore.init.timeout.ms",
            ) from None
        except KafkaError as problem:
            raise UserError(
                f"The schema registry cannot use the topic {self._topic} at {self._config.bootstrap_servers}",
                str(problem),
                "Start a broker with `headwater up`, or name one: --set kafkastore.bootstrap.servers=HOST:PORT",
            ) from None
        self._reading = asyncio.create_task(self._follow())
        self._reading.add_done_callback(self._on_reading_ended)

    async def _make_topic_when_reached(self) -> None:
        """A registry may be started before its brokers: it waits for them, and says so."""
        while True:
            try:
                await self._make_topic()
            except BootstrapFailed as problem:
                if not any(isinstance(each, ConnectionFailed) and each.refused for each in problem.attempts):
                    raise  # somebody listens there, and another time will not help
                if self._unreachable != str(problem):
                    self._unreachable = str(problem)
                    logger.warning("event=waiting-for-brokers reason=%.500r", self._unreachable)
                await asyncio.sleep(_REACHED_AGAIN_S)
            else:
                return

    async def _make_topic(self) -> None:
        async with AsyncAdmin(self._client) as admin:
            cluster, policy = await asyncio.gather(admin.describe_cluster(), self._cleanup_policy(admin))
            self.cluster_id = cluster.cluster_id or ""
            while True:
                if policy is not None:
                    found = (await admin.describe_topics([self._topic]))[self._topic]
                    if not isinstance(found, KafkaError):
                        check_topic(self._topic, len(found.partitions), policy)
                        return
                    if found.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                        raise found
                    self._unreachable = f"the topic cannot be described ({found})"
                elif await self._create_topic(admin, len(cluster.brokers)):
                    return
                # It is there, and the broker that was asked has not heard of it yet.
                await asyncio.sleep(_KNOWN_AGAIN_S)
                policy = await self._cleanup_policy(admin)

    async def _create_topic(self, admin: AsyncAdmin, brokers: int) -> bool:
        """False: somebody else has just made it, in a way of theirs."""
        wanted = self._config.number("kafkastore.topic.replication.factor")
        topic = NewTopic(self._topic, 1, min(wanted, brokers), {"cleanup.policy": "compact"})
        answer = (await admin.create_topics([topic]))[self._topic]
        if isinstance(answer, KafkaError):
            if answer.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise answer
            return False
        return True

    async def _cleanup_policy(self, admin: AsyncAdmin) -> str | None:
        """None: the broker that was asked does not know the topic."""
        resource = ConfigResource(ResourceType.TOPIC, self._topic)
        answer = (await admin.describe_configs([resource], keys=["cleanup.policy"]))[resource]
        if isinstance(answer, KafkaError):
            if answer.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return None
            raise answer
        return next((entry.value or "" for entry in answer if entry.name == "cleanup.policy"), "")

    async def _read_all(self) -> None:
        consumer = AsyncConsumer(
            {
                **self._client,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "max.poll.records": _POLL_RECORDS_MAX,
            }
        )
        self._consumer = consumer
        consumer.assign([self._partition])
        end = (await consumer.end_offsets([self._partition]))[self._partition]
        began = time.monotonic()
        while await consumer.position(self._partition) < end:
            self._apply(await consumer.poll(0.5))
        self._read_below = max(self._read_below, end)
        logger.info(
            "event=read topic=%s offset=%d subjects=%d ms=%d",
            self._topic,
            end,
            len(self.state.subjects),
            (time.monotonic() - began) * 1000,
        )

    async def _follow(self) -> None:
        assert self._consumer is not None
        while True:
            self._apply(await self._consumer.poll())

    def _on_reading_ended(self, task: asyncio.Task[None]) -> None:
        problem = None if task.cancelled() else task.exception()
        if problem is not None and not self._failed.done():
            logger.error("event=reading-failed topic=%s", self._topic, exc_info=problem)
            self._failed.set_result(
                UserError(f"The topic {self._topic} cannot be read any more", str(problem), "Start the registry again")
            )

    def _apply(self, records: list[Any]) -> None:
        for record in records:
            self.state.apply(record.key, record.value, record.timestamp_ms)
            self.applied_offset = record.offset
            self._has_read_watched = self._has_read_watched or record.offset == self._watched
        if records:
            self._read_below = self.applied_offset + 1
            due = [waiter for waiter in self._waiters if waiter[0] < self._read_below]
            self._waiters = [waiter for waiter in self._waiters if waiter[0] >= self._read_below]
            for _, future in due:
                if not future.done():
                    future.set_result(None)

    async def wait_for(self, offset: int, timeout_s: float | None) -> None:
        """Until the record at `offset` is in the state. Raises TimeoutError."""
        if offset < self._read_below:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((offset, future))
        try:
            async with asyncio.timeout(timeout_s):
                await future
        finally:
            self._waiters = [waiter for waiter in self._waiters if waiter[1] is not future]

    async def failed(self) -> UserError:
        """Returns only if the topic cannot be read any more."""
        return await asyncio.shield(self._failed)

    # Writing

    async def lead(self) -> None:
        """From now on no earlier leader can write; everything that one has written is in the state
        when this returns.
        """
        await self.resign()
        producer = AsyncProducer(writer_settings(self._config))
        try:
            await producer.init_transactions()
            self._producer, self._resigned = producer, asyncio.get_running_loop().create_future()
            told = dict(self.state.max_ids)
            await self.write([noop(told)])
            if self.state.max_ids != told:  # it was behind the log, of which compaction would keep this record alone
                await self.write([noop(self.state.max_ids)])
        except BaseException:
            self._producer = None
            await producer.close(0)
            raise

    async def write(self, records: list[Record]) -> int:
        """All of them or none; they are in the state when this returns. Gives the offset of the last. Raises NotLeading
        if nothing was written because another leads, WriteFailed if nobody knows, KafkaError if nothing was written for
        a reason of theirs.
        """
        producer = self._producer
        if producer is None:
            raise NotLeading
        writing = asyncio.create_task(self._write_and_read(producer, records))
        timeout_s = self._config.number("kafkastore.timeout.ms") / 1000
        try:
            ends: set[asyncio.Future[Any]] = {writing, self._resigned}
            await asyncio.wait(ends, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if writing.done():
                return writing.result()
            if self._resigned.done():
                raise WriteFailed(_RESIGNED)
            raise WriteTimedOut(f"no answer within {timeout_s:g} s")
        except KafkaError as problem:
            if _is_fenced(problem):
                raise NotLeading from problem
            if problem.code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
                raise
            if problem.code == ErrorCode.REQUEST_TIMED_OUT and not self._resigned.done():
                raise WriteTimedOut(str(problem)) from problem
            raise WriteFailed(_RESIGNED if self._resigned.done() else str(problem)) from problem
        except TimeoutError as problem:  # the producer's own
            raise WriteTimedOut(str(problem) or "no answer in time") from problem
        except UserError as problem:
            raise WriteFailed(_RESIGNED if self._resigned.done() else str(problem)) from problem
        finally:
            # Not waited for: it aborts the transaction, for which it has as long again. `resign` ends that.
            writing.cancel()
            writing.add_done_callback(_ended)

    async def _write_and_read(self, producer: AsyncProducer, records: list[Record]) -> int:
        offset = await self._transaction(producer, records)
        await self.wait_for(offset, None)
        return offset

    async def _transaction(self, producer: AsyncProducer, records: list[Record]) -> int:
        offset = self._watched = -1
        try:
            async with producer.transaction():
                deliveries = [
                    await producer.send(self._topic, encode_value(each.value), key=encode_key(each.key), partition=0)
                    for each in records
                ]
                await producer.flush()  # all in one request, and nothing lingers
                for delivery in deliveries:
                    await delivery
                offset = self._watched = deliveries[-1].result(0).offset
                self._has_read_watched = False
        except KafkaError as problem:
            if offset < 0 or not _is_fenced(problem) or not await self._was_committed(offset):
                raise
        return offset

    async def _was_committed(self, offset: int) -> bool:
        """Where the commit is answered with another leader: an earlier answer to it may have been lost. That leader
        writes a record behind it, so the log tells.
        """
        await self.wait_for(offset, None)
        return self._has_read_watched

    @property
    def is_writer(self) -> bool:
        return self._producer is not None

    async def resign(self) -> None:
        """Writes nothing any more, until `lead`. Who waits for a write hears that nobody knows of it."""
        producer, self._producer = self._producer, None
        if not self._resigned.done():
            self._resigned.set_result(None)
        if producer is not None:
            try:
                await producer.close(0)
            except (KafkaError, UserError, TimeoutError) as problem:
                logger.info("event=resigned reason=%r", str(problem))

    async def close(self) -> None:
        await self.resign()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
        if self._consumer is not None:
            await self._consumer.close(5)
