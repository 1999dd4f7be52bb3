"""A sink's offsets are set and reset: the connector is asked, whatever the group knows, and never in vain."""

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.types import Partition, Topic
from headwater.connect.api import SinkConnector, SourceConnector
from headwater.connect.errors import ConnectError
from headwater.connect.plugins import Kind
from headwater.connect.runtime.offset_calls import OffsetCalls

ZERO = TopicPartition("t", 0)


class Admin:
    def __init__(self, known: dict[TopicPartition, Any] | None, *, active: bool = False) -> None:
        self._known, self._active = known, active

    def __enter__(self) -> "Admin":
        return self

    def __exit__(self, *_error: object) -> None: ...

    def describe_groups(self, groups: list[str]) -> dict[str, Any]:
        unknown = KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, "no such group")
        return dict.fromkeys(groups, unknown if self._known is None else SimpleNamespace(is_active=self._active))

    def list_group_offsets(self, group: str) -> dict[TopicPartition, Any]:
        if self._known is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, group)
        return self._known

    def describe_topics(self, names: Sequence[str]) -> dict[str, Any]:
        return {name: KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "") for name in names}

    def delete_groups(self, groups: list[str]) -> dict[str, Any]:
        gone = KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, "no such group")
        return dict.fromkeys(groups, gone if self._known is None else None)


@pytest.mark.parametrize(("known", "asked"), [(None, []), ({}, []), ({ZERO: None}, [ZERO])])
def test_a_reset_asks_the_connector_of_a_group_that_is_not_known_too(
    known: dict[TopicPartition, Any] | None, asked: list[TopicPartition]
) -> None:
    resets: list[list[TopicPartition]] = []

    class Sink(SinkConnector):
        def reset_offsets(self, props: Mapping[str, str], known: Sequence[TopicPartition]) -> bool:
            del props
            resets.append(list(known))
            return True

    def call(function: Callable[..., Any], *given: Any) -> Any:
        return function(*given)

    worker: Any = SimpleNamespace(
        admin=lambda _config: Admin(known),
        call=call,
        providers=SimpleNamespace(resolved=lambda config, _given=None: config),
    )
    found: Any = SimpleNamespace(name="c", config={}, plugin=SimpleNamespace(kind=Kind.SINK, make=Sink))
    assert OffsetCalls(worker).reset(found).endswith("reset successfully")
    assert resets == [asked]


@pytest.mark.parametrize(
    ("offsets", "refused"),
    [
        ({("t", 0): 5}, None),
        ({("t", 0): 5, ("t", 1): 5}, "t-1: UNKNOWN_TOPIC_OR_PARTITION"),
        ({("u", 0): 5}, "u-0: UNKNOWN_TOPIC_OR_PARTITION"),
        ({("secret", 0): 5}, "secret-0: TOPIC_AUTHORIZATION_FAILED"),
        ({("t", 0): -1}, "negative"),
        ({("u", 0): None}, None),  # of a topic that is gone
    ],
)
def test_offsets_that_nobody_can_set_change_no_target(
    offsets: dict[tuple[str, int], int | None], refused: str | None
) -> None:
    asked: list[Mapping[TopicPartition, int | None]] = []

    class Sink(SinkConnector):
        def alter_offsets(self, props: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
            del props
            asked.append(offsets)
            return True

    class Topics(Admin):
        def describe_topics(self, names: Sequence[str]) -> dict[str, Any]:
            known = Topic("t", b"", False, [Partition("t", 0, 0, 0, [0], [0], [])])
            unknown = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
            there = {"t": known, "secret": KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)}
            return {name: there.get(name, unknown) for name in names}

        def alter_group_offsets(self, group: str, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, None]:
            return dict.fromkeys(wanted)

        def delete_group_offsets(self, group: str, gone: Sequence[TopicPartition]) -> dict[TopicPartition, None]:
            return dict.fromkeys(gone)

    worker: Any = SimpleNamespace(
        admin=lambda _config: Topics({}),
        call=lambda function, *given: function(*given),
        providers=SimpleNamespace(resolved=lambda config, _given=None: config),
    )
    found: Any = SimpleNamespace(name="c", config={}, plugin=SimpleNamespace(kind=Kind.SINK, make=Sink))
    body = {
        "offsets": [
            {
                "partition": {"kafka_topic": topic, "kafka_partition": number},
                "offset": None if at is None else {"kafka_offset": at},
            }
            for (topic, number), at in offsets.items()
        ]
    }
    if refused is None:
        assert OffsetCalls(worker).alter(found, body).endswith("altered successfully")
    else:
        with pytest.raises(ConnectError, match=refused):
            OffsetCalls(worker).alter(found, body)
    assert bool(asked) == (refused is None)


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (ConnectError("no such file: hush-hush"), r"^no such file: \[hidden\]$"),
        (ValueError("bad hush-hush"), r"^Failed to modify offsets for source connector c: ValueError: bad \[hidden\]$"),
        (NotImplementedError(), "^Failed to modify offsets for connector c because it doesn't support external"),
    ],
)
def test_what_a_connector_says_to_offsets_is_told_without_secrets(raised: Exception, told: str) -> None:
    """A 500 with its sentence, as Kafka Connect answers it; nothing is written."""
    written: list[Any] = []

    class Source(SourceConnector):
        def alter_offsets(self, props: Mapping[str, str], offsets: Any) -> bool:
            raise raised

    worker: Any = SimpleNamespace(
        offsets_of=lambda _name, _config: SimpleNamespace(all=list, write=written.append),
        call=lambda function, *given: function(*given),
        providers=SimpleNamespace(resolved=lambda config, _given=None: config),
    )
    plugin = SimpleNamespace(kind=Kind.SOURCE, make=Source)
    found: Any = SimpleNamespace(name="c", config={"db.password": "hush-hush"}, plugin=plugin, definition=None)
    for change in (
        lambda: OffsetCalls(worker).alter(found, {"offsets": [{"partition": {"a": 1}, "offset": {"b": 1}}]}),
        lambda: OffsetCalls(worker).reset(found),
    ):
        with pytest.raises(ConnectError, match=told):
            change()
    assert written == []


def test_a_group_with_a_task_that_hangs_leaves_the_target_as_it_is() -> None:
    """The target was changed, and then the group refused: who resumed the connector then had lost what was between."""
    asked: list[object] = []

    class Sink(SinkConnector):
        def alter_offsets(self, props: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
            asked.append((props, offsets))
            return True

        def reset_offsets(self, props: Mapping[str, str], known: Sequence[TopicPartition]) -> bool:
            asked.append((props, known))
            return True

    worker: Any = SimpleNamespace(
        admin=lambda _config: Admin({ZERO: None}, active=True),
        call=lambda function, *given: function(*given),
        providers=SimpleNamespace(resolved=lambda config, _given=None: config),
    )
    found: Any = SimpleNamespace(name="c", config={}, plugin=SimpleNamespace(kind=Kind.SINK, make=Sink))
    gone = {"offsets": [{"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": None}]}
    with pytest.raises(ConnectError, match=r"Failed to reset .* connector c: its tasks have not stopped completely"):
        OffsetCalls(worker).reset(found)
    with pytest.raises(ConnectError, match=r"Failed to alter .* connector c: its tasks have not stopped completely"):
        OffsetCalls(worker).alter(found, gone)
    assert asked == []
