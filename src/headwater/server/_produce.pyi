from collections.abc import Callable
from typing import Any

_HandleFrame = Callable[[Any, memoryview, int, int, int, int], bytes | None]

def configure(
    partition: type,
    log: type,
    segment: type,
    producer_states: type,
    producer: type,
    file: type,
    in_python: _HandleFrame,
    /,
) -> None: ...
def handle_frame(
    broker: Any, frame: memoryview, at: int, end: int, version: int, correlation_id: int, /
) -> bytes | None: ...
