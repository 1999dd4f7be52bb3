"""F25: requests of every API and version that we tell clients of, with absurd values and damaged bytes, against the
real handlers.

Whatever comes: an answer that a client can read, or a closed connection with one line in the log. Never an exception
that nobody thought of, never a line that a peer has written. Thousands of requests in `make test`, a few hundred
thousand in `make soak`.
"""

import random
import struct
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from compat.support.quick import lasting
from headwater.broker.registry import APIS
from headwater.wire.messages.find_coordinator import FindCoordinatorRequest
from headwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from headwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headwater.wire.registry import request_class
from hostile.support.frames import KINDS, Known, Maker, mutated, whole
from hostile.support.watched import Watched, check_answer, watched

pytestmark = [pytest.mark.soak, pytest.mark.timeout(lasting(300, 3600))]

METADATA, FIND_COORDINATOR, JOIN_GROUP, API_VERSIONS = 3, 10, 11, 18
EXAMPLES = lasting(60, 5000)
few = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    phases=[Phase.generate],  # the broker goes on from example to example: to repeat one alone says little
    suppress_health_check=list(HealthCheck),
)
NUMBERS = st.integers(0, 1 << 16)
MUTATIONS = st.lists(st.tuples(st.sampled_from(KINDS), NUMBERS, NUMBERS), max_size=3)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with watched(tmp_path_factory.mktemp("hostile"), num_partitions=2) as observed:
        assert not any(observed.left_behind().values())
        yield observed


@pytest.fixture(autouse=True)
def each_leaves_it_well(broker: Watched) -> Iterator[None]:
    """Nothing stays that stands in the way of others; and whoever leaves something is the one that fails."""
    before = broker.left_behind()
    yield
    assert broker.left_behind() == before
    check_answer(broker.ask(whole(API_VERSIONS, 0, b"")), API_VERSIONS, 0)


@pytest.fixture(scope="module")
def known(broker: Watched) -> Known:
    """Two topics, and a member of a group that has been told its id."""
    topics = ["orders", "users"]
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in topics])
    broker.ask(whole(METADATA, 9, b"".join(request.encode(9))))
    joining = JoinGroupRequest(
        group_id="readers",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    looking = FindCoordinatorRequest(key="readers").encode(0)
    for _ in range(2000):
        broker.send(whole(FIND_COORDINATOR, 0, b"".join(looking)))
        answer = broker.send(whole(JOIN_GROUP, 5, b"".join(joining.encode(5))))
        member_id = JoinGroupResponse.decode(answer, 4, 5).member_id if answer is not None else ""
        if member_id:
            break
        broker.node.loop.turn(0.01)  # the coordinator is loading still
    else:
        raise AssertionError("the group has no coordinator")
    return Known(topics, list(broker.node.broker.partitions_by_topic_id), ["readers", "writers"], [member_id, "m1"])


def body_of(key: int, version: int, known: Known, number: int, *, mild: bool) -> bytes:
    if version < request_class(key).VERSIONS[0]:
        return bytes(20)  # told to clients and not served: Produce before version 3
    return Maker(known, random.Random(number), mild=mild).request(key, version)


@pytest.mark.parametrize("key", sorted(APIS), ids=lambda key: APIS[key].name)
@few
@given(NUMBERS, NUMBERS, st.booleans(), MUTATIONS)
def test_any_request_is_answered_or_refused(
    broker: Watched,
    known: Known,
    key: int,
    version: int,
    number: int,
    mild: bool,
    mutations: list[tuple[str, int, int]],
) -> None:
    first, last = APIS[key].advertises
    version = first + version % (last + 1 - first)
    frame = whole(key, version, body_of(key, version, known, number, mild=mild))
    for mutation in mutations:
        frame = mutated(frame, *mutation)
    answer = broker.send(frame)
    if answer is not None:
        check_answer(answer, key, version)


@few
@given(
    st.integers(-(2**15), 2**15 - 1) | st.sampled_from(sorted(APIS)),
    st.integers(-(2**15), 2**15 - 1),
    st.binary(max_size=60),
)
def test_any_key_and_version_is_answered_or_refused(broker: Watched, key: int, version: int, rest: bytes) -> None:
    data = struct.pack(">hhi", key, version, 1) + rest
    answer = broker.send(struct.pack(">i", len(data)) + data)
    if answer is not None:
        assert key in APIS
        check_answer(answer, key, version)


@pytest.mark.parametrize("key", sorted(APIS), ids=lambda key: APIS[key].name)
def test_every_version_takes_a_huge_client_id_and_refuses_one_that_is_no_text(
    broker: Watched, known: Known, key: int
) -> None:
    for version in range(APIS[key].serves[0], APIS[key].serves[1] + 1):
        body = body_of(key, version, known, version, mild=True)
        answer = broker.send(whole(key, version, body, client_id="x" * 32_767))
        if answer is not None:
            check_answer(answer, key, version)
        frame = bytearray(whole(key, version, body, client_id="abc"))
        frame[14:17] = b"a\xff\xfe"
        assert broker.send(bytes(frame)) is None


LONGEST = "x" * 32_767


@pytest.mark.parametrize("key", sorted(APIS), ids=lambda key: APIS[key].name)
def test_the_longest_strings_come_back_in_answers_that_can_be_read(broker: Watched, known: Known, key: int) -> None:
    """An error message that quoted a group's name was longer than any client reads."""
    names = [LONGEST] * 30  # so many that others are seldom chosen
    longest = Known(names, known.topic_ids, names, names, names)
    for version in range(APIS[key].serves[0], APIS[key].serves[1] + 1):
        for number in range(3):
            answer = broker.send(whole(key, version, body_of(key, version, longest, number, mild=True)))
            if answer is not None:
                check_answer(answer, key, version)
