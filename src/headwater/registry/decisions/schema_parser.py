"""Parsed schemas, kept for a while: most requests are about a schema that was parsed a moment ago.

The cache is bounded by what its schemas may hold in memory. `parse` may run in any thread; a lock guards the table
only.
"""

import threading
from collections import OrderedDict
from typing import Final

from headwater.registry import errors
from headwater.registry.decisions.steps import Steps, Work
from headwater.registry.state import SchemaContent, State
from headwater.registry.subjects import beside
from headwater.schemas import ParsedSchema, SchemaError, SchemaType, parse

_CACHE_BYTES_MAX: Final = 256 * 1024 * 1024
_BYTES_OF_A_CHARACTER: Final = {"AVRO": 12, "PROTOBUF": 50, "JSON": 160}  # at most: in text that is made for it
_REFERENCES_MAX: Final = 1000
_REFERENCED_CHARACTERS_MAX: Final = 8 * 1024 * 1024

References = tuple[tuple[str, str], ...]


class SchemaParser:
    def __init__(self) -> None:
        self._cache: OrderedDict[tuple[str, str, References], ParsedSchema] = OrderedDict()
        self._cached_bytes = 0
        self._lock = threading.Lock()

    def parse(self, schema_type: str, text: str, references: References = ()) -> ParsedSchema:
        """Raises SchemaError."""
        key = (schema_type, text, references)
        with self._lock:
            found = self._cache.get(key)
            if found is not None:
                self._cache.move_to_end(key)
                return found
        parsed = parse(SchemaType(schema_type), text, dict(references), stored=True)
        weight = _weight(key)
        with self._lock:
            if key not in self._cache and weight <= _CACHE_BYTES_MAX:
                self._cache[key] = parsed
                self._cached_bytes += weight
            while self._cached_bytes > _CACHE_BYTES_MAX:
                old, _ = self._cache.popitem(last=False)
                self._cached_bytes -= _weight(old)
        return parsed

    def parsing(self, state: State, subject: str, content: SchemaContent) -> Steps[ParsedSchema]:
        """Raises HttpError 42201 for what is no schema."""
        references = resolve(state, subject, content)
        size = len(content.text) + sum(len(text) for _, text in references)
        try:
            parsed: ParsedSchema = yield Work(lambda: self.parse(content.schema_type, content.text, references), size)
        except SchemaError as problem:
            text = content.text if len(content.text) <= 200 else f"{content.text[:200]}..."
            raise errors.invalid_schema(f"Invalid schema {text} of type {content.schema_type}: {problem}") from None
        return parsed


def _weight(key: tuple[str, str, References]) -> int:
    schema_type, text, references = key
    return 2_000 + _BYTES_OF_A_CHARACTER[schema_type] * (len(text) + sum(len(each) for _, each in references))


def resolve(state: State, subject: str, content: SchemaContent) -> References:
    """The texts that a schema refers to, by the names that it uses; what one of them needs stands before it. Raises
    HttpError.
    """
    found: dict[str, str] = {}
    characters = 0
    # A stack instead of recursion: (subject, content, name, whether its own references are there).
    stack: list[tuple[str, SchemaContent, str | None, bool]] = [(subject, content, None, False)]
    while stack:
        parent, each, name, is_ready = stack.pop()
        if is_ready or not each.references:
            if name is not None and name not in found:
                found[name] = each.text
                characters += len(each.text)
                if len(found) > _REFERENCES_MAX or characters > _REFERENCED_CHARACTERS_MAX:
                    raise errors.invalid_schema(
                        f"The schema refers to more than {_REFERENCES_MAX} schemas, or to larger ones"
                    )
            continue
        stack.append((parent, each, name, True))
        for reference in reversed(each.references):
            if reference.name in found:
                continue
            place = beside(parent, reference.subject)
            version = (
                state.latest(place)
                if reference.version == -1
                else state.version(place, reference.version, deleted=True)
            )
            if version is None:
                raise errors.invalid_schema(
                    f'No schema reference found for subject "{place}" and version {reference.version}'
                )
            if len(stack) > 4 * _REFERENCES_MAX:
                raise errors.invalid_schema("The schema refers to too many schemas")
            stack.append((version.subject, version.content, reference.name, False))
    return tuple(found.items())
