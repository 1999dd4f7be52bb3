"""The limit of large fetches: sent as it was asked for, to the last byte."""

from pathlib import Path

import pytest
from bench import limits


def test_the_system_names_its_own_way_and_takes_it_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TOTAL_MB", 64)
    usual = limits.congestion_control()
    assert usual == Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    assert limits.loopback_sendfile_mb_s(str(tmp_path), usual.encode()) > 0


def test_another_way_is_really_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TOTAL_MB", 64)
    assert limits.loopback_sendfile_mb_s(str(tmp_path)) > 0
    with pytest.raises(OSError):
        limits.loopback_sendfile_mb_s(str(tmp_path), b"nobody-has-this")
