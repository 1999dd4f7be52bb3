"""What `headwater stream reset` says it did, and what it would do."""

import pytest

from headwater.base.ids import TopicPartition
from headwater.cli.stream_reset import inputs_of, told
from headwater.streams import App


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
