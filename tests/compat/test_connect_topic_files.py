"""A topic into files, by a worker and a broker;
the worker starts anew in the middle, with a group that knows nothing.
"""

import json
from pathlib import Path

from headwater.base.ids import TopicPartition
from headwater.client import Consumer, Producer
from headwater.testing.connect import ConnectWorker


def produce(address: str, topic: str, numbers: range) -> None:
    with Producer({"bootstrap.servers": address}) as producer:
        for number in numbers:
            producer.send(topic, str(number).encode(), partition=0)
        producer.flush()


def committed(address: str, group: str, topic: str) -> int | None:
    with Consumer({"bootstrap.servers": address, "group.id": group}) as consumer:
        found = consumer.committed([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
        return None if found is None else found.offset


def test_a_worker_that_starts_anew_goes_on_where_the_files_end(broker_address: str, topic: str, tmp_path: Path) -> None:
    config = {"connector.class": "TopicFiles", "topics": topic, "path": str(tmp_path), "format": "json"}
    config["flush.size"] = "4"

    def names() -> list[str]:
        return sorted(each.name for each in tmp_path.rglob("*.json"))

    produce(broker_address, topic, range(10))
    with ConnectWorker(broker_address) as worker:
        worker.create(f"one-{topic}", config)
        worker.until(lambda: len(names()) == 2)
        worker.until(lambda: committed(broker_address, f"connect-one-{topic}", topic) == 8)
    produce(broker_address, topic, range(10, 17))
    with ConnectWorker(broker_address) as worker:
        worker.create(f"two-{topic}", config)  # its group begins at the beginning: the files know better
        worker.until(lambda: len(names()) == 4)
        assert worker.status(f"two-{topic}")["tasks"][0]["state"] == "RUNNING"
    assert names() == [f"{topic}+0+{n:010}+{n + 3:010}.json" for n in (0, 4, 8, 12)]
    lines = [line for name in names() for line in (tmp_path / topic / "partition=0" / name).read_text().splitlines()]
    assert [int(json.loads(line)) for line in lines] == list(range(16))
