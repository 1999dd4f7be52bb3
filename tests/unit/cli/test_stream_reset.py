"""What `headwater stream reset` says it did, and what it would do."""

from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.ids import TopicPartition
from headwater.cli.kafka import streams_application_reset
from headwater.cli.kafka.options import Options
from headwater.cli.stream_reset import inputs_of, internal_topics, told, topics_of_users
from headwater.streams import App
from headwater.streams.topics.patterns import own_topics


@pytest.mark.parametrize(
    ("dry_run", "text"),
    [
        (False, "in-0 begins at 5\na-changelog is deleted\n"),
        (True, "in-0 would begin at 5\na-changelog would be deleted\n"),
    ],
)
def test_a_dry_run_says_what_would_be(dry_run: bool, text: str) -> None:
    assert told({TopicPartition("in", 0): 5}, ["a-changelog"], dry_run=dry_run) == text


def test_topics_that_match_a_pattern_begin_anew_too() -> None:
    """Their offsets stayed, while the state was deleted: what was counted before was never counted again."""
    app = App("a", key="text", value="text")
    app.stream(pattern="orders-.*|a-.*").merge(app.stream("in")).to("out")
    there = ["in", "out", "orders-de", "a-left-over-changelog", "my-orders-de"]
    assert inputs_of(app, there) == ["in", "orders-de"]
    assert inputs_of(app, ["out"]) == []


def test_topics_of_users_are_not_deleted_whatever_their_names() -> None:
    """They went with the internal ones: an input that a connector writes may well be called so."""
    app = App("orders", on_error="dead_letter", dead_letter_topic="orders-dead-changelog")
    rows = app.table("orders-raw-changelog", store="rows")
    rows.to_stream().to("orders-out-changelog")
    own = ["orders-raw-changelog", "orders-out-changelog", "orders-dead-changelog"]
    there = [*own, "orders-rows-changelog", "orders-left-over-changelog", "other-rows-changelog"]
    assert inputs_of(app, there) == ["orders-raw-changelog"]
    assert internal_topics("orders", there, users=topics_of_users(app)) == [
        "orders-left-over-changelog",
        "orders-rows-changelog",
    ]


def test_topics_of_an_application_whose_name_begins_with_this_ones_are_not_deleted() -> None:
    """The next version of an application: to reset the former one deleted its state while it ran."""
    there = ["orders-v2-counts-changelog", "orders-v2-by-repartition", "orders-counts-changelog", "orders-v1-changelog"]
    groups = ["orders", "orders-v2", "orders-v", "order", "orders-v2-counts"]
    assert internal_topics("orders", there, groups=groups) == ["orders-counts-changelog", "orders-v1-changelog"]
    assert internal_topics("orders-v2", there, groups=groups) == [
        "orders-v2-by-repartition",
        "orders-v2-counts-changelog",
    ]


def test_topics_of_its_own_go_whatever_groups_are_called() -> None:
    """Else what was counted would be there again: a reader of its results is often called like this."""
    app = App("orders")
    app.stream("in").group_by(lambda value: value, name="by-day").count(store="counts-per-day")
    there = ["orders-counts-per-day-changelog", "orders-by-day-repartition", "orders-counts-of-v3-changelog"]
    own = own_topics(app.topology(), "orders")
    assert internal_topics("orders", there, own=own, groups=["orders-counts", "orders-by"]) == [
        "orders-by-day-repartition",
        "orders-counts-per-day-changelog",
    ]


def test_inputs_that_are_named_are_not_deleted_by_kafkas_tool_either() -> None:
    deleted: list[str] = []
    admin: Any = SimpleNamespace(delete_topics=lambda topics: deleted.extend(topics) or {})
    given = {
        "application-id": ["a"],
        "input-topics": ["a-in-changelog,b"],
        "intermediate-topics": ["a-mid-repartition"],
    }
    topics = ["a-in-changelog", "a-mid-repartition", "a-rows-changelog", "b"]
    streams_application_reset._delete_internal(admin, Options(given), topics)
    assert deleted == ["a-rows-changelog"]
