"""The quick way of OffsetCommit for users with access rules: it is no way round the guards, compiled or in Python.

A change of the rules between two commits of one connection is heard of with the next, on the group and on the topic, by
the topic's name and by its id; after the end of the session nothing is answered.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headwater.base.acls import Operation, PatternType, Permission, ResourceType
from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.context import ConnectionContext
from headwater.broker.handlers.offset_commit_frames import PURE, CommitFrames
from headwater.broker.topics import plan_topic
from headwater.metadata.image import AclsSet, Change
from headwater.server import hot_path
from headwater.server.node import Node
from headwater.server.quick_handlers import OFFSET_COMMIT, quick_handlers_for
from headwater.wire.headers import decode_response_header
from headwater.wire.messages.find_coordinator import FindCoordinatorRequest
from headwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from unit.server.support.by_hand import TOPIC, Client, frame

GROUP = "group"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
T_DENIED, G_DENIED = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), int(ErrorCode.GROUP_AUTHORIZATION_FAILED)
BY_NAME, BY_ID = 9, 10
TRIES = 1000


def commit(node: Node, plan: Callable[[], list[Change]]) -> None:
    done: list[KafkaError | None] = []
    node.broker.changes.submit(plan, done.append)
    assert node.loop.run_until(lambda: bool(done), 60_000)
    assert done == [None]


def rules(node: Node, kind: ResourceType, name: str, *operations: Operation, deny: bool = False) -> None:
    """The only rules on it from now on."""
    permission = Permission.DENY if deny else Permission.ALLOW
    made = tuple(("User:ANONYMOUS", "*", int(operation), int(permission)) for operation in operations)
    commit(node, lambda: [AclsSet(int(kind), int(PatternType.LITERAL), name, made)])


def commit_frame(node: Node, offset: int, version: int, group: str = GROUP, topic: str = TOPIC) -> bytes:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    named = OffsetCommitRequestTopic(name=topic, topic_id=node.broker.image.topic(topic).topic_id, partitions=[part])
    return frame(8, version, 1, OffsetCommitRequest(group_id=group, topics=[named]).encode(version))


def code(answer: bytes, version: int) -> int:
    _, at = decode_response_header(answer, 8, version)
    (topic,) = OffsetCommitResponse.decode(answer, at, version).topics
    return topic.partitions[0].error_code


def committed(node: Node) -> int:
    found = [hosted.shard.offsets.get(GROUP, TOPIC, 0) for hosted in node.broker.groups.runtime.active()]
    return max((each.offset for each in found if each is not None), default=-1)


@pytest.fixture(params=["compiled", "python"])
def quick_commits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each commit that came to the quick way: whether it was answered there."""
    if request.param == "compiled" and not hot_path.COMPILED:
        pytest.fail("the hot path is not compiled")
    frames = hot_path.commit_frames() if request.param == "compiled" else PURE
    answers: list[bool] = []

    class Counted(CommitFrames):
        def handle_frame_of(self, *arguments: Any) -> bytes | None:
            answer = super().handle_frame_of(*arguments)
            answers.append(answer is not None)
            return answer

    counted = Counted(frames._read, frames._append)
    monkeypatch.setattr(hot_path, "commit_frames", lambda: counted)
    return answers


@pytest.fixture
def guarded(make_node: Callable[..., Node]) -> Node:
    node = make_node(authorizer_class_name=AUTHORIZER, super_users="User:admin")
    for name in (TOPIC, "other"):
        commit(node, lambda name=name: [plan_topic(node.broker, name, 1, 1, {})])  # type: ignore[misc]
    rules(node, ResourceType.TOPIC, TOPIC, Operation.READ)
    rules(node, ResourceType.GROUP, GROUP, Operation.READ)
    return node


@pytest.fixture
def client(guarded: Node, quick_commits: list[bool]) -> Iterator[Client]:
    """The group has committed before: its coordinator is there."""
    made = Client(guarded)
    for _ in range(TRIES):
        made.send(frame(10, 4, 1, FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]).encode(4)))
        made.receive()
        if ask(made, commit_frame(guarded, 1, BY_NAME), BY_NAME) == 0:
            break
    else:
        pytest.fail("no coordinator")
    quick_commits.clear()
    yield made
    made.socket.close()


def ask(client: Client, request: bytes, version: int) -> int:
    client.send(request)
    return code(client.receive(), version)


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
@pytest.mark.parametrize(
    ("kind", "name", "denied"), [(ResourceType.TOPIC, TOPIC, T_DENIED), (ResourceType.GROUP, GROUP, G_DENIED)]
)
def test_a_commit_hears_of_a_changed_rule_on_its_connection(
    guarded: Node,
    client: Client,
    quick_commits: list[bool],
    version: int,
    kind: ResourceType,
    name: str,
    denied: int,
) -> None:
    assert ask(client, commit_frame(guarded, 10, version), version) == 0
    assert quick_commits == [True]
    rules(guarded, kind, name, Operation.READ, deny=True)
    assert ask(client, commit_frame(guarded, 11, version), version) == denied
    rules(guarded, kind, name)
    assert ask(client, commit_frame(guarded, 12, version), version) == denied
    rules(guarded, kind, name, Operation.DESCRIBE)
    assert ask(client, commit_frame(guarded, 13, version), version) == denied
    assert quick_commits == [True, False, False, False]
    assert committed(guarded) == 10
    rules(guarded, kind, name, Operation.READ)
    assert ask(client, commit_frame(guarded, 14, version), version) == 0
    assert quick_commits[4:] == [True]
    assert committed(guarded) == 14


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_rights_on_one_group_and_topic_are_none_on_others(
    guarded: Node, client: Client, quick_commits: list[bool], version: int
) -> None:
    assert ask(client, commit_frame(guarded, 10, version, topic="other"), version) == T_DENIED
    assert ask(client, commit_frame(guarded, 11, version, group="another"), version) == G_DENIED
    assert quick_commits == [False, False]


def quick(node: Node, request: bytes, version: int, ends_ns: int) -> bytes | list[Any] | None:
    connection = ConnectionContext("127.0.0.1", 1, "PLAINTEXT")
    handle = quick_handlers_for(node.broker, connection, ends_ns)[OFFSET_COMMIT]
    data = memoryview(bytearray(request[4:]))
    return handle(node.broker, data, 8, len(data), version, 1)


def test_after_the_end_of_the_session_nothing_is_answered(guarded: Node, client: Client) -> None:
    now_ns = guarded.broker.clock.monotonic_ms() * 1_000_000
    request = commit_frame(guarded, 20, BY_NAME)
    assert quick(guarded, request, BY_NAME, now_ns) is None
    assert committed(guarded) < 20
    assert quick(guarded, request, BY_NAME, now_ns + 60_000_000_000) is not None
    assert committed(guarded) == 20
