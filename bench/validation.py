"""Schemas checked by the broker: what a record costs it more, on a topic that asks for it. The limit is the same topic
without validation, in the same broker.
"""

import http.client
import json

from bench import requests
from bench.brokers import Broker, cpu_seconds
from bench.registry import answered, process, registry_command
from bench.replay import replay
from bench.report import LESS, Figure, Kind
from bench.requests import Calls
from bench.rows import PARTITIONS, Bench, Figures, Scenario, check

RECORDS, VALUE_BYTES = 5000, 100


def _cost_us(bench: Bench, broker: Broker, topic: str, schema_id: int) -> float:
    """CPU time of the broker for each record."""
    value = b"\0" + schema_id.to_bytes(4, "big") + bytes(VALUE_BYTES - 5)
    data = requests.batch(RECORDS, VALUE_BYTES, value=value)
    frames = [requests.produce(topic, partition, data) for partition in range(PARTITIONS)]
    path = bench.frames(f"validation-{topic}", frames)
    replay(
        broker.port, path, connections=1, depth=1, seconds=20, requests=PARTITIONS
    )  # it knows the schema from here on
    before = cpu_seconds(broker.pid)
    done = replay(broker.port, path, connections=1, depth=4, seconds=20, requests=bench.count(400))
    cost = (cpu_seconds(broker.pid) - before) / (done.requests * RECORDS) * 1e6
    with Calls(broker.port) as calls:
        check("records in the log", sum(calls.end_offsets(topic, PARTITIONS)), (done.requests + PARTITIONS) * RECORDS)
    return cost


def validating(bench: Bench) -> Figures:
    with bench.topic(1) as topic, process(registry_command(bench, f"_{topic}")) as (port, _):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        body = json.dumps({"schema": '"bytes"'}).encode()
        schema_id = json.loads(answered(connection, "POST", "/subjects/checked-value/versions", body))["id"]
        connection.close()
        url = f"confluent.schema.registry.url=http://127.0.0.1:{port}"
        with bench.start(bench.directory(), [url]) as broker:
            with Calls(broker.port) as calls:
                calls.create_topic("plain", PARTITIONS)
                calls.create_topic("checked", PARTITIONS, {"confluent.value.schema.validation": "true"})
            plain_us = _cost_us(bench, broker, "plain", schema_id)
            return {"schema-validation-cpu": Figure(_cost_us(bench, broker, "checked", schema_id), plain_us)}


def validation_scenarios() -> list[Scenario]:
    what = "broker CPU of a record of 100 bytes, its schema checked"
    kind = Kind("schema-validation-cpu", what, "us", LESS, "the same without validation")
    return [Scenario((kind,), validating, 2, about_broker=False)]
