"""Whether a default, as it stands in JSON, fits its type. Pure.

bytes and fixed stand as text whose characters 0 to 255 are the bytes. The default of a union may be of any of its
branches, as the specification has it since Avro 1.12; before, it had to be of the first one. A record's default may
leave out fields that have defaults themselves.
"""

from typing import Any

from headwater.schemas.avro.types import Array, AvroType, Enum, Fixed, Map, Record, Union

_RANGES = {"int": 1 << 31, "long": 1 << 63}


Seen = dict[tuple[int, int], str | None]


def default_problem(avro_type: AvroType, value: Any, seen: Seen | None = None) -> str | None:
    """Why it does not fit, or None. The recursion is bounded by the depth of `value`, and each part of it is held
    against each type once: unions of records that contain each other would double the work at every level.
    """
    seen = {} if seen is None else seen
    pair = (id(avro_type), id(value))
    if pair not in seen:
        seen[pair] = _problem(avro_type, value, seen)
    return seen[pair]


def _problem(avro_type: AvroType, value: Any, seen: Seen) -> str | None:
    if isinstance(avro_type, Union):
        if any(default_problem(branch, value, seen) is None for branch in avro_type.branches):
            return None
        return f"{_shown(value)} fits no branch of the union"
    if isinstance(avro_type, Record):
        return _record_problem(avro_type, value, seen)
    if isinstance(avro_type, Array):
        if not isinstance(value, list):
            return f"{_shown(value)} is not a list"
        return next(
            (problem for item in value if (problem := default_problem(avro_type.items, item, seen)) is not None), None
        )
    if isinstance(avro_type, Map):
        if not isinstance(value, dict):
            return f"{_shown(value)} is not an object"
        return next(
            (
                problem
                for item in value.values()
                if (problem := default_problem(avro_type.values, item, seen)) is not None
            ),
            None,
        )
    return None if _fits(avro_type, value) else f"{_shown(value)} is not {avro_type.label}"


def _record_problem(record: Record, value: Any, seen: Seen) -> str | None:
    if not isinstance(value, dict):
        return f"{_shown(value)} is not an object"
    for each in record.fields:
        if each.name in value:
            problem = default_problem(each.type, value[each.name], seen)
            if problem is not None:
                return f"in {each.name}: {problem}"
        elif not each.has_default:
            return f"the field {each.name} is missing"
    return None


def _fits(avro_type: AvroType, value: Any) -> bool:
    match avro_type.kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            limit = _RANGES[avro_type.kind]
            return type(value) is int and -limit <= value < limit
        case "float" | "double":
            return type(value) in (int, float) or value in ("NaN", "Infinity", "-Infinity")
        case "string":
            return isinstance(value, str)
    if not isinstance(value, str):
        return False
    if isinstance(avro_type, Enum):
        return value in avro_type.symbol_set
    return all(ord(character) < 256 for character in value) and (
        not isinstance(avro_type, Fixed) or len(value) == avro_type.size
    )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."
