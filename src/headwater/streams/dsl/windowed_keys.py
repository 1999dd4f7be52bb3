"""The serde of windowed keys, for those who read or write topics of rows per window."""

from headwater.streams.dsl.windowed_stream import check_windows, windowed_key
from headwater.streams.model.windows import AnyWindows
from headwater.streams.serdes.port import Serde
from headwater.streams.serdes.resolving import SerdeLike, resolve


def windowed_serde(windows: AnyWindows, key: SerdeLike = "text") -> Serde:
    """Of keys in these windows, as an aggregation over them writes them: `app.stream("counts",
    key=windowed_serde(tumbling("5m")))`. Keys are `Windowed(key, start, end)`; the ends of windows of time are not in
    the topic, so their windows must be known. Grace does not matter.
    """
    check_windows(windows)
    return windowed_key(windows, resolve(key))
