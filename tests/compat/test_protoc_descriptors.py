"""Our parser of .proto files beside protoc: the same descriptors, byte for byte, and the same options refused. protoc
and Google's files come from PyPI, for this alone.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from headwater.schemas.protobuf import parse_protobuf
from headwater.schemas.protobuf.wellknown import META, TEXTS
from unit.schemas import protoc_files

HERE = Path(protoc_files.__file__).parent / "protoc"
OWN = sorted(path.name for path in HERE.glob("*.proto"))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where protoc and Google's files are."""
    directory = tmp_path_factory.mktemp("protoc") / "site"
    packages = ["grpcio-tools", "googleapis-common-protos"]
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", directory, *packages], check=True)
    return directory


def protoc(root: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{root}", f"-I{root / 'grpc_tools' / '_proto'}"]
    return subprocess.run(
        [*command, *map(str, arguments)], env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True
    )


@pytest.mark.soak(only=True)
def test_descriptors_are_protocs_byte_for_byte(root: Path, tmp_path: Path) -> None:
    files = {}
    for directory in (root, root / "grpc_tools" / "_proto"):
        for path in sorted(directory.rglob("*.proto")):
            if directory != root or "grpc_tools" not in path.parts:
                files[str(path.relative_to(directory))] = path.read_text()
    assert len(files) > 60
    made = tmp_path / "descriptors"
    protoc(root, f"--descriptor_set_out={made}", "--include_imports", *files).check_returncode()
    theirs = {each.name: each for each in descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes()).file}
    assert [name for name in files if not is_the_same(name, files, theirs)] == []


def is_the_same(name: str, files: dict[str, str], theirs: dict[str, descriptor_pb2.FileDescriptorProto]) -> bool:
    protoc_files.without_usual_json_names(theirs[name])
    return ours(name, files, theirs) == theirs[name].SerializeToString(deterministic=True)


def ours(name: str, files: dict[str, str], theirs: dict[str, descriptor_pb2.FileDescriptorProto]) -> bytes:
    references: dict[str, str] = {}

    def add(path: str) -> None:
        for each in theirs[path].dependency:
            add(each)
            references.setdefault(each, files[each])

    add(name)
    parsed = parse_protobuf(files[name], dict(references))
    parsed.require_complete()
    return parsed.descriptor(name)


@pytest.mark.soak(only=True)
def test_what_unit_tests_compare_with_is_what_protoc_makes(root: Path, tmp_path: Path) -> None:
    made = tmp_path / "descriptors.binpb"
    (tmp_path / META).parent.mkdir()
    (tmp_path / META).write_text(TEXTS[META])
    arguments = [f"-I{HERE}", f"-I{tmp_path}", f"--descriptor_set_out={made}", "--include_imports", *OWN]
    protoc(root, *arguments).check_returncode()
    theirs, kept = (
        {each.name: each.SerializeToString() for each in descriptor_pb2.FileDescriptorSet.FromString(data).file}
        for data in (made.read_bytes(), (HERE / "descriptors.binpb").read_bytes())
    )
    assert {name: theirs[name] for name in OWN} == {name: kept[name] for name in OWN}


@pytest.mark.soak(only=True)
@pytest.mark.parametrize(("text", "why"), protoc_files.REFUSED)
def test_what_we_refuse_protoc_refuses_too(root: Path, tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / META).parent.mkdir()
    (tmp_path / META).write_text(TEXTS[META])
    (tmp_path / "refused.proto").write_text(protoc_files.USING + text)
    done = protoc(root, f"-I{HERE}", f"-I{tmp_path}", f"--descriptor_set_out={tmp_path / 'made'}", "refused.proto")
    assert done.returncode != 0, why
