"""Windows: ksqlDB's words for them, in those of `headwater.streams`; and windows in the keys of records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headwater.sql.formats.internal import ROWS
from headwater.sql.language.errors import SqlError
from headwater.sql.language.tree import Emit, Window, WindowKind
from headwater.sql.plan.catalog import SourceWindow
from headwater.streams.model.windows import SessionWindows, TimeWindows, Windowed
from headwater.streams.serdes.windowed import SessionWindowedSerde, WindowedSerde

DEFAULT_GRACE_MS: Final = (
    24 * 3_600_000
)  # how long after its begin a window takes late rows, where GRACE PERIOD is not given


def bare(key: Any) -> Any:
    """The key without its window."""
    return key.key if isinstance(key, Windowed) else key


def bounds(key: Any) -> tuple[int | None, int | None]:
    return (key.start, key.end) if isinstance(key, Windowed) else (None, None)


def windowed_serde(plain: Any, window: SourceWindow) -> Any:
    if window.kind is WindowKind.SESSION:
        return SessionWindowedSerde(plain)
    size = window.size_ms or 0
    return WindowedSerde(plain, lambda start: start + size)


def encode_key(key: bytes, kind: WindowKind, start: int, end: int) -> bytes:
    """The key of a record with its window: Kafka Streams' bytes."""
    suffix = start.to_bytes(8, "big", signed=True)
    return key + end.to_bytes(8, "big", signed=True) + suffix if kind is WindowKind.SESSION else key + suffix


def decode_key(data: bytes, window: SourceWindow) -> tuple[bytes, int, int]:
    start = int.from_bytes(data[-8:], "big", signed=True)
    if window.kind is WindowKind.SESSION:
        return data[:-16], start, int.from_bytes(data[-16:-8], "big", signed=True)
    assert window.size_ms is not None
    return data[:-8], start, start + window.size_ms


def _grace_ms(window: Window, emit: Emit | None) -> int:
    late = 0 if emit is Emit.FINAL else max(DEFAULT_GRACE_MS - window.size_ms, 0)
    return late if window.grace_ms is None else window.grace_ms


def of_result(window: Window, emit: Emit | None) -> SourceWindow:
    """The windows that a query makes."""
    kept_ms = window.size_ms + _grace_ms(window, emit) if window.retention_ms is None else window.retention_ms
    return SourceWindow(window.kind, None if window.kind is WindowKind.SESSION else window.size_ms, kept_ms)


def aggregate(
    grouped: Any,
    window: Window,
    emit: Emit | None,
    initialize: Callable[[], list[Any]],
    add: Callable[[Any, list[Any], list[Any]], list[Any]],
    merge: Callable[[list[Any], list[Any]], list[Any]],
    key: Any,
) -> Any:
    """The table of states by key and window."""
    grace = _grace_ms(window, emit)
    from headwater.streams.dsl.materialized import Materialized

    store = Materialized(key=key, value=ROWS, retention_ms=window.retention_ms)
    if window.kind is WindowKind.SESSION:
        windows: Any = SessionWindows(window.size_ms, grace)
    else:
        windows = TimeWindows(window.size_ms, window.advance_ms or window.size_ms, grace)
    if window.retention_ms is not None and window.retention_ms < window.size_ms + grace:
        raise SqlError(
            "The retention period of windows must be no smaller than their size plus the grace period. "
            f"Got size=[{window.size_ms}], grace=[{grace}], retention=[{window.retention_ms}]",
            hint="Give a longer RETENTION, or a shorter GRACE PERIOD.",
            position=window.position,
        )
    return grouped.windowed_by(windows).aggregate(initialize, add, lambda _, one, two: merge(one, two), store=store)
