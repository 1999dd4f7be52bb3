"""Writes the source of an encoder.

    def encode(m):
        chunks = []
        out = []
        ...                        # out.append(pack_hi(m.acks, m.timeout_ms)); for x2 in v1: ...
        chunks.append(b"".join(out))
        return chunks

Fields of constant width wait in a run until something of variable width comes; finished pieces wait until control flow
comes, so that several go to `out` in one step. Records end the current chunk and become one of their own.
"""

from typing import Any

from headwater.wire.codec import Source
from headwater.wire.primitives import SHORT_UVARINTS, encode_tagged_fields, encode_uvarint
from headwater.wire.schema import RECORDS, STRING, UUID, Array, Field, FieldType, FixedType, Message, SizedType, Struct


class _Encoder(Source):
    def __init__(self, version: int, flexible: bool) -> None:
        super().__init__(version, flexible)
        self._run: list[tuple[str, str]] = []  # (struct format, expression or "" for a zero byte)
        self._pieces: list[str] = []  # expressions that give bytes
        self._out = "out"

    def struct(self, cls: type[Struct], variable: str) -> None:
        tagged = []
        for field in cls.FIELDS:
            if field.tagged_in(self.version):
                tagged.append(field)
            elif field.in_version(self.version):
                expression = f"{variable}.{field.name}"
                nullable = field.nullable_in(self.version)
                if field.nullable_since is not None and not nullable:
                    expression = f"({expression} or {_literal(field.type)})"
                self.value(field.type, expression, nullable)
        if tagged:
            self._tagged_fields(tagged, variable)
        elif self.flexible:
            self._run.append(("x", ""))

    def value(self, type_: FieldType, expression: str, nullable: bool) -> None:
        if isinstance(type_, FixedType):
            self._run.append((type_.format, expression))
        elif isinstance(type_, SizedType):
            self._sized(type_, expression, nullable)
        elif isinstance(type_, Array):
            self._array(type_, expression, nullable)
        elif nullable:
            self._nullable_struct(type_, expression)
        else:
            variable = self.variable("v")
            self.line(f"{variable} = {expression}")
            self.struct(type_, variable)

    def flush(self) -> None:
        self._end_run()
        if len(self._pieces) == 1:
            self.line(f"{self._out}.append({self._pieces[0]})")
        elif self._pieces:
            self.line(f"{self._out} += ({', '.join(self._pieces)})")
        self._pieces.clear()

    def _end_run(self) -> None:
        if all(format_ == "x" for format_, _ in self._run):
            if self._run:
                self._pieces.append(repr(bytes(len(self._run))))
        else:
            pack = self.layout("".join(format_ for format_, _ in self._run), "pack")
            arguments = ", ".join(expression for _, expression in self._run if expression)
            self._pieces.append(f"{pack}({arguments})")
        self._run.clear()

    def _length(self, format_: str, expression: str) -> None:
        """The length or count: -1 or 0 for null, as the caller has worked out."""
        if self.flexible:
            self._end_run()
            self._pieces.append(f"short[{expression}] if {expression} < 128 else uvarint({expression})")
        else:
            self._run.append((format_, expression))
            self._end_run()

    def _measure(self, variable: str, nullable: bool) -> str:
        """Assigns the length of `variable` as this version writes it."""
        length = self.variable("n")
        plus_one = " + 1" if self.flexible else ""
        null = f"{0 if self.flexible else -1} if {variable} is None else " if nullable else ""
        self.line(f"{length} = {null}len({variable}){plus_one}")
        return length

    def _sized(self, type_: SizedType, expression: str, nullable: bool) -> None:
        variable = self.variable("v")
        if type_ is not STRING:
            self.line(f"{variable} = {expression}")
        elif nullable:
            self.line(f"{variable} = {expression}")
            self.line(f"if {variable} is not None: {variable} = {variable}.encode()")
        else:
            self.line(f"{variable} = {expression}.encode()")
        length = self._measure(variable, nullable)
        self._length(type_.length_format, length)
        if type_ is RECORDS:
            self.flush()
            self.line(f"if {length} > {1 if self.flexible else 0}:")
            self.line(f"    chunks += (join({self._out}), {variable})")
            self.line(f"    {self._out}.clear()")
        else:
            self._pieces.append(f'{variable} or b""' if nullable else variable)

    def _array(self, type_: Array, expression: str, nullable: bool) -> None:
        variable = self.variable("v")
        self.line(f"{variable} = {expression}")
        length = self._measure(variable, nullable)
        self._length("i", length)
        element = type_.element
        if isinstance(element, FixedType) and element is not UUID:
            count = f"len({variable})"
            packed = f'pack(f">{{{count}}}{element.format}", *{variable})'
            self._pieces.append(f'{packed} if {variable} else b""')
            return
        self.flush()
        self.line(f"if {variable}:")
        self.indent()
        item = self.variable("x")
        self.line(f"for {item} in {variable}:")
        self.indent()
        if isinstance(element, type):
            self.struct(element, item)
        else:
            self.value(element, item, nullable=False)
        self.flush()
        self.dedent()
        self.dedent()

    def _nullable_struct(self, cls: type[Struct], expression: str, null: bytes = b"\xff") -> None:
        variable = self.variable("v")
        self.flush()
        self.line(f"{variable} = {expression}")
        self.line(f"if {variable} is None:")
        self.line(f"    {self._out}.append({null!r})")
        self.line("else:")
        self.indent()
        self._run.append(("b", "1"))
        self.struct(cls, variable)
        self.flush()
        self.dedent()

    def _tagged_fields(self, fields: list[Field], variable: str) -> None:
        """A zero byte when all are at their defaults: tested first, because it is nearly always so."""
        fields = sorted(fields, key=lambda field: field.tag or 0)
        outer = self._out
        self.flush()
        self.line(f"if {' and '.join(self._is_default(field, f'{variable}.{field.name}') for field in fields)}:")
        self.line(f'    {outer}.append(b"\\0")')
        self.line("else:")
        self.indent()
        section = self.variable("tags")
        self.line(f"{section} = []")
        for field in fields:
            self._tagged_field(field, f"{variable}.{field.name}", section)
        self.line(f"{outer}.append(tagged({section}))")
        self.dedent()

    def _tagged_field(self, field: Field, expression: str, section: str) -> None:
        outer, self._out = self._out, self.variable("out")
        condition = f"not ({self._is_default(field, expression)})"
        if isinstance(field.type, type):
            condition += f" and {expression} != {self.name_for('default', field.type())}"
        self.line(f"if {condition}:")
        self.indent()
        self.line(f"{self._out} = []")
        if isinstance(field.type, type) and field.nullable_in(self.version):
            self._nullable_struct(field.type, expression, null=b"\0")
        else:
            self.value(field.type, expression, field.nullable_in(self.version))
        self.flush()
        self.line(f"{section}.append(({field.tag}, join({self._out})))")
        self.dedent()
        self._out = outer

    def _is_default(self, field: Field, expression: str) -> str:
        """For a nullable struct behind a tag, Kafka's default is the empty struct: null is written."""
        if isinstance(field.type, type) and field.nullable_in(self.version):
            return f"{expression} == {self.name_for('default', field.type())}"
        return _is_default(field, expression)


def _is_default(field: Field, expression: str) -> str:
    if field.default is None:
        return f"{expression} is None"
    if field.default == ():
        return f"not {expression}"
    return f"{expression} == {field.default!r}"


def _literal(type_: FieldType) -> str:
    """What None is written as in a version that has no null."""
    if isinstance(type_, (FixedType, SizedType)):
        return repr(type_.zero)
    if isinstance(type_, Array):
        return "()"
    raise AssertionError(f"{type_} has no empty value")


def write_encoder(cls: type[Message], version: int, flexible: bool) -> Source:
    from struct import pack

    source = _Encoder(version, flexible)
    helpers: dict[str, Any] = {
        "join": b"".join,
        "pack": pack,
        "short": SHORT_UVARINTS,
        "tagged": encode_tagged_fields,
        "uvarint": encode_uvarint,
    }
    source.names.update(helpers)
    source.line("def encode(m):")
    source.indent()
    source.line("chunks = []")
    source.line("out = []")
    source.struct(cls, "m")
    source.flush()
    source.line("if out: chunks.append(join(out))")
    source.line("return chunks")
    return source
