"""A link: negotiation, answers in order, deadlines, and what becomes of requests when it breaks."""

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client.addresses import Address
from headwater.client.errors import ConnectionFailed, RequestTimedOut
from headwater.client.reactor.link import Link
from headwater.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from headwater.wire.messages.metadata import MetadataRequest, MetadataResponse
from unit.client.reactor.fakes import CLOSE, HOLD, FakeBroker, FakeWorld


def linked(**settings: int) -> tuple[FakeWorld, FakeBroker, Link]:
    world = FakeWorld()
    broker = world.broker(0)
    return world, broker, world.run(Link.open(world.kernel, world, broker.address, client_id="test", **settings))


def test_versions_and_features_are_those_of_the_broker() -> None:
    world = FakeWorld()
    broker = world.broker(0)
    broker.versions[MetadataRequest.KEY] = (0, 8)
    broker.finalized_features = {"transaction.version": 2}
    link = world.run(Link.open(world.kernel, world, broker.address, client_id="test"))
    assert link.version_for(MetadataRequest()) == 8
    assert link.features == {"transaction.version": 2}


def test_what_the_broker_does_not_offer_is_refused_in_words() -> None:
    world = FakeWorld()
    broker = world.broker(0)
    del broker.versions[ListGroupsRequest.KEY]
    link = world.run(Link.open(world.kernel, world, broker.address, client_id="test"))
    assert not link.supports(ListGroupsRequest)
    with pytest.raises(KafkaError, match="does not offer ListGroups"):
        link.call(ListGroupsRequest(), ListGroupsResponse)


def test_requests_are_under_way_together_and_answered_in_order() -> None:
    world, broker, link = linked()
    broker.on(ListGroupsRequest, lambda _: HOLD)
    futures = [link.call(ListGroupsRequest(), ListGroupsResponse) for _ in range(3)]
    world.pass_time(1)
    assert len(broker.held) == 3
    assert link.requests_under_way == 3
    for code in (1, 2, 3):
        broker.answer_held(ListGroupsResponse(error_code=code))
    world.pass_time(1)
    assert [future.result().error_code for future in futures] == [1, 2, 3]


def test_a_request_without_an_answer_closes_the_link_for_all() -> None:
    world, broker, link = linked(request_timeout_ms=5000)
    broker.on(ListGroupsRequest, lambda _: HOLD)
    first = link.call(ListGroupsRequest(), ListGroupsResponse)
    second = link.call(ListGroupsRequest(), ListGroupsResponse, timeout_ms=60_000)
    world.pass_time(4.9)
    assert not first.done
    world.pass_time(0.2)
    assert isinstance(first.error, RequestTimedOut)
    assert isinstance(second.error, RequestTimedOut)
    assert not link.is_open


def test_an_earlier_deadline_behind_a_late_one_is_kept() -> None:
    world, broker, link = linked(request_timeout_ms=5000)
    broker.on(ListGroupsRequest, lambda _: HOLD)
    slow = link.call(ListGroupsRequest(), ListGroupsResponse, timeout_ms=60_000)
    quick = link.call(ListGroupsRequest(), ListGroupsResponse)
    world.pass_time(5.1)
    assert isinstance(quick.error, RequestTimedOut)
    assert isinstance(slow.error, RequestTimedOut)


def test_an_answered_request_leaves_no_deadline() -> None:
    world, broker, link = linked(request_timeout_ms=5000)
    broker.on(ListGroupsRequest, lambda _: ListGroupsResponse())
    future = link.call(ListGroupsRequest(), ListGroupsResponse)
    world.pass_time(60)
    assert future.result().error_code == 0
    assert link.is_open


def test_a_broker_that_closes_fails_what_is_under_way() -> None:
    world, broker, link = linked()
    broker.on(ListGroupsRequest, lambda _: CLOSE)
    future = link.call(ListGroupsRequest(), ListGroupsResponse)
    world.pass_time(1)
    with pytest.raises(ConnectionFailed, match="closed the connection instead of answering ListGroups"):
        future.result()
    assert link.call(ListGroupsRequest(), ListGroupsResponse).error is not None


def test_a_broker_that_closes_before_it_said_anything_may_want_tls_or_a_login() -> None:
    """All that was told was `Connection reset by peer`, of a listener with TLS to a client without."""
    world, broker, link = linked()
    broker.on(ListGroupsRequest, lambda _: CLOSE)
    future = link.call(ListGroupsRequest(), ListGroupsResponse)
    world.pass_time(1)
    assert isinstance(future.error, ConnectionFailed)
    assert future.error.mute
    assert "is security.protocol that of the listener?" in future.error.reason


def test_a_broker_that_has_answered_closes_for_other_reasons() -> None:
    world, broker, link = linked()
    answers = iter([ListGroupsResponse(), CLOSE])
    broker.on(ListGroupsRequest, lambda _: next(answers))
    first, future = (link.call(ListGroupsRequest(), ListGroupsResponse) for _ in range(2))
    world.pass_time(1)
    assert first.result().error_code == 0
    assert isinstance(future.error, ConnectionFailed)
    assert not future.error.mute
    assert "security.protocol" not in future.error.reason


def test_nothing_listens() -> None:
    world = FakeWorld()
    with pytest.raises(ConnectionFailed, match="nothing listens there") as caught:
        world.run(Link.open(world.kernel, world, Address("nowhere", 1), client_id="test"))
    assert caught.value.refused


def test_garbage_closes_the_link() -> None:
    world, broker, link = linked()
    broker.on(ListGroupsRequest, lambda _: HOLD)
    future = link.call(ListGroupsRequest(), ListGroupsResponse)
    world.pass_time(1)
    broker.held[0].stream.send(b"HTTP/1.1 400 Bad Request")
    world.pass_time(1)
    with pytest.raises(ConnectionFailed, match="does not speak the Kafka protocol"):
        future.result()


def test_an_answer_that_no_request_asked_for_closes_the_link() -> None:
    world, broker, link = linked()
    broker.streams[0].send(b"\0\0\0\1")
    world.pass_time(1)
    assert not link.is_open


def test_a_broker_of_today_is_asked_once_what_it_speaks() -> None:
    from headwater.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

    world = FakeWorld()
    broker = world.broker(0)

    def answer(_: ApiVersionsRequest) -> ApiVersionsResponse:
        too_new = broker.request_versions[-1][1] > 4
        code = ErrorCode.UNSUPPORTED_VERSION if too_new else ErrorCode.NONE
        return ApiVersionsResponse(
            error_code=int(code), api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)]
        )

    broker.on(ApiVersionsRequest, answer)
    world.run(Link.open(world.kernel, world, broker.address, client_id="test"))
    assert [version for _, version in broker.request_versions] == [4]


def test_an_old_broker_is_asked_in_its_own_version() -> None:
    from headwater.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

    world = FakeWorld()
    broker = world.broker(0)
    modern = [ApiVersion(api_key=18, min_version=0, max_version=2), ApiVersion(api_key=3, min_version=0, max_version=4)]

    def answer(_: ApiVersionsRequest) -> ApiVersionsResponse:
        too_new = broker.request_versions[-1][1] > 2
        code = ErrorCode.UNSUPPORTED_VERSION if too_new else ErrorCode.NONE
        return ApiVersionsResponse(error_code=int(code), api_keys=modern[:1] if too_new else modern)

    broker.on(ApiVersionsRequest, answer)
    link = world.run(Link.open(world.kernel, world, broker.address, client_id="test"))
    assert link.version_for(MetadataRequest()) == 4
    future = link.call(MetadataRequest(topics=[]), MetadataResponse)
    world.pass_time(1)
    assert future.result().brokers[0].node_id == 0
