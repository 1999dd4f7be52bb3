"""Builds the compiled codec of records. It is optional: without a compiler the install works, and its twin in Python serves."""

from pathlib import Path

from setuptools import Extension, setup

NATIVE = Path("src/headwater/records/native")

setup(
    ext_modules=[
        Extension(
            "headwater.records._codec",
            sources=sorted(str(path) for path in NATIVE.glob("*.c")),
            depends=sorted(str(path) for path in NATIVE.glob("*.h")),
            extra_compile_args=["-O3", "-std=c11", "-Wall", "-Wextra", "-fvisibility=hidden"],
            optional=True,
        )
    ]
)
