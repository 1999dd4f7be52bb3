"""Builds what is compiled: the codec of records, Avro into columns, and the hot paths of Produce, commits and Fetch.
All are optional: without a compiler the install works, and their twins in Python serve."""

from pathlib import Path

from setuptools import Extension, setup


def extension(name: str, folder: str) -> Extension:
    native = Path(folder)
    return Extension(
        name,
        sources=sorted(str(path) for path in native.glob("*.c")),
        depends=sorted(str(path) for path in Path("src/headwater").glob("*/native/**/*.h")),
        extra_compile_args=["-O3", "-std=c11", "-Wall", "-Wextra", "-fvisibility=hidden"],
        optional=True,
    )


setup(
    ext_modules=[
        extension("headwater.records._codec", "src/headwater/records/native"),
        extension("headwater.schemas._columns", "src/headwater/schemas/native"),
        extension("headwater.streams._cells", "src/headwater/streams/native/cells"),
        extension("headwater.streams._counting", "src/headwater/streams/native"),
        extension("headwater.server._produce", "src/headwater/server/native"),
        extension("headwater.server._fetch", "src/headwater/server/native/fetch"),
    ]
)
