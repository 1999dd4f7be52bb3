"""Our parser of .proto files beside protoc: the same descriptors, byte for byte. protoc and Google's files come from
PyPI, for this alone.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from headwater.schemas.protobuf import parse_protobuf


@pytest.mark.soak(only=True)
def test_descriptors_are_protocs_byte_for_byte(tmp_path: Path) -> None:
    root = tmp_path / "site"
    packages = ["grpcio-tools", "googleapis-common-protos"]
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", root, *packages], check=True)
    files = {}
    for directory in (root, root / "grpc_tools" / "_proto"):
        for path in sorted(directory.rglob("*.proto")):
            if directory != root or "grpc_tools" not in path.parts:
                files[str(path.relative_to(directory))] = path.read_text()
    assert len(files) > 60
    made = tmp_path / "descriptors"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{root}", f"-I{root / 'grpc_tools' / '_proto'}"]
    command += [f"--descriptor_set_out={made}", "--include_imports", *files]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(root)})
    theirs = {each.name: each for each in descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes()).file}
    others = [name for name in files if not is_the_same(name, files, theirs)]
    # Only what extensions define, and options of descriptor.proto itself, is kept in words instead of numbers.
    assert len(others) <= 7, others
    for name in others:
        mine = descriptor_pb2.FileDescriptorProto.FromString(ours(name, files, theirs))
        assert without_options(mine) == without_options(theirs[name]), name


def is_the_same(name: str, files: dict[str, str], theirs: dict[str, descriptor_pb2.FileDescriptorProto]) -> bool:
    strip_json_names(theirs[name])
    return ours(name, files, theirs) == theirs[name].SerializeToString(deterministic=True)


def ours(name: str, files: dict[str, str], theirs: dict[str, descriptor_pb2.FileDescriptorProto]) -> bytes:
    references: dict[str, str] = {}

    def add(path: str) -> None:
        for each in theirs[path].dependency:
            add(each)
            references.setdefault(each, files[each])

    add(name)
    return parse_protobuf(files[name], dict(references)).descriptor(name)


def strip_json_names(file: descriptor_pb2.FileDescriptorProto) -> None:
    """protoc writes those that follow from the name into descriptors, and leaves them out of generated classes."""
    fields, pending = list(file.extension), list(file.message_type)
    while pending:
        message = pending.pop()
        fields += [*message.field, *message.extension]
        pending += message.nested_type
    for field in fields:
        first, *rest = field.name.split("_")
        if field.json_name == first + "".join(each[:1].upper() + each[1:] for each in rest):
            field.ClearField("json_name")


def without_options(file: descriptor_pb2.FileDescriptorProto) -> str:
    """Everything else, as text."""
    copy = descriptor_pb2.FileDescriptorProto()
    copy.CopyFrom(file)
    strip_json_names(copy)
    copy.ClearField("options")
    messages, enums = list(copy.message_type), list(copy.enum_type)
    parts = list(copy.extension)
    while messages:
        message = messages.pop()
        if not message.options.map_entry:
            message.ClearField("options")
        for extent in message.extension_range:
            extent.ClearField("options")
        parts += [*message.field, *message.extension, *message.oneof_decl]
        messages += message.nested_type
        enums += message.enum_type
    for enum in enums:
        parts += [enum, *enum.value]
    for service in copy.service:
        parts += [service, *service.method]
    for part in parts:
        part.ClearField("options")
    return str(copy)
