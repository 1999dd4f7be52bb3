"""A real HDFS on this machine: one NameNode and one DataNode, in a directory of the test's."""

import subprocess
import time
from pathlib import Path
from types import TracebackType

from headwater.server.zookeeper.process import free_ports

JARS = Path(__file__).parents[1] / "hdfs/target/lib"
_SERVER = "org.apache.hadoop.hdfs.server"
_ADMIN = "org.apache.hadoop.hdfs.tools.DFSAdmin"


class Hdfs:
    """Started on entering, ended on leaving. `root` is what paths begin with, `web` what those of WebHDFS do."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        names, data, inquiries, web, data_web = free_ports(5)
        self.root = f"hdfs://localhost:{names}"
        self.web = f"webhdfs://localhost:{web}"
        self._settings = {
            "fs.defaultFS": self.root,
            "dfs.replication": "1",
            "dfs.namenode.name.dir": str(directory / "names"),
            "dfs.namenode.http-address": f"localhost:{web}",
            "dfs.datanode.data.dir": str(directory / "data"),
            "dfs.datanode.address": f"localhost:{data}",
            "dfs.datanode.ipc.address": f"localhost:{inquiries}",
            "dfs.datanode.http.address": f"localhost:{data_web}",
        }
        self._servers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Hdfs":
        self._directory.mkdir()
        properties = (
            f"<property><name>{key}</name><value>{value}</value></property>" for key, value in self._settings.items()
        )
        (self._directory / "hdfs-site.xml").write_text(f"<configuration>{''.join(properties)}</configuration>")
        (self._directory / "core-site.xml").write_text((self._directory / "hdfs-site.xml").read_text())
        subprocess.run(
            self._java(f"{_SERVER}.namenode.NameNode", "-format"), check=True, capture_output=True, timeout=300
        )
        try:
            for server in ("namenode.NameNode", "datanode.DataNode"):
                with (self._directory / f"{server}.log").open("wb") as log:
                    self._servers.append(subprocess.Popen(self._java(f"{_SERVER}.{server}"), stdout=log, stderr=log))
            deadline_s = time.monotonic() + 600
            while not self._serves():  # each try takes a second of its own
                assert time.monotonic() < deadline_s, f"HDFS does not serve; see {self._directory}"
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._end()

    def read(self, *paths: str) -> bytes:
        """All of them in a row, by Hadoop's own client."""
        command = self._java("org.apache.hadoop.fs.FsShell", "-cat", *paths)
        return subprocess.run(
            command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=300
        ).stdout

    def _serves(self) -> bool:
        told = subprocess.run(self._java(_ADMIN, "-report", "-live"), capture_output=True, text=True, timeout=300)
        return "Live datanodes (1)" in told.stdout

    def _java(self, *arguments: str) -> list[str]:
        return ["java", "-Xmx256m", "-cp", f"{self._directory}:{JARS}/*", *arguments]

    def _end(self) -> None:
        for server in self._servers:
            server.kill()
            server.wait()
