"""Fields of the JSON files that Kafka's tools read, each of the type it has there. All raise TypeError for another one:
what Python would make of it may be another broker, partition or offset than was meant. Pure.
"""

from typing import Any


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a string was expected")
    return value


def number(value: Any, bits: int = 32) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise TypeError(f"a whole number of {bits} bits was expected")
    return value


def array(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("an array was expected")
    return value
