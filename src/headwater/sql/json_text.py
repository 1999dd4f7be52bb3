"""Values of SQL as JSON text."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any

from headwater.sql.values import java_double, java_time, java_timestamp


def dump(value: Any, double: Callable[[float], str] = json.dumps) -> str:
    """As Jackson writes it: without spaces. `double`: how a finite one is written."""
    kind = type(value)
    if kind is str:
        return encode_basestring(value)
    if kind is int:
        return str(value)
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return double(value) if math.isfinite(value) else json.dumps(java_double(value))
        case Decimal():  # 1E+999999999 is written as it came: its digits would fill the memory
            return format(value, "f") if abs(value.adjusted()) < 400 else str(value)
        case datetime():
            return json.dumps(java_timestamp(value))
        case date():
            return json.dumps(value.isoformat())
        case time():
            return json.dumps(java_time(value))
        case bytes():
            return json.dumps(base64.b64encode(value).decode())
        case list():
            return "[" + ",".join([dump(each, double) for each in value]) + "]"
        case dict():
            return (
                "{"
                + ",".join(f"{encode_basestring(str(key))}:{dump(each, double)}" for key, each in value.items())
                + "}"
            )
        case _:
            return encode_basestring(str(value))
