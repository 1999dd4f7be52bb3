"""Metadata makes topics that are asked for and not there."""

from typing import Any

from headwater.base.errors import ErrorCode
from headwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic


def request(*names: str, allow: bool = True) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=allow)


def outcome(response: Any) -> list[tuple[str, str, int]]:
    return [(t.name, ErrorCode(t.error_code).name, len(t.partitions)) for t in response.topics]


def test_a_topic_is_made_with_the_brokers_defaults(make_lab: Any) -> None:
    lab = make_lab(num_partitions="3")
    assert outcome(lab.ask(request("clicks"))) == [("clicks", "NONE", 3)]


def test_two_clients_that_ask_for_a_new_topic_at_once(lab: Any) -> None:
    """Both found it missing; it is made once, and both are told of it."""
    first, second = lab.begin(request("clicks")), lab.begin(request("clicks", "views"))
    lab.settle()
    assert outcome(first.response) == [("clicks", "NONE", 1)]
    assert outcome(second.response) == [("clicks", "NONE", 1), ("views", "NONE", 1)]


def test_nothing_is_made_against_the_will_of_client_or_broker(make_lab: Any) -> None:
    assert outcome(make_lab().ask(request("clicks", allow=False))) == [("clicks", "UNKNOWN_TOPIC_OR_PARTITION", 0)]
    lab = make_lab(auto_create_topics_enable="false")
    assert outcome(lab.ask(request("clicks"))) == [("clicks", "UNKNOWN_TOPIC_OR_PARTITION", 0)]
    assert lab.broker.image.topics == {}


def test_bad_names_and_names_that_collide_are_not_made(lab: Any) -> None:
    lab.ask(request("a.b"))
    answers = outcome(lab.ask(request("bad name", "a_b")))
    assert [code for _, code, _ in answers] == ["INVALID_TOPIC_EXCEPTION", "UNKNOWN_TOPIC_OR_PARTITION"]
    assert set(lab.broker.image.ids_by_name) == {"a.b"}
