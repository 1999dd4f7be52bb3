"""Columns of values in other types, for Cast and TimestampConverter: what their functions make of each value, of all at
once where Arrow does the same, and else value by value, the other columns untouched. Pure.

Arrow's casts are taken where they are Java's: whole numbers keep their low bits, fractions lose what is behind the
point, as long as they are within the range (beyond it Java stops at its ends, and Arrow does not).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headwater.connect.data.arrow_rows import arrow_type, plain
from headwater.connect.data.logical import MILLISECONDS_PER_DAY
from headwater.connect.data.schema import LOGICAL_NAMES, TIMESTAMP, Schema, Type

if TYPE_CHECKING:
    import pyarrow as pa

WHOLE: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_FRACTIONS: Final = (Type.FLOAT32, Type.FLOAT64)
_YEAR_1_MS: Final = -62_135_596_800_000
_YEAR_10000_MS: Final = 253_402_300_800_000
_LONG: Final = 1 << 63
_PER_SECOND: Final = {"milliseconds": 1000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}


def by_value(column: "pa.Array", change: Callable[[Any], Any], made: Schema) -> "pa.Array":
    """Raises what `change` raises."""
    import pyarrow as pa

    changed = [plain(made, None if each is None else change(each)) for each in column.to_pylist()]
    return pa.array(changed, arrow_type(made))


def cast_column(column: "pa.Array", schema: Schema, made: Schema) -> "pa.Array | None":
    """None: not all of it at once."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, target, to = schema.type, made.type, arrow_type(made)
    if schema.name in LOGICAL_NAMES:
        return column.cast(to) if schema.name == TIMESTAMP and target is Type.INT64 else None
    number = kind in WHOLE or kind is Type.BOOLEAN
    if kind in _FRACTIONS and (target in WHOLE or target is Type.BOOLEAN):
        whole = _without_fraction(column, 32 if WHOLE.get(target, 64) < 64 else 64)
        if whole is None:
            return None
        return pc.not_equal(whole, pa.scalar(0, pa.int64())) if target is Type.BOOLEAN else whole.cast(to, safe=False)
    if target is Type.BOOLEAN and kind in WHOLE:
        return pc.not_equal(column, pa.scalar(0, column.type))
    if number or (kind in _FRACTIONS and target in _FRACTIONS):
        return column.cast(to, safe=False)
    return column if kind is target else None


def _without_fraction(column: "pa.Array", bits: int) -> "pa.Array | None":
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pc.all(pc.is_finite(column), min_count=0).as_py():
        return None
    return column.cast(pa.int64(), safe=False) if _within(column, -(1 << bits - 1), 1 << bits - 1) else None


def _within(column: "pa.Array", first: int, end: int) -> bool:
    import pyarrow.compute as pc

    ends = pc.min_max(column)
    return not ends["min"].is_valid or (first <= ends["min"].as_py() and ends["max"].as_py() < end)


def within_years(millis: "pa.Array") -> bool:
    """Whether they are times that Connect has here: of the years 1 to 9999."""
    return _within(millis, _YEAR_1_MS, _YEAR_10000_MS)


def millis_column(column: "pa.Array", kind: str, precision: str) -> "pa.Array | None":
    """Milliseconds since 1970 of times, of years that there are; None: not all of them at once."""
    import pyarrow as pa
    import pyarrow.compute as pc

    match kind:
        case "Timestamp":
            made = column.cast(pa.int64())
        case "Date":
            made = pc.multiply(column.cast(pa.int32()).cast(pa.int64()), MILLISECONDS_PER_DAY)
        case "Time":
            made = column.cast(pa.int32()).cast(pa.int64())
        case "unix" if precision == "seconds":
            if not _within(column, _YEAR_1_MS // 1000, _YEAR_10000_MS // 1000):
                return None
            made = pc.multiply(column, 1000)
        case "unix":
            made = pc.divide(column, _PER_SECOND[precision] // 1000)  # towards zero, as Java's
        case _:
            return None
    return made if within_years(made) else None


def from_millis(millis: "pa.Array", target: str, precision: str) -> "pa.Array | None":
    import pyarrow as pa
    import pyarrow.compute as pc

    moments = millis.cast(pa.timestamp("ms", tz="UTC"))
    match target:
        case "Timestamp":
            return moments
        case "unix" if precision == "seconds":
            return pc.divide(millis, 1000)
        case "unix":
            factor = _PER_SECOND[precision] // 1000
            return pc.multiply(millis, factor) if _within(millis, -_LONG // factor + 1, _LONG // factor) else None
        case "Date":
            return moments.cast(pa.date32(), safe=False)
        case "Time":
            days = moments.cast(pa.date32(), safe=False).cast(pa.int32()).cast(pa.int64())
            return pc.subtract(millis, pc.multiply(days, MILLISECONDS_PER_DAY)).cast(pa.int32()).cast(pa.time32("ms"))
    return None
