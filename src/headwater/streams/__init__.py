"""Kafka Streams for Python: a pure engine, record by record, in slots that this process or Spark supplies."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.streams.dsl.app import App
    from headwater.streams.dsl.global_table import GlobalTable
    from headwater.streams.dsl.join_windows import JoinWindows
    from headwater.streams.dsl.materialized import Materialized
    from headwater.streams.dsl.stores import key_value_store, session_store, versioned_store, window_store
    from headwater.streams.dsl.stream import Stream
    from headwater.streams.dsl.table import Table
    from headwater.streams.dsl.vectorized import vectorized
    from headwater.streams.dsl.windows import daily, hopping, monthly, session, sliding, tumbling, unlimited, weekly
    from headwater.streams.engine.failures import ErrorPolicy, Failure, StreamsError
    from headwater.streams.engine.processor import Context, Processor
    from headwater.streams.engine.record import Record
    from headwater.streams.engine.time import fail_on_invalid_timestamp as fail_on_invalid_timestamp
    from headwater.streams.engine.time import log_and_skip_on_invalid_timestamp, use_partition_time_on_invalid_timestamp
    from headwater.streams.engine.time import wallclock_timestamp as processing_time
    from headwater.streams.engine.windows import Windowed

# Where each name is defined: it is loaded when it is first used, for a program may need no more than a serde.
_PLACES = {
    "App": ("headwater.streams.dsl.app", "App"),
    "Context": ("headwater.streams.engine.processor", "Context"),
    "ErrorPolicy": ("headwater.streams.engine.failures", "ErrorPolicy"),
    "Failure": ("headwater.streams.engine.failures", "Failure"),
    "GlobalTable": ("headwater.streams.dsl.global_table", "GlobalTable"),
    "JoinWindows": ("headwater.streams.dsl.join_windows", "JoinWindows"),
    "Materialized": ("headwater.streams.dsl.materialized", "Materialized"),
    "Processor": ("headwater.streams.engine.processor", "Processor"),
    "Record": ("headwater.streams.engine.record", "Record"),
    "Stream": ("headwater.streams.dsl.stream", "Stream"),
    "StreamsError": ("headwater.streams.engine.failures", "StreamsError"),
    "Table": ("headwater.streams.dsl.table", "Table"),
    "Windowed": ("headwater.streams.engine.windows", "Windowed"),
    "daily": ("headwater.streams.dsl.windows", "daily"),
    "fail_on_invalid_timestamp": ("headwater.streams.engine.time", "fail_on_invalid_timestamp"),
    "hopping": ("headwater.streams.dsl.windows", "hopping"),
    "key_value_store": ("headwater.streams.dsl.stores", "key_value_store"),
    "log_and_skip_on_invalid_timestamp": ("headwater.streams.engine.time", "log_and_skip_on_invalid_timestamp"),
    "monthly": ("headwater.streams.dsl.windows", "monthly"),
    "processing_time": ("headwater.streams.engine.time", "wallclock_timestamp"),
    "session": ("headwater.streams.dsl.windows", "session"),
    "session_store": ("headwater.streams.dsl.stores", "session_store"),
    "sliding": ("headwater.streams.dsl.windows", "sliding"),
    "tumbling": ("headwater.streams.dsl.windows", "tumbling"),
    "unlimited": ("headwater.streams.dsl.windows", "unlimited"),
    "use_partition_time_on_invalid_timestamp": (
        "headwater.streams.engine.time",
        "use_partition_time_on_invalid_timestamp",
    ),
    "vectorized": ("headwater.streams.dsl.vectorized", "vectorized"),
    "versioned_store": ("headwater.streams.dsl.stores", "versioned_store"),
    "weekly": ("headwater.streams.dsl.windows", "weekly"),
    "window_store": ("headwater.streams.dsl.stores", "window_store"),
}

__all__ = [
    "App",
    "Context",
    "ErrorPolicy",
    "Failure",
    "GlobalTable",
    "JoinWindows",
    "Materialized",
    "Processor",
    "Record",
    "Stream",
    "StreamsError",
    "Table",
    "Windowed",
    "daily",
    "fail_on_invalid_timestamp",
    "hopping",
    "key_value_store",
    "log_and_skip_on_invalid_timestamp",
    "monthly",
    "processing_time",
    "session",
    "session_store",
    "sliding",
    "tumbling",
    "unlimited",
    "use_partition_time_on_invalid_timestamp",
    "vectorized",
    "versioned_store",
    "weekly",
    "window_store",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, inner = _PLACES[name]
    found = globals()[name] = getattr(import_module(module), inner)
    return found
