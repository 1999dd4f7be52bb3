"""Numbers out of bytes."""

from __future__ import annotations

import struct

from headwater.sql.functions.registry import scalar
from headwater.sql.values import EvaluationError


def _declare(name: str, returns: str, letter: str, size: int) -> None:
    def of(value: bytes, order: str = "BIG_ENDIAN") -> int | float:
        if order.upper() not in ("BIG_ENDIAN", "LITTLE_ENDIAN"):
            raise EvaluationError(f"Byte order must be BIG_ENDIAN or LITTLE_ENDIAN. Unknown byte order '{order}'.")
        if len(value) != size:
            raise EvaluationError(f"Number of bytes must be equal to {size}, but found {len(value)}")
        number: int | float = struct.unpack((">" if order.upper() == "BIG_ENDIAN" else "<") + letter, value)[0]
        return number

    scalar(name, f"(value BYTES) -> {returns}", f"{size} bytes as {returns}.", category="STRING")(of)
    scalar(name, f"(value BYTES, byteOrder STRING) -> {returns}")(of)


_declare("INT_FROM_BYTES", "INTEGER", "i", 4)
_declare("BIGINT_FROM_BYTES", "BIGINT", "q", 8)
_declare("DOUBLE_FROM_BYTES", "DOUBLE", "d", 8)
