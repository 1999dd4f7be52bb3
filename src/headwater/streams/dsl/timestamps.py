"""Timestamp extractors as people write them: `timestamp=lambda order: order["at"]`.

A function of one parameter gets the value; of two, the record and the partition time (the largest timestamp of the
partition so far); of three, also what was read. It gives milliseconds, or a `datetime` with a time zone. A negative one
leaves the record out.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from headwater.base.errors import UserError
from headwater.streams.dsl.functions import positional_parameters
from headwater.streams.model.record import TIMESTAMP_MAX
from headwater.streams.model.time import (
    TimestampExtractor,
    fail_on_invalid_timestamp,
    log_and_skip_on_invalid_timestamp,
    use_partition_time_on_invalid_timestamp,
    wallclock_timestamp,
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_STOCK = (
    fail_on_invalid_timestamp,
    log_and_skip_on_invalid_timestamp,
    use_partition_time_on_invalid_timestamp,
    wallclock_timestamp,
)


def extractor(given: Callable[..., Any] | None) -> TimestampExtractor | None:
    """In the shape that a task calls."""
    if given is None or given in _STOCK:
        return given
    count = positional_parameters(given)
    if count == 1:
        return lambda record, raw, time: _milliseconds(given(record.value))  # noqa: ARG005
    if count == 2:
        return lambda record, raw, time: _milliseconds(given(record, time))  # noqa: ARG005
    if count == 3:
        return lambda record, raw, time: _milliseconds(given(record, raw, time))
    raise UserError(f"A timestamp extractor has {count} parameters", "one (the value), two or three are known")


def extractor_of_global(given: Callable[..., Any] | None, topic: str) -> TimestampExtractor | None:
    """The same for a global table or store, of which none is asked: said once, since nobody expects it."""
    if given is not None:
        import logging

        logging.getLogger("headwater.streams").warning(
            "the timestamp extractor of a global table or store is not asked, as in Kafka Streams topic=%s", topic
        )
    return extractor(given)


def _milliseconds(found: Any) -> int:
    """Raises ValueError and TypeError: whoever asked knows the record, and tells it."""
    if isinstance(found, datetime):
        if found.tzinfo is None:
            raise ValueError(f"the timestamp {found} has no time zone, so it could mean any instant")
        return (found - _EPOCH) // timedelta(milliseconds=1)  # in whole numbers: a float would be one less now and then
    if isinstance(found, int) and not isinstance(found, bool):
        if found > TIMESTAMP_MAX:
            raise ValueError(f"{found} is no time in milliseconds that brokers know")
        return found
    raise TypeError(f"it gave {found!r}, and milliseconds since 1970 or a datetime are needed")
