"""Produce, read from the bytes of its frame: what a hostile frame may cost."""

import struct
from typing import Any

from headwater.broker.handlers import produce


class Counting(bytearray):
    """A frame that counts how often one of its bytes is asked for."""

    asked = 0

    def __getitem__(self, at: Any) -> Any:
        self.asked += 1
        return super().__getitem__(at)


class NoTopics:
    def __init__(self) -> None:
        self.partitions_by_wire_name: dict[bytes, Any] = {}
        self.partitions_by_topic_id: dict[bytes, Any] = {}


def test_a_size_that_never_ends_is_given_up_after_five_bytes() -> None:
    head = struct.pack(">hBBhiB", -1, 0, 0, 1, 1000, 2) + b"\x02t" + struct.pack(">Bi", 2, 0)
    frame = Counting(head + b"\xff" * 10_000)
    assert produce.handle_frame(NoTopics(), frame, 0, len(frame), 9, 1) is None  # type: ignore[arg-type]
    assert frame.asked < 10
