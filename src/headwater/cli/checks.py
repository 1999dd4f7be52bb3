"""The checks of `headwater doctor`: each looks at one thing of this machine and gives a finding."""

import importlib
import importlib.util
import os
import resource
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from headwater._version import VERSION
from headwater.cli.output import size_text

OK: Final = "ok"
WARN: Final = "warn"
FAIL: Final = "fail"

_PYTHON_MIN: Final = (3, 11)
_JAVA_MIN: Final = 17
_FILES_MIN: Final = 256
_FILES_WISE: Final = 4096
_FREE_BYTES_MIN: Final = 100 * 1024 * 1024
_FREE_BYTES_WISE: Final = 2 * 1024 * 1024 * 1024
_PORT: Final = 9092


class Finding(NamedTuple):
    level: str
    check: str
    found: str
    hint: str = ""


def run_checks(data_dir: Path) -> Iterator[Finding]:
    yield Finding(OK, "headwater", VERSION)
    yield check_python(sys.version_info[:3])
    for name, codec in (("crc32c", -1), ("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)):
        yield check_codec(name, codec)
    yield _check_compiled()
    yield _check_yaml()
    yield check_java(_java_version())
    yield _check_port(data_dir)
    yield _check_localhost()
    yield from _check_data_dir(data_dir)
    yield check_open_files(resource.getrlimit(resource.RLIMIT_NOFILE))


def check_python(version: tuple[int, ...]) -> Finding:
    text = ".".join(str(part) for part in version)
    if version < _PYTHON_MIN:
        return Finding(FAIL, "python", text, "Headwater needs Python 3.11 or later")
    return Finding(OK, "python", f"{text} ({sys.executable})")


def check_codec(name: str, codec: int) -> Finding:
    """Loads it and sends some bytes there and back."""
    sample = b"headwater " * 100
    try:
        if name == "crc32c":
            crc32c = importlib.import_module("crc32c")
            works = crc32c.crc32c(b"123456789") == 0xE3069283
            how = "hardware" if getattr(crc32c, "hardware_based", False) else "software: slow"
        else:
            compression = importlib.import_module("headwater.records.compression")
            works = bytes(compression.decompress(codec, compression.compress(codec, sample), len(sample))) == sample
            how = "works"
    except ImportError as error:
        return Finding(
            FAIL, name, f"cannot be loaded: {error}", "Install again: pip install --force-reinstall headwater"
        )
    if not works:
        return Finding(FAIL, name, "gives wrong results", "Install again: pip install --force-reinstall headwater")
    level = WARN if how.startswith("software") else OK
    return Finding(level, name, how, "" if level == OK else "Install a build of crc32c that uses the processor's own")


def _check_compiled() -> Finding:
    codec = importlib.import_module("headwater.records.codec")
    return check_compiled(codec.COMPILED, os.environ.get("HEADWATER_PURE"))


def check_compiled(compiled: bool, pure_wanted: str | None) -> Finding:
    """The codec of records: compiled at install, or in plain Python."""
    if compiled:
        return Finding(OK, "record codec", "compiled")
    found = "plain Python: some thirty times slower, the results are the same"
    if pure_wanted:
        return Finding(WARN, "record codec", found, f"HEADWATER_PURE={pure_wanted} asks for it: unset it")
    hint = "Install a C compiler and Python's headers (gcc, python3-dev), then: pip install --force-reinstall headwater"
    return Finding(WARN, "record codec", found, hint)


def _check_yaml() -> Finding:
    if importlib.util.find_spec("yaml") is None:
        return Finding(WARN, "yaml", "not installed: `-o yaml` will not work", "Run: pip install 'headwater[yaml]'")
    return Finding(OK, "yaml", "works")


def _java_version() -> str | None:
    """The first line of `java -version`; None without Java."""
    import subprocess

    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java is None:
        return None
    try:
        result = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = [line for line in result.stderr.splitlines() if "version" in line]
    return lines[0] if lines else None


def check_java(version_line: str | None) -> Finding:
    """'openjdk version "17.0.9" 2023-10-17', or '"1.8.0_292"' of old."""
    hint = f"Pipelines, and the ZooKeeper of `headwater up --brokers`, need Java {_JAVA_MIN} or later; others do not"
    if version_line is None:
        return Finding(WARN, "java", "not found", hint)
    quoted = version_line.split('"')[1] if version_line.count('"') >= 2 else ""
    major = quoted.removeprefix("1.").split(".")[0].split("-")[0]
    if not major.isdigit() or int(major) < _JAVA_MIN:
        return Finding(WARN, "java", quoted or version_line, hint)
    return Finding(OK, "java", quoted)


def _check_port(data_dir: Path) -> Finding:
    from headwater.cli.state import read_state

    state = read_state(data_dir)
    if state is not None and any(broker.port == _PORT for broker in state.brokers):
        return Finding(OK, f"port {_PORT}", f"used by our own broker (pid {state.brokers[0].pid})")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", _PORT))
        except OSError as error:
            hint = "Stop what uses it, or choose another: headwater up --port 9192"
            return Finding(WARN, f"port {_PORT}", error.strerror or "not free", hint)
    return Finding(OK, f"port {_PORT}", "free")


def _check_localhost() -> Finding:
    try:
        addresses = {str(each[4][0]) for each in socket.getaddrinfo("localhost", _PORT, type=socket.SOCK_STREAM)}
    except OSError as error:
        return Finding(FAIL, "localhost", f"cannot be resolved: {error}", "Put `127.0.0.1 localhost` into /etc/hosts")
    return Finding(OK, "localhost", ", ".join(sorted(addresses)))


def _check_data_dir(data_dir: Path) -> Iterator[Finding]:
    existing = next(path for path in (data_dir, *data_dir.parents) if path.exists())
    if not os.access(existing, os.W_OK | os.X_OK):
        yield Finding(FAIL, "data dir", f"{existing} cannot be written", "Name another with --data-dir")
        return
    yield Finding(OK, "data dir", str(data_dir))
    yield check_free_space(shutil.disk_usage(existing).free)


def check_free_space(free_bytes: int) -> Finding:
    found = f"{size_text(free_bytes)} free"
    hint = "Make room, or name another directory with --data-dir"
    if free_bytes < _FREE_BYTES_MIN:
        return Finding(FAIL, "disk space", found, hint)
    return (
        Finding(WARN, "disk space", found, hint) if free_bytes < _FREE_BYTES_WISE else Finding(OK, "disk space", found)
    )


def check_open_files(limits: tuple[int, int]) -> Finding:
    soft, hard = limits
    found = "unlimited" if soft == resource.RLIM_INFINITY else str(soft)
    if soft != resource.RLIM_INFINITY and soft < _FILES_WISE:
        level = FAIL if soft < _FILES_MIN else WARN
        most = "unlimited" if hard == resource.RLIM_INFINITY else str(hard)
        hint = f"Each partition and connection takes some. Run: ulimit -n {_FILES_WISE} (the most allowed here: {most})"
        return Finding(level, "open files", found, hint)
    return Finding(OK, "open files", found)
