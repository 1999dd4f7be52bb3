"""Requests about groups that clients send only at bad moments, by bare sockets."""

import time
from datetime import timedelta
from typing import Any

from compat.support.broker import BrokerProcess
from compat.support.members import until
from compat.support.raw import Raw, message

MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS = 79, 27
SESSION = timedelta(minutes=20)  # far longer than anything here is waited for


def _join(group: str, member_id: str = "") -> Any:
    protocol = message("join_group", 5, "JoinGroupRequestProtocol")(name="range", metadata=b"")
    return message("join_group", 5, "JoinGroupRequest")(
        group_id=group,
        session_timeout=SESSION,
        rebalance_timeout=SESSION,
        member_id=member_id,
        protocol_type="consumer",
        protocols=(protocol,),
    )


def _leave(group: str, member_id: str) -> Any:
    return message("leave_group", 1, "LeaveGroupRequest")(group_id=group, member_id=member_id)


def _heartbeat(connection: Raw, group: str, generation: int, member_id: str) -> int:
    request = message("heartbeat", 3, "HeartbeatRequest")(group_id=group, generation_id=generation, member_id=member_id)
    return int(connection.call(request).error_code)


def _member_id(connection: Raw, group: str) -> str:
    deadline = time.monotonic() + 60
    while True:
        answer = connection.call(_join(group))
        if int(answer.error_code) == MEMBER_ID_REQUIRED:
            return str(answer.member_id)
        assert time.monotonic() < deadline, answer  # Apache Kafka, while it makes its internal topic
        connection.call(message("find_coordinator", 1, "FindCoordinatorRequest")(key=group, key_type=0))
        time.sleep(0.1)


def test_a_member_that_left_behind_its_join_and_hung_up_is_gone(group_broker: BrokerProcess, topic: str) -> None:
    """Its LeaveGroup waits behind a JoinGroup that waits for others: a client that closes in a rebalance does this."""
    with Raw(group_broker.bootstrap) as first:
        first_id = _member_id(first, topic)
        generation = first.call(_join(topic, first_id)).generation_id
        second = Raw(group_broker.bootstrap)
        second_id = _member_id(second, topic)
        second.send(_join(topic, second_id))  # parked until the first comes back
        until(lambda: _heartbeat(first, topic, generation, first_id) == REBALANCE_IN_PROGRESS, "the rebalance")
        second.send(_leave(topic, second_id))
        second.socket.close()
        joined = first.call(_join(topic, first_id))
        while len(joined.members) != 1:
            until(
                lambda at=joined.generation_id: _heartbeat(first, topic, at, first_id) == REBALANCE_IN_PROGRESS,
                "the one who left is still a member",
            )
            joined = first.call(_join(topic, first_id))
