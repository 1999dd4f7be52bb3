"""What `headwater doctor` thinks of a machine."""

import resource

import pytest

from headwater.cli.checks import (
    FAIL,
    OK,
    WARN,
    check_codec,
    check_compiled,
    check_free_space,
    check_java,
    check_open_files,
    check_python,
)


@pytest.mark.parametrize(
    ("line", "level", "found"),
    [
        ('openjdk version "17.0.9" 2023-10-17', OK, "17.0.9"),
        ('openjdk version "21-ea" 2023-09-19', OK, "21-ea"),
        ('java version "1.8.0_292"', WARN, "1.8.0_292"),
        ('openjdk version "11.0.2"', WARN, "11.0.2"),
        (None, WARN, "not found"),
        ("gibberish version", WARN, "gibberish version"),
    ],
)
def test_java(line: str | None, level: str, found: str) -> None:
    finding = check_java(line)
    assert (finding.level, finding.found) == (level, found)
    assert bool(finding.hint) == (level != OK)


def test_python() -> None:
    assert check_python((3, 10, 9)).level == FAIL
    assert check_python((3, 11, 0)).level == OK


@pytest.mark.parametrize(("soft", "level"), [(64, FAIL), (1024, WARN), (4096, OK), (resource.RLIM_INFINITY, OK)])
def test_open_files(soft: int, level: str) -> None:
    assert check_open_files((soft, resource.RLIM_INFINITY)).level == level


@pytest.mark.parametrize(("free_bytes", "level"), [(1 << 20, FAIL), (1 << 30, WARN), (1 << 40, OK)])
def test_disk_space(free_bytes: int, level: str) -> None:
    assert check_free_space(free_bytes).level == level


@pytest.mark.parametrize(("name", "codec"), [("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4), ("crc32c", -1)])
def test_codecs_work_here(name: str, codec: int) -> None:
    assert check_codec(name, codec).level in (OK, WARN)


def test_a_codec_that_cannot_be_loaded_fails_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr("importlib.import_module", refuse)
    finding = check_codec("zstd", 4)
    assert finding.level == FAIL
    assert "pip install" in finding.hint


def test_a_codec_in_plain_python_is_a_warning_with_the_way_to_the_compiled_one() -> None:
    assert check_compiled(True, None).level == OK
    missing, unwanted = check_compiled(False, None), check_compiled(False, "1")
    assert (missing.level, unwanted.level) == (WARN, WARN)
    assert "compiler" in missing.hint
    assert "unset" in unwanted.hint
