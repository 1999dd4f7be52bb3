"""What an application says in `config`: Kafka Streams' settings, by their names."""

from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.streams import App, Materialized, tumbling, versioned_store
from headwater.streams.model.processor import Processor
from headwater.streams.topics.plan import InternalTopic, plan_topics


def internal_topics(config: dict[str, Any], **of_store: str) -> dict[str, InternalTopic]:
    app = App("app", config=config)
    grouped = app.stream("in").select_key(lambda value: value).group_by_key(name="again")
    grouped.count(store=Materialized("plain", topic_config=of_store))
    grouped.windowed_by(tumbling(5)).count(store=Materialized("windows", topic_config=of_store))
    app.add_store(versioned_store("versions", 7))
    app.stream("other").process(Processor, stores=["versions"])
    plan = plan_topics("app", app.topology(), {"in": 2, "other": 2}, app.internal_topics)
    return {topic.name.removeprefix("app-").partition("-")[0]: topic for topic in plan.internal}


def test_what_is_said_of_all_internal_topics_is_said_to_brokers() -> None:
    topics = internal_topics({"topic.min.insync.replicas": 2, "replication.factor": 3})
    assert {topic.config["min.insync.replicas"] for topic in topics.values()} == {"2"}
    assert {topic.replication_factor for topic in topics.values()} == {3}
    assert {topic.replication_factor for topic in internal_topics({}).values()} == {-1}


def test_a_store_says_more_than_the_application_and_windows_more_than_both() -> None:
    config = {"topic.retention.ms": 9, "topic.min.compaction.lag.ms": 9, "topic.cleanup.policy": "delete"}
    topics = internal_topics(config, **{"cleanup.policy": "compact"})
    assert [topics[name].config["cleanup.policy"] for name in ("again", "plain", "windows")] == [
        "delete",
        "compact",
        "compact",
    ]
    assert [topics[name].config["retention.ms"] for name in ("again", "plain", "windows")] == ["9", "9", "86400005"]
    assert topics["versions"].config["min.compaction.lag.ms"] == "86400007"
    assert internal_topics(config, **{"retention.ms": "8"})["windows"].config["retention.ms"] == "8"


def test_how_long_windows_stay_beyond_their_retention_is_a_setting_and_that_of_versions_is_not() -> None:
    topics = internal_topics({"windowstore.changelog.additional.retention.ms": "100"})
    assert topics["windows"].config["retention.ms"] == "105"
    assert topics["versions"].config["min.compaction.lag.ms"] == "86400007"


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"commit.interval.ms": 10}, "commit_interval_ms="),
        ({"processing.guarantee": "at_least_once"}, "processing_guarantee="),
        ({"default.key.serde": "text"}, "key="),
        ({"statestore.cache.max.byte": 5}, "Did you mean statestore.cache.max.bytes"),
        ({"security.protocol": "SSL"}, "client="),
        ({"topology.optimization": "everything"}, "single.store.self.join"),
        ({"topology.optimization": "all,single.store.self.join"}, "single.store.self.join"),
        ({"auto.offset.reset": "newest"}, "by_duration"),
        ({"auto.offset.reset": "by_duration:1h"}, "PT1H"),
        ({"replication.factor": 0}, "default"),
        ({"replication.factor": "three"}, "whole number"),
        ({"windowstore.changelog.additional.retention.ms": -1}, "whole number"),
    ],
)
def test_what_would_have_no_effect_is_refused(config: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        App("app", config=config)


@pytest.mark.parametrize("reset", ["earliest", "latest", "none", "by_duration:PT1H30M"])
def test_the_places_where_inputs_may_begin(reset: str) -> None:
    app = App("app", config={"auto.offset.reset": reset})
    app.stream("in", reset=reset)
    app.table("rows", reset=reset)
    app.topology()


@pytest.mark.parametrize(
    ("optimization", "told"), [("all", 1), ("merge.repartition.topics", 1), ("none", 0), (None, 0)]
)
def test_optimizations_that_are_not_there_are_told(
    optimization: str | None, told: int, caplog: pytest.LogCaptureFixture
) -> None:
    App("app", config={"topology.optimization": optimization})
    assert len(caplog.records) == told
    App("app", config={"topology.optimization": "single.store.self.join"})
    assert len(caplog.records) == told
