"""Which topics match a pattern when an application starts."""

import pytest

from headwater.base.errors import UserError
from headwater.streams import App
from headwater.streams.topics.patterns import with_topics_named
from headwater.streams.topics.plan import external_topics
from headwater.streams.topology.topology import Topology

NAMES = ["app-counts-changelog", "app-by-repartition", "orders-fr", "orders-de", "orders", "my-orders-de"]


def topology_of(*patterns: str) -> Topology:
    app = App("app", key="text", value="text")
    for number, pattern in enumerate(patterns):
        app.stream(pattern=pattern).group_by(lambda value: value, name=f"by{number or ''}").count(
            store=f"counts{number or ''}"
        )
    return app.topology()


def test_a_pattern_names_the_topics_whose_whole_names_match() -> None:
    written = topology_of("orders-.*")
    topology = with_topics_named(written, "app", NAMES)
    assert external_topics(written) == set()  # another start may find others
    assert external_topics(topology) == {"orders-de", "orders-fr"}
    assert next(sub.source_topics for sub in topology.sub_topologies()) == ["orders-de", "orders-fr"]


def test_an_applications_own_topics_are_none_of_its_inputs() -> None:
    topology = with_topics_named(topology_of(".*"), "app", NAMES)
    assert external_topics(topology) == {"orders-de", "orders-fr", "orders", "my-orders-de"}


def test_a_pattern_that_nothing_matches_is_told() -> None:
    with pytest.raises(UserError, match=r"No topic matches invoices-\.\*"):
        with_topics_named(topology_of("invoices-.*"), "app", NAMES)


def test_a_topic_that_two_patterns_match_is_told() -> None:
    with pytest.raises(UserError, match="orders-de has two sources, KSTREAM-SOURCE-0000000000 and KSTREAM-SOURCE-"):
        with_topics_named(topology_of("orders-.*", ".*-de"), "app", NAMES)


def test_without_a_pattern_nothing_changes() -> None:
    app = App("app", key="text", value="text")
    app.stream("in").to("out")
    topology = with_topics_named(app.topology(), "app", NAMES)
    assert external_topics(topology) == {"in"}
