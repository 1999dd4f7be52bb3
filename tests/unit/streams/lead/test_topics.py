"""How many partitions an application's internal topics and tasks have."""

import pytest

from headwater.base.errors import UserError
from headwater.streams import App, unlimited
from headwater.streams.topics.plan import external_topics, plan_topics


def _app() -> App:
    return App("app", key="text", value="text")


def test_tasks_and_changelogs_follow_the_sources() -> None:
    app = _app()
    app.stream("in").group_by_key().count(store="counts").to_stream().to("out")
    plan = plan_topics("app", app.topology(), {"in": 3})
    assert plan.tasks == {0: 3}
    assert plan.sources == {"in": 3}
    assert [(topic.name, topic.partitions, topic.config["cleanup.policy"]) for topic in plan.internal] == [
        ("app-counts-changelog", 3, "compact")
    ]


def test_a_repartition_topic_is_as_wide_as_what_is_written_to_it() -> None:
    app = _app()
    app.stream("a", "b").select_key(lambda _, value: value).group_by_key().count(store="counts")
    plan = plan_topics("app", app.topology(), {"a": 2, "b": 5})
    assert plan.tasks == {0: 5, 1: 5}
    assert plan.sources["app-counts-repartition"] == 5
    assert {topic.name: topic.partitions for topic in plan.internal} == {
        "app-counts-repartition": 5,
        "app-counts-changelog": 5,
    }


def test_one_repartition_topic_hangs_on_another() -> None:
    app = _app()
    first = app.stream("in").repartition(name="first")
    first.select_key(lambda _, value: value).repartition(name="second").to("out")
    plan = plan_topics("app", app.topology(), {"in": 4})
    assert plan.sources == {"in": 4, "app-first-repartition": 4, "app-second-repartition": 4}


def test_a_number_that_was_given_counts() -> None:
    app = _app()
    app.stream("in").repartition(partitions=7, name="wide").to("out")
    assert plan_topics("app", app.topology(), {"in": 2}).tasks == {0: 2, 1: 7}


def test_topics_of_users_that_are_missing_are_named() -> None:
    app = _app()
    app.stream("in", "other").to("out")
    assert external_topics(app.topology()) == {"in", "other"}
    with pytest.raises(UserError, match="other"):
        plan_topics("app", app.topology(), {"in": 1})


def test_global_tables_have_no_tasks() -> None:
    app = _app()
    app.global_table("names", store="names")
    app.stream("in").to("out")
    plan = plan_topics("app", app.topology(), {"in": 2, "names": 3})
    assert sorted(plan.tasks.values()) == [2]
    assert plan.globals == {"names": 3}
    assert plan.internal == []


def test_the_topics_of_a_foreign_key_join_are_as_the_tables_that_they_are_joined_with() -> None:
    app = App("orders")
    orders, customers = app.table("o"), app.table("c")
    orders.join(customers, lambda order, customer: (order, customer), on=lambda order: order).to_stream().to("t")
    planned = plan_topics("orders", app.topology(), {"o": 2, "c": 3})
    registration, response = sorted(planned.sources.keys() - {"o", "c"})
    assert "REGISTRATION" in registration
    assert (planned.sources[registration], planned.sources[response]) == (3, 2)
    assert planned.tasks == {0: 2, 1: 3}


def test_windows_without_an_end_are_kept_for_ever() -> None:
    """A day was added to the largest number: brokers refused the changelog, and the application could not start."""
    app = _app()
    app.stream("in").group_by_key().windowed_by(unlimited()).count(store="counts")
    (changelog,) = plan_topics("app", app.topology(), {"in": 1}).internal
    assert changelog.config["retention.ms"] == str(2**63 - 1)
