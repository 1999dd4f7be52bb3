"""Canaries: values that stand in for secrets, each of its own, so that one that is seen anywhere tells which secret got
out.

A secret gets out in other clothes too: in base64 (logins of HTTP are), in hexadecimal, with percent signs, quoted by
Python or JSON. `seen` knows these.
"""

import base64
import contextlib
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

# A server of ours whose log has all that is ever logged.
# What it is told stands in a file: arguments can be read by others.
_TALKATIVE = (
    "from headwater.server import logs_for_people; logs_for_people.configure.__defaults__ = ('DEBUG',); "
    "from headwater.cli.main import main; main()"
)
PATIENCE_S = 120


class Canaries:
    def __init__(self) -> None:
        self.planted: dict[str, str] = {}

    def plant(self, secret: str, value: str | None = None) -> str:
        """The value of a secret: a new one, or one that is secret as it is (the inside of a key)."""
        assert secret not in self.planted, secret
        self.planted[secret] = value if value is not None else f"canary.{secrets.token_hex(8)}.{len(self.planted)}"
        return self.planted[secret]

    def plant_key(self, secret: str, pem: str) -> str:
        """Each line of a key is one."""
        for number, line in enumerate(pem.splitlines()):
            if line and not line.startswith("-----"):
                self.plant(f"{secret}, line {number}", line)
        return pem

    def seen(self, text: str | bytes) -> list[str]:
        """The secrets that a text has in it."""
        data = text.encode() if isinstance(text, str) else text
        return [secret for secret, value in self.planted.items() if any(form in data for form in forms(value))]


def forms(value: str) -> set[bytes]:
    data = value.encode()
    made = {data, data.hex().encode(), data.hex().upper().encode(), quote(value).encode(), repr(value)[1:-1].encode()}
    made.add(json.dumps(value)[1:-1].encode())
    for before in range(3):  # where it begins within three bytes; what depends on its neighbours is left out
        encoded = base64.b64encode(bytes(before) + data)
        whole = encoded[-(-before * 4 // 3) : len(encoded) - 4]
        made |= {whole, whole.replace(b"+", b"-").replace(b"/", b"_")}
    return made


class Server(NamedTuple):
    ready: str  # its line
    log: Path

    def said(self, name: str) -> str:
        """The value of `name=` in the ready line."""
        return self.ready.split(f"{name}=")[1].split()[0]


def private(path: Path, settings: dict[str, str]) -> Path:
    """A properties file for its owner alone."""
    path.touch(0o600)
    escaped = {name: value.replace("\\", "\\\\").replace("\n", "\\n") for name, value in settings.items()}
    path.write_text("".join(f"{name}={value}\n" for name, value in escaped.items()))
    return path


@contextlib.contextmanager
def talkative(directory: Path, name: str, *command: str) -> Iterator[Server]:
    """`headwater COMMAND`, logging at DEBUG, until the block ends. What it prints is in its log too."""
    log = directory / f"{name}.log"
    environment = {**os.environ, "PYTHONFAULTHANDLER": "1"}
    with (
        log.open("wb") as complaints,
        subprocess.Popen(
            [sys.executable, "-c", _TALKATIVE, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=environment,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            ready = process.stdout.readline()
            assert ready.startswith("ready "), log.read_text()
            yield Server(ready, log)
        finally:
            process.terminate()
            process.wait(PATIENCE_S)
            complaints.write(process.stdout.read().encode())
