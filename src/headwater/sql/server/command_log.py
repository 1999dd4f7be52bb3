"""The log of statements: a topic of one partition that every server reads from its beginning.

Servers apply its statements in order, and what one does to the catalog depends on nothing but the statements before
it; so all servers of one id agree, also after a crash. Of two servers that write at once the first is heard: what the
other tried was tried without it, and does not count (`Command.after`). The place of a statement is part of the ids of
the queries that it starts.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client import AsyncAdmin, AsyncConsumer, AsyncProducer
from headwater.client.types import NewTopic
from headwater.sql.server.closing import LAST_WORDS_S

logger = logging.getLogger("headwater.sql")
_FOREVER: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
VERSION: Final = 5
QUERIES_NAMED: Final = 2  # before, QUERY_ID of INSERT INTO was read over
SUCCESSORS_CHECKED: Final = 3  # before, OR REPLACE of columns was not checked, and a QUERY_ID used again went on
BOUNDS_SPREAD: Final = 4  # before, * of a join of windowed streams had no bounds of their windows
KEYS_FORMATTED: Final = 5  # before, keys that queries made had no format of their statement, and PARTITION BY NULL one


@dataclass(frozen=True, slots=True)
class Command:
    """A statement, with its variables replaced, and the properties that were set for it. `declares`: of a CREATE
    FUNCTION, what the function takes and gives (`function_shapes`), for servers that do not have its code. `place`: of
    a statement of `ksql.queries.file`, how many are before it: each server has the file, and the first counts that
    writes it. `after`: how much of the log had been carried out when the statement was tried; it counts only if no
    other was carried out since, for what was tried may mean something else by then. None: of ksqlDB, or of an earlier
    version.
    """

    statement: str
    properties: Mapping[str, str] = field(default_factory=dict)
    version: int = VERSION
    declares: str | None = None
    place: int | None = None
    after: int | None = None

    def encode(self) -> bytes:
        document = {"statement": self.statement, "streamsProperties": dict(self.properties), "version": self.version}
        if self.declares is not None:
            document["declares"] = self.declares
        if self.place is not None:
            document["place"] = self.place
        if self.after is not None:
            document["after"] = self.after
        return json.dumps(document, ensure_ascii=False).encode()

    @classmethod
    def decode(cls, data: bytes) -> Command:
        """Raises ValueError for what is no statement of ours or ksqlDB's."""
        document: Any = json.loads(data)
        if not isinstance(document, dict) or not isinstance(document.get("statement"), str):
            raise ValueError("it has no statement")
        given = document.get("streamsProperties") or {}
        if not isinstance(given, dict):
            raise ValueError("its properties are no object")
        version = document.get("version")
        properties = {str(name): str(value) for name, value in given.items()}
        declares, place, after = (document.get(name) for name in ("declares", "place", "after"))
        return cls(
            document["statement"],
            properties,
            version if isinstance(version, int) else 1,
            declares if isinstance(declares, str) else None,
            place if isinstance(place, int) else None,
            after if isinstance(after, int) else None,
        )


class CommandLog:
    """Owns the clients that read and write the topic."""

    def __init__(self, client: Mapping[str, str], topic: str, replicas: int) -> None:
        self._client = client
        self.topic = topic
        self._replicas = replicas
        self._partition = TopicPartition(topic, 0)
        self._producer: AsyncProducer | None = None
        self._consumer: AsyncConsumer | None = None

    async def open(self) -> None:
        async with AsyncAdmin(self._client) as admin:
            await create_topic(admin, self.topic, 1, self._replicas, _FOREVER)
        self._producer = AsyncProducer({**self._client, "acks": "all", "linger.ms": 0})
        # A log that begins later than it did, or is another one: whoever went on would know other things than the rest.
        self._consumer = AsyncConsumer(
            {**self._client, "isolation.level": "read_committed", "auto.offset.reset": "none"}
        )
        self._consumer.assign([self._partition])
        self._consumer.seek(self._partition, 0)

    async def close(self) -> None:
        if self._consumer is not None:
            await self._consumer.close()
        if self._producer is not None:
            await self._producer.close(LAST_WORDS_S)

    async def append(self, command: Command) -> int:
        """The place of the statement. Whether it counts there is told by the engine, when it has applied it."""
        assert self._producer is not None
        delivery = await self._producer.send(self.topic, command.encode(), partition=0)
        return int((await delivery).offset)

    async def end(self) -> int:
        assert self._consumer is not None
        return int((await self._consumer.end_offsets([self._partition]))[self._partition])

    async def statements(self) -> AsyncIterator[tuple[int, bytes | None]]:
        """All that there are, then each new one; for ever. None: up to there is no statement, but the marker of a
        transaction, as ksqlDB writes them, or a record without a value.
        """
        assert self._consumer is not None
        read = 0
        while True:
            for record in await self._consumer.poll(1.0):
                yield record.offset, record.value
                read = record.offset + 1
            position = await self._consumer.position(self._partition)
            if position > read:
                yield position - 1, None
                read = position


async def create_topic(
    admin: AsyncAdmin,
    name: str,
    partitions: int,
    replicas: int,
    configs: Mapping[str, str] | None = None,
    *,
    exactly: bool = False,
) -> None:
    """Makes a topic; one that is there already is fine. Fewer brokers than replicas: one replica, unless it has to have
    `exactly` so many. Raises KafkaError.
    """
    counts = (replicas,) if exactly or replicas == 1 else (replicas, 1)
    for count in counts:
        wanted = NewTopic(name, partitions, count, dict(configs or {}))
        answer = (await admin.create_topics([wanted]))[name]
        if not isinstance(answer, KafkaError) or answer.code == ErrorCode.TOPIC_ALREADY_EXISTS:
            return
        if answer.code != ErrorCode.INVALID_REPLICATION_FACTOR or count == counts[-1]:
            raise answer
        logger.warning("event=fewer_replicas topic=%s wanted=%d made_with=1 reason=%r", name, replicas, str(answer))
