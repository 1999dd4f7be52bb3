"""Protobuf: .proto files and descriptors, canonical form, compatibility."""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Final

from headwater.schemas.model import (
    TEXT_LENGTH_MAX,
    Budget,
    Incompatibility,
    ParsedSchema,
    SchemaError,
    SchemaType,
    Sides,
)
from headwater.schemas.protobuf.compatibility import differences
from headwater.schemas.protobuf.descriptor_reader import read_file
from headwater.schemas.protobuf.descriptor_writer import write_file
from headwater.schemas.protobuf.option_values import Scope
from headwater.schemas.protobuf.parser import parse_file
from headwater.schemas.protobuf.printer import print_file
from headwater.schemas.protobuf.resolution import resolve
from headwater.schemas.protobuf.types import File, Message, all_messages

_BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]++={0,2}")


class ProtobufSchema(ParsedSchema):
    schema_type = SchemaType.PROTOBUF

    def __init__(
        self, file: File, files: Mapping[str, File], imported: Mapping[str, File], options: Scope | None
    ) -> None:
        self.file = file
        self._options = options  # what they mean
        self.files = files  # every file that it imports, and theirs, by path
        self.imported = imported  # those of them that came as references
        self._canonical = print_file(file)

    @property
    def canonical(self) -> str:
        return self._canonical

    def normalized(self) -> str:
        return print_file(self.file, normalize=True)

    def formatted(self, wanted: str) -> str:
        if wanted == "serialized":
            return self.serialized()
        if wanted == "ignore_extensions":
            return print_file(self.file, extensions=False)
        return super().formatted(wanted)

    @property
    def problem(self) -> str:
        return f"not a .proto file that stands: {self.file.problem}" if self.file.problem else ""

    @property
    def name(self) -> str | None:
        """The first message: the one that is meant where nobody says which."""
        return self.file.messages[0].full_name if self.file.messages else None

    @property
    def messages(self) -> dict[str, Message]:
        return {message.full_name: message for message in all_messages(self.file.messages)}

    def descriptor(self, name: str = "default.proto") -> bytes:
        """A serialized FileDescriptorProto."""
        return write_file(self.file, name, self._options)

    def serialized(self, name: str = "default.proto") -> str:
        """The descriptor in base64: what `format=serialized` asks for."""
        return base64.b64encode(self.descriptor(name)).decode()

    def top_level_fields(self) -> frozenset[str]:
        return frozenset(each.name for message in self.file.messages for each in message.fields)

    def differences(self, writer: ParsedSchema, sides: Sides) -> list[Incompatibility]:
        assert isinstance(writer, ProtobufSchema)
        return differences(self.file, writer.file, sides)


def parse_protobuf(text: str, references: Mapping[str, ParsedSchema | str]) -> ProtobufSchema:
    """Parse the text of a .proto file, or a FileDescriptorProto in base64. References are imports, by their path."""
    imported: dict[str, File] = {}
    budget = Budget()
    for name, reference in references.items():
        if isinstance(reference, str):
            imported[name] = _file(reference)
            resolve(imported[name], imported, budget)
        elif isinstance(reference, ProtobufSchema):
            imported[name] = reference.file
            for path, each in reference.imported.items():
                imported.setdefault(path, each)
        else:
            raise SchemaError(f"the reference {name!r} is not a Protobuf schema but {reference.schema_type}")
    file = _file(text)
    files, options = resolve(file, imported, budget)
    return ProtobufSchema(file, files, {path: each for path, each in imported.items() if path in files}, options)


def _file(text: str) -> File:
    if len(text) <= TEXT_LENGTH_MAX and _BASE64.fullmatch(text.strip()):
        try:
            data = base64.b64decode(text, validate=False)
        except binascii.Error as error:
            raise SchemaError(f"neither a .proto file nor a descriptor in base64: {error}") from error
        return read_file(data)
    return parse_file(text)
