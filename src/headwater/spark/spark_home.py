"""Spark's directory without the zipped copy of PySpark that is in it.

Spark puts `python/lib/pyspark.zip` of its directory first on the path of every Python that it starts. A zip has no
compiled modules, so each of those processes compiles PySpark anew, three quarters of its start, and a source's has ten
seconds for it. A directory of links to all but `python` does as Spark's own: PySpark comes compiled then, from the
packages of the Python that runs. Only where that has PySpark itself, and where nobody has named another directory.
"""

import contextlib
import hashlib
import os
import shutil
import site
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_SUBMIT: Final = "bin/spark-submit"


@contextlib.contextmanager
def lean_home(data_home: Path) -> Iterator[None]:
    """For the start of a JVM, which keeps it; the processes that this one starts later find Spark as before."""
    import pyspark

    package = Path(pyspark.__file__).parent
    if not serves(package, os.environ, sys.executable, [*site.getsitepackages(), site.getusersitepackages()]):
        yield
        return
    try:
        home = make_home(data_home / "spark", package, pyspark.__version__)
    except OSError:  # it would only be slower without
        yield
        return
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]


def serves(package: Path, environment: Mapping[str, str], python: str, installed: list[str]) -> bool:
    """Whether the Python of tasks finds this PySpark by itself, and nothing else was asked for."""
    named = environment.get("SPARK_HOME"), environment.get("PYSPARK_PYTHON", python)
    return named == (None, python) and str(package.parent) in installed and (package / _SUBMIT).exists()


def make_home(directory: Path, package: Path, version: str) -> Path:
    """The directory of links, made once for each installation. Made aside and renamed: others may do the same just
    now.
    """
    home = directory / f"{version}-{hashlib.sha256(str(package).encode()).hexdigest()[:12]}"
    if (home / _SUBMIT).exists():
        return home
    directory.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=".making-", dir=directory))
    try:
        for name in {*os.listdir(package), "conf"} - {"python"}:  # settings may be put there later
            (aside / name).symlink_to(package / name)
        aside.rename(home)
    except OSError:  # another process was quicker
        if not (home / _SUBMIT).exists():
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return home
