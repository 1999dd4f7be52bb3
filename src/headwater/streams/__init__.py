"""Kafka Streams for Python: a pure engine, record by record, in slots that this process or Spark supplies."""

from typing import TYPE_CHECKING

from headwater.base.lazy import lazy_names

if TYPE_CHECKING:
    from headwater.streams.dsl.app import App
    from headwater.streams.dsl.global_table import GlobalTable
    from headwater.streams.dsl.join_windows import JoinWindows
    from headwater.streams.dsl.materialized import Materialized
    from headwater.streams.dsl.stores import key_value_store, session_store, versioned_store, window_store
    from headwater.streams.dsl.stream import Stream
    from headwater.streams.dsl.table import Table
    from headwater.streams.dsl.vectorized import vectorized
    from headwater.streams.dsl.windowed_keys import windowed_serde
    from headwater.streams.dsl.windows import daily, hopping, monthly, session, sliding, tumbling, unlimited, weekly
    from headwater.streams.engine.failures import ErrorPolicy, Failure, StreamsError
    from headwater.streams.model.processor import Context, Processor
    from headwater.streams.model.record import Record
    from headwater.streams.model.time import fail_on_invalid_timestamp as fail_on_invalid_timestamp
    from headwater.streams.model.time import (
        log_and_skip_on_invalid_timestamp,
        processing_time,
        use_partition_time_on_invalid_timestamp,
    )
    from headwater.streams.model.windows import Windowed

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "headwater.streams.dsl.app": ("App",),
        "headwater.streams.dsl.global_table": ("GlobalTable",),
        "headwater.streams.dsl.join_windows": ("JoinWindows",),
        "headwater.streams.dsl.materialized": ("Materialized",),
        "headwater.streams.dsl.stores": (
            "key_value_store",
            "session_store",
            "versioned_store",
            "window_store",
        ),
        "headwater.streams.dsl.stream": ("Stream",),
        "headwater.streams.dsl.table": ("Table",),
        "headwater.streams.dsl.vectorized": ("vectorized",),
        "headwater.streams.dsl.windowed_keys": ("windowed_serde",),
        "headwater.streams.dsl.windows": (
            "daily",
            "hopping",
            "monthly",
            "session",
            "sliding",
            "tumbling",
            "unlimited",
            "weekly",
        ),
        "headwater.streams.engine.failures": (
            "ErrorPolicy",
            "Failure",
            "StreamsError",
        ),
        "headwater.streams.model.processor": (
            "Context",
            "Processor",
        ),
        "headwater.streams.model.record": ("Record",),
        "headwater.streams.model.time": (
            "fail_on_invalid_timestamp",
            "log_and_skip_on_invalid_timestamp",
            "processing_time",
            "use_partition_time_on_invalid_timestamp",
        ),
        "headwater.streams.model.windows": ("Windowed",),
    },
)


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
    "windowed_serde",
]
