"""Cases that give the same on a broker as in the test driver, and what they need there.

Cases with one input and without repartition topics: what several inputs bring is merged as it comes. `make_case(seed)`
makes a case again.
"""

import time
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

from compat.support.streams.build import ANY, build
from compat.support.streams.cases import make_case
from headwater.client import READ_COMMITTED, Admin, NewTopic, Producer, RangeReader, TopicPartition
from headwater.client.types import LATEST
from headwater.streams import App

PARTITIONS = 4
PATIENCE_S = 120
OTHER_KEYS = ("map", "flat_map", "select_key")
FOREVER = {"retention.ms": "-1"}  # their times are those of a case, near 0

Case = dict[str, Any]
Row = tuple[str, bytes | None, bytes | None, int]
ByKey = dict[tuple[str, bytes | None], list[tuple[bytes | None, int]]]


def renamed(case: Case) -> Case:
    """With topics of its own, so that cases may share a broker."""
    name = f"case-{case['seed']}"
    steps = [step | ({"topic": f"{name}-{step['topic']}"} if "topic" in step else {}) for step in case["steps"]]
    inputs = [step | {"topic": f"{name}-{step['topic']}"} for step in case["inputs"] if "topic" in step]
    return case | {"steps": steps, "inputs": inputs, "name": name}


def made(case: Case, servers: str = "nowhere:1") -> App:
    return build(case, case["name"], servers)


def is_alike_everywhere(case: Case) -> bool:
    """What does not hang on the clock, on chance, or on which of two inputs comes first."""
    steps = case["steps"]
    sources = [step for step in steps if step["op"] in ("stream", "table", "global_table", "global_store")]
    if len(sources) != 1 or "topics" in sources[0] or not any(step["op"] == "to" for step in steps):
        return False
    if any(step.get("fn") == "wall_time" or step.get("dynamic") for step in steps):
        return False
    if any(step["op"] in OTHER_KEYS or (step["op"] == "to_stream" and "fn" in step) for step in steps):
        return False  # then tasks write results of one key, each when it likes
    sub, *others = made(renamed(case)).topology().sub_topologies()
    return not others and not sub.internal_names


def cases() -> Iterator[Case]:
    return (renamed(case) for case in map(make_case, count()) if is_alike_everywhere(case))


def outputs_of(case: Case) -> list[str]:
    return sorted({step["topic"] for step in case["steps"] if step["op"] == "to"})


def by_key(rows: Iterable[Row]) -> ByKey:
    """Records without a key go to any partition, so their order is nobody's."""
    found: ByKey = {}
    for topic, key, value, timestamp in rows:
        found.setdefault((topic, key), []).append((value, timestamp))
    return {place: sorted(told, key=repr) if place[1] is None else told for place, told in found.items()}


def send_inputs(case: Case, servers: str, admin: Admin) -> str:
    """-> the topic that they are in. It and the outputs are made."""
    given: str = case["inputs"][0]["topic"]
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, configs=FOREVER) for topic in (given, *outputs_of(case))])
    with Producer(bootstrap_servers=servers) as producer:
        for step in case["inputs"]:
            key = None if step["key"] is None else step["key"].encode()
            value = None if step["value"] is None else ANY.serialize(step["value"])
            headers = [(name, told.encode()) for name, told in step["headers"]]
            where = 0 if key is None else None  # as the driver does
            producer.send(given, value, key=key, timestamp_ms=step["timestamp"], headers=headers, partition=where)
    return given


def until_processed(admin: Admin, group: str, topic: str, patience_s: float = PATIENCE_S) -> None:
    places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    ends: Any = admin.list_offsets(dict.fromkeys(places, LATEST))
    give_up_at = time.monotonic() + patience_s
    while True:
        committed = admin.list_group_offsets(group, places)
        done = {place: each.offset for place, each in committed.items() if each is not None}
        if all(done.get(place, 0) >= ends[place].offset for place in places):
            return
        assert time.monotonic() < give_up_at, f"{group}: {done}"
        time.sleep(0.02)


def committed(admin: Admin, servers: str, topic: str) -> Iterator[Row]:
    places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    ends: Any = admin.list_offsets(dict.fromkeys(places, LATEST), isolation_level=READ_COMMITTED)
    with RangeReader(bootstrap_servers=servers) as reader:
        for place in places:
            for record in reader.records(place, 0, ends[place].offset):
                yield topic, record.key, record.value, record.timestamp_ms
