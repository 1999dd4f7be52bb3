"""A server that speaks S3's protocol (moto), in a process of its own, with one bucket."""

import http.client
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.server.zookeeper.process import free_ports

BUCKET = "lake"
LOGIN = {"aws.access.key.id": "key", "aws.secret.access.key": "secret"}
_PATIENCE_S = 120


@contextmanager
def s3_server(folder: Path) -> Iterator[str]:
    """Its address."""
    (port,) = free_ports(1)
    said = folder / "moto.log"
    with said.open("wb") as log:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + _PATIENCE_S
        while not _make_bucket(port):
            assert process.poll() is None, said.read_text()
            assert time.monotonic() < deadline, "moto does not serve"
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _make_bucket(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("PUT", f"/{BUCKET}")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
