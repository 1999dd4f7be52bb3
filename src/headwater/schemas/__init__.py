"""Schemas of records, pure: Avro, JSON Schema and Protobuf are parsed, brought to their canonical form and compared for
compatibility here. No I/O: the registry serves them, the client encodes and decodes by them.

    parsed = parse(SchemaType.AVRO, '{"type": "record", ...}')
    parsed.canonical                                   # what is stored
    check(parsed, [earlier], CompatibilityLevel.FULL)  # [] or sentences that say why not
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from headwater.schemas.model import (
    REFERENCES_MAX,
    CompatibilityLevel,
    CompatibilityPolicy,
    Incompatibility,
    ParsedSchema,
    Reference,
    SchemaError,
    SchemaType,
    Sides,
    StoredSchema,
)

__all__ = [
    "CompatibilityLevel",
    "CompatibilityPolicy",
    "Incompatibility",
    "ParsedSchema",
    "Reference",
    "SchemaError",
    "SchemaType",
    "StoredSchema",
    "check",
    "incompatibilities",
    "parse",
]

_NO_REFERENCES: Final[Mapping[str, ParsedSchema | str]] = MappingProxyType({})


def parse(
    schema_type: SchemaType,
    text: str,
    references: Mapping[str, ParsedSchema | str] = _NO_REFERENCES,
    *,
    stored: bool = False,
) -> ParsedSchema:
    """Parse a schema, or raise SchemaError. `references` are the schemas that it refers to, by the name that it uses;
    where one is given as text and needs another, that other stands before it. One that a registry has `stored` may have
    faults that were not looked for when it was registered (a default of Avro that does not fit its type): they are told
    as its `problem`.
    """
    if len(references) > REFERENCES_MAX:
        raise SchemaError(f"the schema has {len(references):,} references, {REFERENCES_MAX:,} are allowed")
    match schema_type:
        case SchemaType.AVRO:
            from headwater.schemas.avro import parse_avro

            return parse_avro(text, references, stored=stored)
        case SchemaType.JSON:
            from headwater.schemas.jsonschema import parse_json_schema

            return parse_json_schema(text, references)
        case SchemaType.PROTOBUF:
            from headwater.schemas.protobuf import parse_protobuf

            return parse_protobuf(text, references)


def incompatibilities(
    reader: ParsedSchema,
    writer: ParsedSchema,
    sides: Sides | None = None,
    policy: CompatibilityPolicy = CompatibilityPolicy.STRICT,
) -> list[Incompatibility]:
    """Why `reader` cannot read what was written with `writer`. Empty: it can. Raises SchemaError where the schemas are
    too large, or too deep, to be compared.
    """
    sides = sides or Sides()
    if reader.schema_type != writer.schema_type:
        message = f"the {sides.reader} schema is {reader.schema_type}, the {sides.writer} schema {writer.schema_type}"
        return [Incompatibility("TYPE_MISMATCH", "/", message)]
    try:
        if policy is CompatibilityPolicy.LENIENT:
            return reader.lenient_differences(writer, sides)
        return reader.differences(writer, sides)
    except RecursionError:
        raise SchemaError("the schemas are too deep to be compared") from None


def check(
    new: ParsedSchema,
    previous: Sequence[ParsedSchema],
    level: CompatibilityLevel,
    policy: CompatibilityPolicy = CompatibilityPolicy.STRICT,
) -> list[str]:
    """Why `new` may not follow `previous` (oldest first) at this level. Empty: it may. The newest version that does not
    fit is told.
    """
    candidates = list(reversed(previous))
    for old in candidates if level.transitive else candidates[:1]:
        found: list[Incompatibility] = []
        if level.backward:
            found += incompatibilities(new, old, Sides("new", "old"), policy)
        if level.forward:
            found += incompatibilities(old, new, Sides("old", "new"), policy)
        if found:
            return [str(each) for each in dict.fromkeys(found)]
    return []
