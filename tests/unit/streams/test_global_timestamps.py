"""Timestamps of global tables and stores. In Kafka Streams (4.3: GlobalStateUpdateTask, GlobalStateManagerImpl) no
extractor is asked for them: a record has its own timestamp. A negative one cannot be a `Record` there, so it ends the
application when it comes in; at the start, rows of a table are taken as they are, and records of a store that a
processor makes fail like those that cannot be deserialized.
"""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.base.ids import TopicPartition
from headwater.streams import App, Processor, Record, key_value_store
from headwater.streams.model.record import InputRecord
from headwater.streams.model.time import log_and_skip_on_invalid_timestamp, use_partition_time_on_invalid_timestamp
from headwater.streams.slot.global_tables import GlobalTables


class Times(Processor):
    def process(self, record: Record) -> None:
        self.context.store("made").put(record.key, record.timestamp)


def shop(**settings: Any) -> App:
    app = App("shop", key="text", value="text", **settings)
    app.global_table("names", store="names", timestamp=lambda value: 77)
    app.add_global_store(key_value_store("made", value="long"), "prices", Times, timestamp=lambda value: 77)
    return app


def test_extractors_of_global_tables_and_stores_are_not_asked(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "headwater.streams"):
        app = shop()
    assert [record.getMessage().partition(" topic=")[2] for record in caplog.records] == ["names", "prices"]
    driver = app.test()
    driver.pipe("names", "k", "v", 5)
    driver.pipe("prices", "k", "v", 6)
    assert driver.store("names").get("k") == ("v", 5)
    assert driver.store("made").get("k") == 6


def test_nor_is_that_of_the_application() -> None:
    driver = shop(timestamp=lambda value: 99).test()
    driver.pipe("names", "k", "v", 5)
    assert driver.store("names").get("k") == ("v", 5)


@pytest.mark.parametrize("extractor", [log_and_skip_on_invalid_timestamp, use_partition_time_on_invalid_timestamp])
@pytest.mark.parametrize("topic", ["names", "prices"])
def test_a_negative_timestamp_that_comes_in_ends_the_application(topic: str, extractor: Any) -> None:
    driver = shop(timestamp=extractor, on_error="skip").test()
    with pytest.raises(UserError, match=f"The record at {topic}-0 offset 0 has no valid timestamp"):
        driver.pipe(topic, "k", "v", -1)


class Topics:
    """Brokers with some records."""

    def __init__(self, **records: list[tuple[bytes, bytes, int]]) -> None:
        self._records = records
        self.asked: list[str] = []
        self.admin = SimpleNamespace(list_offsets=self._offsets)
        self.reader = SimpleNamespace(records=self._read)

    def _offsets(self, wanted: dict[TopicPartition, int], **_: int) -> dict[TopicPartition, Any]:
        ends = {each: len(self._records[each.topic]) for each in wanted}
        return {each: SimpleNamespace(offset=ends[each] if when == -1 else 0) for each, when in wanted.items()}

    def _read(self, at: TopicPartition, begin: int, end: int, **_: object) -> list[Any]:
        self.asked.append(at.topic)
        return [
            SimpleNamespace(
                topic=at.topic, partition=0, offset=offset, timestamp_ms=time, key=key, value=value, headers=()
            )
            for offset, (key, value, time) in enumerate(self._records[at.topic][begin:end], begin)
        ]


def tables_of(app: App) -> GlobalTables:
    plans = app.topology().sub_topologies()
    return GlobalTables(plans, app.settings(), {topic: 1 for plan in plans for topic in plan.source_topics})


def test_what_a_table_has_at_the_start_is_taken_with_negative_timestamps() -> None:
    tables = tables_of(shop())
    topics: Any = Topics(names=[(b"a", b"old", -1), (b"b", b"new", 4)], prices=[])
    assert tables.restore(topics) == {TopicPartition("names", 0): 2, TopicPartition("prices", 0): 0}
    assert list(tables.stores["names"].all()) == [("a", ("old", -1)), ("b", ("new", 4))]
    with pytest.raises(UserError, match="names-0 offset 2 has no valid timestamp"):
        tables.update(InputRecord("names", 0, 2, -1, b"a", b"x"))


def test_at_the_start_the_policy_decides_about_a_negative_timestamp_that_a_processor_would_get() -> None:
    topics: Any = Topics(names=[], prices=[(b"a", b"old", -1), (b"b", b"new", 4)])
    with pytest.raises(UserError, match=r"Deserialization failed in .*prices-0 offset 0"):
        tables_of(shop()).restore(topics)
    tables = tables_of(shop(on_error="skip"))
    tables.restore(topics)
    assert list(tables.stores["made"].all()) == [("b", 4)]
    assert tables.take_dropped() == {"deserialization error": 1}


class Doubles(Processor):
    def process(self, record: Record) -> None:
        made = self.context.store("made").get(record.key)
        self.context.store("doubled").put(record.key, -1 if made is None else 2 * made)


def test_stores_are_restored_in_the_order_in_which_they_were_added() -> None:
    """A processor finds all that those before its own have made, and nothing yet of those behind."""
    app = App("shop", key="text", value="text")
    app.add_global_store(key_value_store("doubled", value="long"), "before", Doubles, name="d")
    app.add_global_store(key_value_store("made", value="long"), "prices", Times)
    topics: Any = Topics(before=[(b"a", b"", 1)], prices=[(b"a", b"", 21)])
    tables = tables_of(app)
    tables.restore(topics)
    assert topics.asked == ["before", "prices"]
    assert tables.stores["doubled"].get("a") == -1
    tables.update(InputRecord("before", 0, 1, 2, b"a", b""))
    assert tables.stores["doubled"].get("a") == 42

    app = App("shop", key="text", value="text")
    app.add_global_store(key_value_store("made", value="long"), "prices", Times)
    app.add_global_store(key_value_store("doubled", value="long"), "before", Doubles, name="d")
    topics = Topics(before=[(b"a", b"", 1)], prices=[(b"a", b"", 21)])
    tables = tables_of(app)
    tables.restore(topics)
    assert topics.asked == ["prices", "before"]
    assert tables.stores["doubled"].get("a") == 42
