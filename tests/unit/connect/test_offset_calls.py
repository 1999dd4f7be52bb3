"""A sink's offsets are reset: the connector is asked, whatever the group knows."""

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.connect.api import SinkConnector
from headwater.connect.plugins import Kind
from headwater.connect.runtime.offset_calls import OffsetCalls

ZERO = TopicPartition("t", 0)


class Admin:
    def __init__(self, known: dict[TopicPartition, Any] | None) -> None:
        self._known = known

    def __enter__(self) -> "Admin":
        return self

    def __exit__(self, *_error: object) -> None: ...

    def list_group_offsets(self, group: str) -> dict[TopicPartition, Any]:
        if self._known is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, group)
        return self._known

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
        admin=lambda _config: Admin(known), call=call, providers=SimpleNamespace(resolved=lambda config: config)
    )
    found: Any = SimpleNamespace(name="c", config={}, plugin=SimpleNamespace(kind=Kind.SINK, make=Sink))
    assert OffsetCalls(worker).reset(found).endswith("reset successfully")
    assert resets == [asked]
