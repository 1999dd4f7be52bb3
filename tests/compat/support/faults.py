"""Faults of disks and clocks under a broker that does not know: `faults.c` between it and the kernel, and small disks
of its own.

`Faults` is the page that a test and the processes share: a field that is set holds from the next call on. `SmallDisks`
are tmpfs in a mount namespace that nobody else sees and that goes with this process; it needs no root where user
namespaces are allowed.
"""

import mmap
import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from compat.support.broker import HeadwaterBroker
from compat.support.failing_disk import own_mounts

_NUMBERS: Final = (
    "write_error",
    "sync_error",
    "write_delay_ms",
    "writes_late",
    "syncs_are_held",
    "failed_writes",
    "failed_syncs",
    "late_writes",
    "held_syncs",
)
_CLOCK_AT, _BELOW_AT, _BYTES = 40, 48, 48 + 1024 + 64


class Faults:
    """Nothing is wrong until a test says so."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / "faults"
        self._path.write_bytes(bytes(_BYTES))
        self._syncs = directory / "syncs"
        self._library = _built(directory)
        with self._path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), _BYTES)

    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "FAULTS_PAGE": str(self._path), "FAULTS_SYNCS": str(self._syncs)}

    def set(self, **fields: int) -> None:
        for name, value in fields.items():
            struct.pack_into("=i", self._page, 4 * _NUMBERS.index(name), value)

    def count(self, name: str) -> int:
        return int(struct.unpack_from("=i", self._page, 4 * _NUMBERS.index(name))[0])

    def only(self, below: Path, named: str = "") -> None:
        """What is meant by writes and syncs, before any of them is to go wrong."""
        struct.pack_into("=1024s64s", self._page, _BELOW_AT, f"{below}/".encode(), named.encode())

    def set_clock(self, ahead_ms: int) -> None:
        struct.pack_into("=q", self._page, _CLOCK_AT, ahead_ms)

    def synced_bytes(self) -> dict[str, int]:
        """How much of each file a sync has brought to the device, by its path when it was synced."""
        found: dict[str, int] = {}
        for line in self._syncs.read_text().splitlines():
            size, _, path = line.partition(" ")
            found[path] = int(size)
        return found


def _built(directory: Path) -> Path:
    library = directory / "faults.so"
    if not library.exists():
        compiler = shutil.which("cc")
        assert compiler is not None, "the test needs a C compiler, as the build of the package does"
        source = Path(__file__).with_name("faults.c")
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
        subprocess.run(command, check=True, capture_output=True)
    return library


class FaultyBroker(HeadwaterBroker):
    """With faults from its first moment on, and log directories on small disks if it has any."""

    faults: Faults
    disks: "SmallDisks | None" = None

    def _command(self) -> list[str]:
        settings = (f"{name}={value}" for name, value in self.faults.environment().items())
        return [*(self.disks.inside() if self.disks else ()), "env", *settings, *super()._command()]


class SmallDisks:
    """File systems of a few megabytes, each on a directory; they are there while the context lasts."""

    def __init__(self, size_bytes: int, *paths: Path) -> None:
        self._size_bytes = size_bytes
        self.paths = paths
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "SmallDisks":
        alone = own_mounts()
        for path in self.paths:
            path.mkdir(parents=True, exist_ok=True)
        mounts = " && ".join(
            f'mount -t tmpfs -o size={self._size_bytes},mode=0777 small "${number}"'
            for number in range(1, 1 + len(self.paths))
        )
        command = [*alone, "sh", "-c", f"{mounts} && echo mounted && exec cat", "sh", *map(str, self.paths)]
        self._process = process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"mounted\n", "a tmpfs cannot be mounted in a namespace of our own"
        user = ("--user", "--preserve-credentials") if "--user" in alone else ()
        self._enter = ("nsenter", *user, "--mount", "--target", str(process.pid))
        return self

    def __exit__(self, *_: object) -> None:
        process = self._process
        assert process is not None
        process.kill()
        process.communicate()

    def inside(self) -> tuple[str, ...]:
        """The command before one that is to see them."""
        return self._enter

    def run(self, *command: str) -> str:
        done = subprocess.run([*self._enter, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def put_ballast(self, path: Path, size_bytes: int) -> None:
        """A file that can be taken away later, to make room."""
        self.run("sh", "-c", f'head -c {size_bytes} /dev/zero > "$0"', str(path / "ballast"))

    def fill(self, path: Path) -> None:
        """To the last byte, also of what the broker gives back meanwhile:
        it puts new files in the place of old ones.
        """
        command = [*self._enter, "sh", "-c", 'cat /dev/zero >> "$0"', str(path / "filler")]
        for _ in range(100):
            subprocess.run(command, capture_output=True, check=False)
            if self.free_bytes(path) == 0:
                return
        raise AssertionError(f"{path} does not become full")

    def take_away(self, path: Path, *names: str) -> None:
        self.run("rm", "-f", *(str(path / name) for name in names))

    def free_bytes(self, path: Path) -> int:
        blocks, size = self.run("stat", "-f", "-c", "%a %S", str(path)).split()
        return int(blocks) * int(size)

    def names(self, path: Path) -> Sequence[str]:
        return self.run("ls", "-a", str(path)).split("\n")
