"""One value of JSON as a column of Spark's type wants it, and back. Pure. What does not fit is a DataError that says
where.
"""

import base64
import json
import math
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final, NoReturn

from pyspark.sql import types as spark

from headwater.schemas.model import DataError

_BITS: Final = {spark.ByteType: 8, spark.ShortType: 16, spark.IntegerType: 32, spark.LongType: 64}
_WHOLE_DIGITS_MAX: Final = 20  # more than 64 bits have
_DIGITS_MAX: Final = 400  # of a number: more is no column's
_EXACT: Final = Context(prec=_DIGITS_MAX)  # Python's own rounds to 28 digits, and a column has up to 38


def json_value(data: bytes, of_type: spark.DataType) -> Any:
    try:
        tree = json.loads(data, parse_float=_number, parse_constant=_no_constant)
    except RecursionError:
        raise DataError("it is nested too deep") from None
    except ValueError as error:
        raise DataError(f"it is not JSON: {error}") from None
    return _value(tree, of_type, "")


def _number(text: str) -> Decimal:
    """Exact until the column is known."""
    if len(text) > _DIGITS_MAX:
        raise DataError("a number is too long")
    try:
        return Decimal(text)
    except InvalidOperation:
        raise DataError("a number is too large") from None


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _value(tree: Any, of_type: spark.DataType, path: str) -> Any:
    if tree is None:
        return None
    if isinstance(of_type, spark.StructType):
        if not isinstance(tree, dict):
            raise _misfit(path, tree, "an object")
        return {
            each.name: _value(tree.get(each.name), each.dataType, f"{path}.{each.name}" if path else each.name)
            for each in of_type
        }
    if isinstance(of_type, spark.ArrayType):
        if not isinstance(tree, list):
            raise _misfit(path, tree, "a list")
        return [_value(each, of_type.elementType, f"{path}[{number}]") for number, each in enumerate(tree)]
    if isinstance(of_type, spark.MapType):
        if not isinstance(tree, dict):
            raise _misfit(path, tree, "an object")
        return [
            (_whole_text(name, path), _value(each, of_type.valueType, f"{path}.{name}")) for name, each in tree.items()
        ]
    for kind, bits in _BITS.items():
        if isinstance(of_type, kind):
            return _whole(tree, bits, path)
    return _leaf(tree, of_type, path)


def _whole(tree: Any, bits: int, path: str) -> int:
    small = isinstance(tree, Decimal) and tree.adjusted() <= _WHOLE_DIGITS_MAX
    if isinstance(tree, bool) or not (isinstance(tree, int) or (small and tree == int(tree))):
        raise _misfit(path, tree, "a whole number")
    if not -(2 ** (bits - 1)) <= tree < 2 ** (bits - 1):
        raise _misfit(path, tree, f"a number of {bits} bits")
    return int(tree)


def _leaf(tree: Any, of_type: spark.DataType, path: str) -> Any:
    number = isinstance(tree, int | Decimal) and not isinstance(tree, bool)
    match of_type:
        case spark.StringType():
            return _whole_text(tree, path) if isinstance(tree, str) else _json_text(tree, path)
        case spark.BooleanType() if isinstance(tree, bool):
            return tree
        case spark.FloatType() if number:
            return _floating(tree, "<f", "a number of 32 bits", path)
        case spark.DoubleType() if number:
            return _floating(tree, "<d", "a number of 64 bits", path)
        case spark.DecimalType() if number or isinstance(tree, str):
            return _decimal(tree, of_type, path)
        case spark.BinaryType() if isinstance(tree, str):
            return _parsed(lambda: base64.b64decode(tree, validate=True), tree, "base64", path)
        case spark.DateType() if isinstance(tree, str):
            return _parsed(lambda: date.fromisoformat(tree), tree, "a date", path)
        case spark.TimestampType() if isinstance(tree, str):
            made: datetime = _parsed(lambda: datetime.fromisoformat(tree.upper()), tree, "a time", path)
            return made if made.tzinfo is not None else made.replace(tzinfo=UTC)
        case spark.TimestampNTZType() if isinstance(tree, str):
            made = _parsed(lambda: datetime.fromisoformat(tree.upper()), tree, "a time", path)
            if made.tzinfo is not None:
                raise _misfit(path, tree, "a time without a zone")
            return made
    raise _misfit(path, tree, of_type.simpleString())


def _whole_text(text: str, path: str) -> str:
    """An escape may stand for one half of a surrogate pair, which is no character: no column of text can hold it."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _misfit(path, text, "text: it has half of a surrogate pair") from None
    return text


def _json_text(tree: Any, path: str) -> str:
    """JSON as it stands: characters as they are, but for half a surrogate pair, which stays an escape; numbers with all
    their digits.
    """
    pieces: list[str] = []
    try:
        _write(tree, pieces)
    except RecursionError:
        raise DataError(f"{path or 'the value'}: it is nested too deep") from None
    return "".join(pieces)


def _write(tree: Any, pieces: list[str]) -> None:
    """One call for each level, as the parser has it: what that can read, this can write."""
    if isinstance(tree, dict):
        opening = "{"
        for name, each in tree.items():
            pieces += (opening, _quoted(name), ":")
            _write(each, pieces)
            opening = ","
        pieces.append("}" if tree else "{}")
    elif isinstance(tree, list):
        opening = "["
        for each in tree:
            pieces.append(opening)
            _write(each, pieces)
            opening = ","
        pieces.append("]" if tree else "[]")
    elif isinstance(tree, str):
        pieces.append(_quoted(tree))
    else:
        pieces.append(str(tree) if isinstance(tree, Decimal) else json.dumps(tree))


def _quoted(text: str) -> str:
    made = json.dumps(text, ensure_ascii=False)
    try:
        made.encode()
    except UnicodeEncodeError:
        return json.dumps(text)
    return made


def _floating(tree: int | Decimal, packed: str, wanted: str, path: str) -> float:
    """What is too large would be infinite in the column."""
    try:
        made = float(tree)
        struct.pack(packed, made)
    except OverflowError:
        made = math.inf
    if math.isinf(made):
        raise _misfit(path, tree, wanted)
    return made


def _decimal(tree: Any, of_type: spark.DecimalType, path: str) -> Decimal:
    try:
        exact = Decimal(tree)
        made = exact.quantize(Decimal(1).scaleb(-of_type.scale), context=_EXACT)
    except (InvalidOperation, ValueError):
        raise _misfit(path, tree, of_type.simpleString()) from None
    if made != exact or len(made.as_tuple().digits) > of_type.precision:
        raise _misfit(path, tree, of_type.simpleString())
    return made


def _parsed(parse: Callable[[], Any], tree: str, wanted: str, path: str) -> Any:
    try:
        return parse()
    except ValueError:
        raise _misfit(path, tree, wanted) from None


def _misfit(path: str, tree: Any, wanted: str) -> DataError:
    shown = repr(str(tree) if isinstance(tree, Decimal) else tree)
    return DataError(f"{path or 'the value'}: {shown[:60]} is not {wanted}")


def json_bytes(value: Any, of_type: spark.DataType) -> bytes:
    """A field that is null is left out."""
    try:
        text = json.dumps(_tree(value, of_type), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return text.encode()
    except ValueError as error:
        raise DataError(str(error)) from None


def _tree(value: Any, of_type: spark.DataType) -> Any:
    if value is None:
        return None
    match of_type:
        case spark.StructType():
            return {
                each.name: _tree(value[each.name], each.dataType) for each in of_type if value[each.name] is not None
            }
        case spark.ArrayType():
            return [_tree(each, of_type.elementType) for each in value]
        case spark.MapType():
            return {name: _tree(each, of_type.valueType) for name, each in value}
        case spark.BinaryType():
            return base64.b64encode(value).decode()
        case spark.TimestampType():
            return _time_text(value)
        case spark.DateType():
            return value.isoformat()
        case spark.FloatType() | spark.DoubleType() if not math.isfinite(value):
            raise DataError(f"{value} is no number of JSON")
        case spark.FloatType():
            return _shortest(value)
    return value


def _shortest(value: float) -> float:
    """The number with the digits that 32 bits have: 0.1, and not 0.10000000149011612."""
    bits = struct.pack("<f", value)
    texts = (f"{value:.{digits}g}" for digits in range(6, 10))  # 9 are always enough
    return next(float(text) for text in texts if struct.pack("<f", float(text)) == bits)


def _time_text(value: datetime) -> str:
    """In UTC: what comes is in the time zone of the session, which another run of the query may have otherwise, and
    which may be some seconds off, as those of long ago are: no reader takes that.
    """
    return value.astimezone(UTC).isoformat()
