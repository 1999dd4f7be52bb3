"""What may stand after `-o`."""

import pytest

from headwater.base.errors import UserError
from headwater.cli.offset_option import parse_duration_ms, parse_time, parse_window
from headwater.client.positions import AtOffset, AtTime, Beginning, End, Last, Window

NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("start", Window(Beginning())),
        ("Earliest", Window(Beginning())),
        ("beginning", Window(Beginning())),
        ("end", Window(End())),
        ("latest", Window(End())),
        (":end", Window(Beginning(), End())),
        ("5", Window(AtOffset(5))),
        ("@5", Window(AtOffset(5))),
        ("-5", Window(Last(5))),
        ("5:9", Window(AtOffset(5), AtOffset(9))),
        ("@5-9", Window(AtOffset(5), AtOffset(9))),
        ("5:end", Window(AtOffset(5), End())),
        ("s@1700000000000", Window(AtTime(1_700_000_000_000))),
        ("s@-1h", Window(AtTime(NOW - 3_600_000))),
        ("s@-2h:e@-1h", Window(AtTime(NOW - 7_200_000), AtTime(NOW - 3_600_000))),
        ("s@2026-01-31T12:00:00Z:e@now", Window(AtTime(1_769_860_800_000), AtTime(NOW))),
        ("e@-1d", Window(Beginning(), AtTime(NOW - 86_400_000))),
    ],
)
def test_windows(text: str, window: Window) -> None:
    assert parse_window(text, NOW) == window


@pytest.mark.parametrize("text", ["", "x", "5:", "--5", "@", "@-5", "s@", "s@yesterday", "1.5", "s@-5x", "5:9:12"])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        parse_window(text, NOW)


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("1700000000", 1_700_000_000_000),
        ("1700000000123", 1_700_000_000_123),
        ("0", 0),
        ("2026-01-31", 1_769_817_600_000),
        ("2026-01-31T12:00:00.5", 1_769_860_800_500),
        ("2026-01-31T12:00:00+02:00", 1_769_853_600_000),
        ("-15m", NOW - 900_000),
        ("15m", NOW - 900_000),
        ("now", NOW),
    ],
)
def test_times(text: str, timestamp_ms: int) -> None:
    assert parse_time(text, NOW) == timestamp_ms


def test_durations_add_up() -> None:
    assert parse_duration_ms("1d2h3m4s5ms") == 86_400_000 + 7_200_000 + 180_000 + 4_000 + 5
    with pytest.raises(UserError):
        parse_duration_ms("2 h")


@pytest.mark.parametrize("text", ["9" * 23, "9223372036854775808", "99999999999999w"])
def test_a_time_that_no_request_has_room_for_is_refused(text: str) -> None:
    """It was a traceback of what encodes the request."""
    with pytest.raises(UserError, match="Cannot use the time"):
        parse_time(text, NOW)
    assert parse_time("9223372036854775807", NOW) == 2**63 - 1
