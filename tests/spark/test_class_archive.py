"""An archive of classes is made, and the JVM of a session maps it. Only in `make soak`: making it takes minutes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.spark.make_class_archive import make_archive

pytestmark = pytest.mark.soak(only=True)
SESSION = """
import sys, headwater.spark
headwater.spark.session("mapped", master="local[1]", spark_driver_extraJavaOptions=f"-Xlog:class+load:file={sys.argv[1]}").stop()
"""
MAPPED = "source: shared objects file"


@pytest.mark.timeout(1800)
def test_the_jvm_of_a_session_maps_the_archive(tmp_path: Path) -> None:
    environment = {
        name: text for name, text in os.environ.items() if name != "SPARK_SUBMIT_OPTS"
    }  # has another archive
    make_archive(tmp_path / "data", environment)
    log, settings = tmp_path / "classes.log", {"HEADWATER_DATA_DIR": str(tmp_path / "data")}
    subprocess.run([sys.executable, "-c", SESSION, str(log)], env={**environment, **settings}, check=True, timeout=600)
    loaded = [line for line in log.read_text().splitlines() if " org.apache.spark." in line]
    classes = [line for line in loaded if "$$Lambda" not in line]  # Scala's lambdas are made anew in each JVM
    assert any(" org.apache.spark.SparkContext " in line for line in classes)
    assert sum(MAPPED in line for line in classes) > 0.9 * len(classes)
