"""Whatever brokers do to requests, an idempotent producer writes each record once and in order, or says that it did
not.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.base.errors import ErrorCode
from unit.client.producer.producer_fakes import CLOSE, Rig

FAILURES = st.sampled_from(
    [
        0,
        0,
        0,
        CLOSE,
        int(ErrorCode.NOT_ENOUGH_REPLICAS),
        int(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        int(ErrorCode.REQUEST_TIMED_OUT),
    ]
)
STEPS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0.0, 0.0003, 0.002, 0.3])), min_size=1, max_size=40)


@given(STEPS, st.lists(FAILURES, max_size=30), st.lists(st.sampled_from([0, 0, CLOSE]), max_size=10))
@settings(deadline=None, max_examples=60)
def test_each_record_once_and_in_order(
    steps: list[tuple[int, float]], before: list[object], after: list[object]
) -> None:
    rig = Rig(partitions=3)
    rig.logs.next_answers, rig.logs.after_answers = before, after
    sent: dict[int, list[bytes]] = {}
    deliveries = []
    for number, (partition, pause) in enumerate(steps):
        value = b"%d" % number
        deliveries.append((rig.send(value, partition=partition), partition, value))
        sent.setdefault(partition, []).append(value)
        if pause:
            rig.world.pass_time(pause)
    rig.flush()
    assert rig.logs.values == sent
    assert all(rig.logs.values[partition][each.metadata().offset] == value for each, partition, value in deliveries)
    assert rig.core.accumulator.used_bytes == 0


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=15),
    st.lists(
        st.one_of(FAILURES, st.just(int(ErrorCode.MESSAGE_TOO_LARGE)), st.just(int(ErrorCode.INVALID_RECORD))),
        max_size=25,
    ),
)
@settings(deadline=None, max_examples=60)
def test_what_is_said_to_be_written_is_and_the_rest_is_not(counts: list[int], before: list[object]) -> None:
    rig = Rig()
    rig.logs.next_answers = before
    deliveries = []
    number = 0
    for count in counts:
        for _ in range(count):
            value = b"%d" % number
            deliveries.append((rig.put(value), value))
            number += 1
        rig.core.sender.flush()
        rig.world.pass_time(0.0004)
    rig.flush()
    refused = {each.exception().code for each, _ in deliveries if each.exception()}  # type: ignore[union-attr]
    assert refused <= {ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE}
    assert rig.logs.values.get(0, []) == [value for each, value in deliveries if each.exception() is None]
    assert rig.core.accumulator.used_bytes == 0
