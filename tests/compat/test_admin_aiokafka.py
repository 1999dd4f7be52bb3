"""Admin calls by aiokafka, in the old encodings."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.admin.records_to_delete import RecordsToDelete

from compat.support.clients.aio import Aiokafka
from compat.support.clients.base import Message


def _with_admin(bootstrap: str, use: Callable[[AIOKafkaAdminClient], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            return await use(admin)
        finally:
            await admin.close()

    return asyncio.run(run())


def _errors(response: Any) -> list[int]:
    return [error[1] for error in response.topic_errors]


def test_create_describe_and_delete_topic(broker_address: str, topic: str) -> None:
    async def use(admin: AIOKafkaAdminClient) -> None:
        new = NewTopic(topic, 2, 1, topic_configs={"retention.ms": "1000"})
        assert _errors(await admin.create_topics([new])) == [0]
        assert _errors(await admin.create_topics([new])) == [36]
        assert _errors(await admin.create_topics([NewTopic("bad name", 1, 1)])) == [17]
        assert topic in await admin.list_topics()
        (described,) = await admin.describe_topics([topic])
        assert len(described["partitions"]) == 2
        partitions = await admin.create_partitions({topic: NewPartitions(3)})
        assert _errors(partitions) == [0]
        assert len((await admin.describe_topics([topic]))[0]["partitions"]) == 3
        deleted = await admin.delete_topics([topic])
        assert [error[1] for error in deleted.topic_error_codes] == [0]
        assert topic not in await admin.list_topics()

    _with_admin(broker_address, use)


def test_describe_and_alter_configs(broker_address: str, topic: str) -> None:
    async def use(admin: AIOKafkaAdminClient) -> None:
        async def value(name: str) -> str:
            (response,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
            (resource,) = response.resources
            return {entry[0]: entry[1] for entry in resource[4]}[name]

        await admin.create_topics([NewTopic(topic, 1, 1)])
        while topic not in await admin.list_topics():  # Apache Kafka answers a little earlier
            await asyncio.sleep(0.05)
        assert await value("retention.ms") == "604800000"
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "1000"})])
        assert await value("retention.ms") == "1000"

    _with_admin(broker_address, use)


def test_delete_records_and_describe_cluster(broker_address: str, topic: str) -> None:
    client = Aiokafka(None)
    client.produce(broker_address, topic, [Message(value=b"v")] * 6)

    async def use(admin: AIOKafkaAdminClient) -> None:
        where = TopicPartition(topic, 0)
        assert await admin.delete_records({where: RecordsToDelete(before_offset=4)}) == {where: 4}
        cluster = await admin.describe_cluster()
        assert [f"{broker['host']}:{broker['port']}" for broker in cluster["brokers"]] == [broker_address]
        assert cluster["cluster_id"]

    _with_admin(broker_address, use)
    assert client.positions(broker_address, topic) == (4, 6)
