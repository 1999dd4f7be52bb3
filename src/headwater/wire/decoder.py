"""Writes the source of a decoder.

    def decode(b, p):
        e = len(b)
        try:
            o1 = new(ProduceRequest)
            n2, = unpack_from_h(b, p); p += 2
            ...
            if p != e: raise bad_end(p, e)
            return o1
        except (struct_error, IndexError, UnicodeDecodeError) as error:
            raise malformed(error) from error

`b` is the buffer, `p` the position, `e` the end. How bounds are kept, in little code:

- A read of constant width past the end raises by itself.
- A slice past the end is merely short, and cheap. It leaves `p` past the end, so the next read raises, or the last
  test `p != e` does. `p` never goes back.
- The count of an array is tested against the bytes left before anything is made for it.
- A request may have `REQUEST_ELEMENTS_MAX` elements in all: `r` is how many are left. An element of a byte or two takes
  a hundred as an
  object, so the bytes alone are no bound; and a few large ones (the assignments of a group) are no bomb.
"""

import struct
from typing import Any

from headwater.wire.codec import Source, size_bytes_min
from headwater.wire.primitives import (
    REQUEST_ELEMENTS_MAX,
    TAGGED_FIELDS_MAX,
    bad_count,
    bad_end,
    bad_tag,
    continue_string_length,
    continue_uvarint,
    decode_uvarint,
    malformed,
    null_field,
    skip_tagged_fields,
    too_many_elements,
    too_many_tags,
)
from headwater.wire.schema import RECORDS, STRING, UUID, Array, Field, FieldType, FixedType, Message, SizedType, Struct


class _Decoder(Source):
    def __init__(self, version: int, flexible: bool, is_bounded: bool) -> None:
        super().__init__(version, flexible)
        self._is_bounded = is_bounded
        self._run: list[tuple[str, int, str]] = []  # (struct format, size in bytes, target)

    def struct(self, cls: type[Struct], variable: str) -> None:
        tagged = []
        self.line(f"{variable} = new({self.name_for(cls.__name__, cls)})")
        for field in cls.FIELDS:
            target = f"{variable}.{field.name}"
            if field.tagged_in(self.version):
                tagged.append(field)
                self.line(f"{target} = {self._default(field)}")
            elif field.in_version(self.version):
                self.value(field.type, target, field.nullable_in(self.version), f"{cls.__name__}.{field.name}")
            else:
                self.line(f"{target} = {self._default(field)}")
        if self.flexible:
            self._tagged_fields(tagged, variable, cls.__name__)

    def value(self, type_: FieldType, target: str, nullable: bool, name: str) -> None:
        if isinstance(type_, FixedType):
            self._run.append((type_.format, type_.size_bytes, target))
        elif isinstance(type_, SizedType):
            self._sized(type_, target, nullable, name)
        elif isinstance(type_, Array):
            self._array(type_, target, nullable, name)
        elif nullable:
            self._nullable_struct(type_, target)
        else:
            variable = self.variable("o")
            self.struct(type_, variable)
            self.line(f"{target} = {variable}")

    def flush(self) -> None:
        if not self._run:
            return
        if len(self._run) == 1 and self._run[0][0] == "B":  # a bare length: indexing is cheaper than a call
            self.line(f"{self._run[0][2]} = b[p]")
            self.line("p += 1")
            self._run.clear()
            return
        unpack = self.layout("".join(format_ for format_, _, _ in self._run), "unpack_from")
        targets = "".join(f"{target}, " for _, _, target in self._run).rstrip()
        self.line(f"{targets} = {unpack}(b, p)")
        self.line(f"p += {sum(size_bytes for _, size_bytes, _ in self._run)}")
        self._run.clear()

    def _default(self, field: Field) -> str:
        if field.default == ():
            return "[]"
        if isinstance(field.default, type):
            return f"{self.name_for(field.default.__name__, field.default)}()"
        return repr(field.default)

    def _length(self, format_: str, nullable: bool, target: str, name: str, rest: str = "continue_uvarint") -> str:
        """Reads a length or count, and deals with null. The lines that follow belong to a value that is there."""
        length = self.variable("n")
        if self.flexible:
            self._run.append(("B", 1, length))
            self.flush()
            self.line(f"if {length} > 127: {length}, p = {rest}({length}, b, p)")
            null = f"not {length}"
        else:
            self._run.append((format_, struct.calcsize(">" + format_), length))
            self.flush()
            null = f"{length} < 0"
        if nullable:
            self.line(f"if {null}: {target} = None")
            self.line("else:")
            self.indent()
        else:
            self.line(f"if {null}: raise null_field({name!r})")
        return length

    def _sized(self, type_: SizedType, target: str, nullable: bool, name: str) -> None:
        rest = "continue_string_length" if type_ is STRING else "continue_uvarint"
        length = self._length(type_.length_format, nullable, target, name, rest)
        self.line(f"q = p + {length}{' - 1' if self.flexible else ''}")
        if type_ is STRING:
            self.line(f'{target} = str(b[p:q], "utf-8")')
        elif type_ is RECORDS:
            self.line(f"{target} = memoryview(b)[p:q]")
        else:
            self.line(f"{target} = bytes(b[p:q])")
        self.line("p = q")
        if nullable:
            self.dedent()

    def _array(self, type_: Array, target: str, nullable: bool, name: str) -> None:
        count = self._length("i", nullable, target, name)
        element = type_.element
        if self.flexible:
            self.line(f"{count} -= 1")
        size_min = size_bytes_min(element, self.version, self.flexible)
        self.line(f"if {count} * {size_min} > e - p: raise bad_count({name!r}, {count})")
        self._takes(count, name)
        if isinstance(element, FixedType) and element is not UUID:
            self.line(f'{target} = list(unpack_from(f">{{{count}}}{element.format}", b, p))')
            self.line(f"p += {count} * {element.size_bytes}")
        else:
            items, item = self.variable("x"), self.variable("o")
            self.line(f"{target} = {items} = []")
            self.line(f"for _ in range({count}):")
            self.indent()
            if isinstance(element, type):
                self.struct(element, item)
            else:
                self.value(element, item, False, name)
            self.flush()
            self.line(f"{items}.append({item})")
            self.dedent()
        if nullable:
            self.dedent()

    def _takes(self, count: str, name: str) -> None:
        if self._is_bounded:
            self.line(f"r -= {count}")
            self.line(f"if r < 0: raise too_many_elements({name!r})")

    def _nullable_struct(self, cls: type[Struct], target: str, null: str = "< 0") -> None:
        present, variable = self.variable("n"), self.variable("o")
        self._run.append(("b", 1, present))
        self.flush()
        self.line(f"if {present} {null}: {target} = None")
        self.line("else:")
        self.indent()
        self.struct(cls, variable)
        self.flush()
        self.line(f"{target} = {variable}")
        self.dedent()

    def _tagged_fields(self, fields: list[Field], variable: str, name: str) -> None:
        count = self.variable("n")
        self._run.append(("B", 1, count))
        self.flush()
        self.line(f"if {count}:")
        self.indent()
        self._takes(count, f"tagged fields of {name}")
        if not fields:
            self.line(f"p = skip_tagged_fields({count}, b, p)")
            self.dedent()
            return
        tag, end = self.variable("tag"), self.variable("end")
        self.line(f"if {count} > {TAGGED_FIELDS_MAX}: raise too_many_tags()")
        self.line(f"for _ in range({count}):")
        self.indent()
        self.line(f"{tag}, p = decode_uvarint(b, p)")
        self.line(f"{end}, p = decode_uvarint(b, p)")
        self.line(f"{end} += p")
        for field in fields:
            self.line(f"if {tag} == {field.tag}:")
            self.indent()
            nullable = field.nullable_in(self.version)
            if nullable and isinstance(field.type, type):  # behind a tag, Kafka writes null as 0 and not as -1
                self._nullable_struct(field.type, f"{variable}.{field.name}", null="== 0")
            else:
                self.value(field.type, f"{variable}.{field.name}", nullable, f"{name}.{field.name}")
            self.flush()
            self.line(f"if p != {end}: raise bad_tag({f'{name}.{field.name}'!r})")
            self.dedent()
        self.line(f"p = {end}")
        self.dedent()
        self.dedent()


def write_decoder(cls: type[Message], version: int, flexible: bool) -> Source:
    is_request = cls.__name__.endswith("Request")
    source = _Decoder(version, flexible, is_bounded=is_request)
    helpers: dict[str, Any] = {
        "bad_count": bad_count,
        "bad_end": bad_end,
        "bad_tag": bad_tag,
        "continue_string_length": continue_string_length,
        "continue_uvarint": continue_uvarint,
        "decode_uvarint": decode_uvarint,
        "malformed": malformed,
        "new": object.__new__,
        "null_field": null_field,
        "skip_tagged_fields": skip_tagged_fields,
        "struct_error": struct.error,
        "too_many_elements": too_many_elements,
        "too_many_tags": too_many_tags,
        "unpack_from": struct.unpack_from,
    }
    source.names.update(helpers)
    source.line("def decode(b, p):")
    source.indent()
    source.line("e = len(b)")
    if is_request:
        source.line(f"r = {REQUEST_ELEMENTS_MAX}")
    source.line("try:")
    source.indent()
    source.struct(cls, "m")
    source.flush()
    # librdkafka 2.16 leaves three bytes behind a Metadata request for all topics. Apache Kafka does not look, so
    # neither do we; a response with bytes left was read wrongly.
    source.line(f"if p {'>' if is_request else '!='} e: raise bad_end(p, e)")
    source.line("return m")
    source.dedent()
    source.line("except (struct_error, IndexError, UnicodeDecodeError) as error:")
    source.line("    raise malformed(error) from error")
    return source
