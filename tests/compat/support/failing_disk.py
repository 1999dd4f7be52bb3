"""A broker whose device fails under it: a library between it and the kernel answers EIO to writes and syncs below one
directory.
"""

import functools
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from compat.support.broker import HeadwaterBroker

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fails(int descriptor) {
    const char *below = getenv("FAILING_DIRECTORY"), *flag = getenv("FAILING_FLAG");
    char link[64], path[4096];
    if (!below || !flag || access(flag, F_OK)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return !strncmp(path, below, strlen(below));
}

#define BETWEEN(type, name, parameters, arguments)                             \
    type name parameters {                                                     \
        static type (*real) parameters;                                        \
        if (!real) real = (type (*) parameters)dlsym(RTLD_NEXT, #name);        \
        if (fails(descriptor)) { errno = EIO; return -1; }                     \
        return real arguments;                                                 \
    }

BETWEEN(ssize_t, write, (int descriptor, const void *data, size_t size), (descriptor, data, size))
BETWEEN(int, fsync, (int descriptor), (descriptor))
BETWEEN(int, fdatasync, (int descriptor), (descriptor))
"""


def failing_settings(directory: Path, failing: Path, flag: Path) -> dict[str, str]:
    """The environment of a process in which what lies below `failing` fails while `flag` exists.
    Builds in `directory`.
    """
    library = directory / "failing.so"
    if not library.exists():
        compiler = shutil.which("cc")
        assert compiler is not None, "the test needs a C compiler, as the build of the package does"
        source = directory / "failing.c"
        source.write_text(_SOURCE)
        command = [compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
        subprocess.run(command, check=True, capture_output=True)
    return {"LD_PRELOAD": str(library), "FAILING_DIRECTORY": str(failing), "FAILING_FLAG": str(flag)}


class FailingBroker(HeadwaterBroker):
    """`fail()` breaks what lies below `failing`, for as long as the flag is there."""

    failing: Path

    def _command(self) -> list[str]:
        settings = failing_settings(self.directory, self.failing, self._flag)
        return ["env", *(f"{name}={value}" for name, value in settings.items()), *super()._command()]

    @property
    def _flag(self) -> Path:
        return self.directory / "fails"

    def fail(self) -> None:
        self._flag.touch()

    def repair(self) -> None:
        self._flag.unlink()


class ReadOnlyBroker(HeadwaterBroker):
    """While `read_only` is set, a start sees that directory on a file system that takes no writes."""

    read_only: Path | None = None

    def _command(self) -> list[str]:
        command = super()._command()
        if self.read_only is None:
            return command
        mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
        return [*own_mounts(), "sh", "-c", mount, os.fspath(self.read_only), *command]


@functools.cache
def own_mounts() -> tuple[str, ...]:
    """The command before one that may mount what nobody else sees. Skips the test where the machine allows no such
    thing.
    """
    for command in (("unshare", "--user", "--map-root-user", "--mount"), ("unshare", "--mount")):
        probe = [*command, "sh", "-c", "mount --bind /tmp /tmp && mount -o remount,bind,ro /tmp"]
        if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            return command
    pytest.skip("a disk of one's own needs a mount namespace: `unshare --mount` works neither with --user nor as root")
