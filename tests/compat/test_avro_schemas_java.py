"""Random pairs of Avro schemas: what our own module decides beside Avro's Java library, which comes with PySpark."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyspark
import pytest

from compat.support.avro_schemas import Schemas
from compat.support.java import java_command
from headwater.schemas import SchemaType, incompatibilities, parse
from headwater.schemas.avro import AvroSchema

PAIRS = 20_000 if os.environ.get("HEADWATER_SOAK") else 400
SOURCE = Path(__file__).parents[1] / "java" / "avro" / "AvroOracle.java"


def pairs() -> list[tuple[str, str]]:
    made = []
    schemas = Schemas(15)
    for _ in range(PAIRS):
        writer = schemas.schema()
        reader = schemas.near(writer)
        if schemas.random.random() < 0.5:
            reader, writer = writer, reader
        made.append((json.dumps(reader), json.dumps(writer)))
    return made


def ask_java(made: list[tuple[str, str]]) -> list[dict[str, Any]]:
    if shutil.which("java") is None:
        pytest.skip("java is not installed (a JDK is needed)")
    jars = Path(pyspark.__file__).parent / "jars"
    patterns = (
        "avro-1",
        "jackson-core-2",
        "jackson-databind",
        "jackson-annotations",
        "slf4j-api",
        "commons-compress",
        "commons-io",
    )
    classpath = ":".join(str(jar) for jar in jars.glob("*.jar") if jar.name.startswith(patterns))
    lines = "".join(json.dumps({"reader": reader, "writer": writer}) + "\n" for reader, writer in made)
    command = [*java_command("512m"), "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-cp", classpath, str(SOURCE)]
    answered = subprocess.run(command, input=lines.encode(), capture_output=True, check=False)
    assert answered.returncode == 0, answered.stderr.decode()
    return [json.loads(line) for line in answered.stdout.splitlines()]


@pytest.mark.soak
def test_random_pairs_are_decided_as_java_decides_them() -> None:
    made = pairs()
    answers = ask_java(made)
    assert len(answers) == len(made)
    judged = {True: 0, False: 0}
    for (reader_text, writer_text), answer in zip(made, answers, strict=True):
        if "error" in answer:  # two names alike, or a field that matches two: told differently, and only by chance here
            continue
        reader, writer = parse(SchemaType.AVRO, reader_text), parse(SchemaType.AVRO, writer_text)
        found = incompatibilities(reader, writer)
        assert (not found) == answer["compatible"], (reader_text, writer_text, found, answer)
        assert isinstance(reader, AvroSchema)
        assert reader.canonical == answer["canonical"], reader_text
        assert reader.parsing_canonical_form() == answer["form"], reader_text
        assert str(reader.fingerprint()) == answer["fingerprint"]
        judged[answer["compatible"]] += 1
    assert min(judged.values()) > PAIRS / 10, judged
