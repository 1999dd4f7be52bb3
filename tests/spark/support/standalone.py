"""A Spark standalone cluster from the pip package: one master and workers, each a process, on free ports of this
machine.

All of it lives in the directory of links that local sessions use (`headwater.spark.spark_home`): its Pythons need not
compile PySpark, and the archive of classes that was made there fits.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pyspark

from headwater.spark.sessions import data_home
from headwater.spark.spark_home import make_home

_PATIENCE_S = 300


class StandaloneCluster:
    """`master` is what `headwater.spark.session(master=...)` takes; a driver with `home` as its SPARK_HOME starts
    quickly.

    `java_options` are for the JVMs of master and workers; executors are given theirs by the driver. `cores`: of each
    worker.
    """

    def __init__(self, directory: Path, workers: int, java_options: str = "", cores: int = 1) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        package = Path(pyspark.__file__).parent
        self.home = make_home(data_home(os.environ) / "spark", package, pyspark.__version__)
        self.java_options = java_options
        self._directory = directory
        self._workers = workers
        self._cores = cores
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = ""

    def __enter__(self) -> "StandaloneCluster":
        try:
            self._start("master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0")
            self.master = self._wait_for("master", r"Starting Spark master at (spark://\S+)")
            for number in range(self._workers):
                self._start_worker(number)
            for number in range(self._workers):
                self._wait_for(f"worker-{number}", "Successfully registered with master")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    def add_worker(self) -> int:
        """Its number; it has been started, and registers soon."""
        number = len(self._processes) - 1
        self._start_worker(number)
        return number

    def worker(self, number: int) -> int:
        """Its process, below which its executors are."""
        return self._processes[1 + number].pid

    def kill_worker(self, number: int) -> None:
        process = self._processes[1 + number]
        process.kill()
        process.wait()

    def _start_worker(self, number: int) -> None:
        name = f"worker-{number}"
        sizes = ("--cores", str(self._cores), "--memory", "1g", "--work-dir", str(self._directory / name))
        place = ("--host", "127.0.0.1", "--port", "0")
        self._start(name, "org.apache.spark.deploy.worker.Worker", *sizes, *place, self.master)

    def _start(self, name: str, main_class: str, *arguments: str) -> None:
        program = str(self.home / "bin/spark-class")
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        environment |= {"SPARK_HOME": str(self.home), "SPARK_DAEMON_JAVA_OPTS": self.java_options}
        with (self._directory / f"{name}.log").open("wb") as log:
            command = [program, main_class, "--webui-port", "0", *arguments]
            self._processes.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment))

    def _wait_for(self, name: str, pattern: str) -> str:
        path = self._directory / f"{name}.log"
        deadline_s = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline_s:
            found = re.search(pattern, path.read_text(errors="replace"))
            if found:
                return found[found.re.groups]
            time.sleep(0.1)
        raise AssertionError(f"{name} said no {pattern!r}: {path.read_text(errors='replace')}")
