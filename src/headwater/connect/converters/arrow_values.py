"""What the converters share that read whole columns: values in the types that `arrow_rows` gives to Connect's schemas.

`Unfit` is raised for what record by record is refused, filled with a default or read otherwise: the caller goes on with
records then.
"""

from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from headwater.connect.converters.registry import Unfit
from headwater.connect.data import schema as s
from headwater.connect.data.arrow_rows import arrow_type, plain
from headwater.connect.data.schema import Schema
from headwater.connect.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH: Final = date(1970, 1, 1)
_DAYS: Final = ((date.min - _EPOCH).days, (date.max - _EPOCH).days)
_DAY_MS: Final = 86_400_000
_TIMESTAMPS: Final = (_DAYS[0] * _DAY_MS, (_DAYS[1] + 1) * _DAY_MS - 1)
_RANGES: Final = {s.DATE: _DAYS, s.TIME: (0, _DAY_MS - 1), s.TIMESTAMP: _TIMESTAMPS}


def check_nulls(array: "pa.Array", schema: Schema) -> None:
    if array.null_count and (not schema.optional or schema.default is not None):
        raise Unfit("a null that is refused, or stands for a default")


def check_times(numbers: "pa.Array", schema: Schema) -> None:
    """Days or milliseconds of a logical type: those that Python's dates and times have."""
    import pyarrow.compute as pc

    least, most = _RANGES[schema.name or ""]
    found = pc.min_max(numbers).as_py()
    if found["min"] is not None and (found["min"] < least or found["max"] > most):
        raise Unfit("a time that Python has not got")


def check_keys(array: "pa.MapArray") -> None:
    """Of a key that a map has twice, one by one only the last counts."""
    import numpy as np
    import pyarrow as pa

    offsets = np.asarray(array.offsets)
    rows = np.repeat(np.arange(len(array)), np.diff(offsets))
    keys = array.keys.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    table = pa.table({"row": pa.array(rows), "key": keys})
    if table.group_by(["row", "key"]).aggregate([]).num_rows != table.num_rows:
        raise Unfit("a map has a key twice")


def by_value(array: "pa.Array", schema: Schema, make: Callable[[Any], Any]) -> "pa.Array":
    """For types that Arrow has no cast to: each value by itself, as a record's would be."""
    import pyarrow as pa

    try:
        made = [None if each is None else plain(schema, make(each)) for each in array.to_pylist()]
        return pa.array(made, arrow_type(schema))
    except (DataError, ValueError, OverflowError, ArithmeticError, pa.ArrowException) as error:
        raise Unfit(str(error)) from None
