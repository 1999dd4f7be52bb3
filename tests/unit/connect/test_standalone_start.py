"""A standalone worker whose brokers do not answer says so and ends, as Kafka Connect's does."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.connect import standalone
from headwater.connect.standalone import StandaloneService


def test_brokers_that_are_away_are_told_and_no_door_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standalone, "_REACH_MS", 300)
    worker = {
        "bootstrap.servers": "127.0.0.1:1",
        "listeners": "http://127.0.0.1:0",
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }

    async def run() -> None:
        service = StandaloneService(worker, [])
        try:
            with pytest.raises(UserError, match=r"cannot reach the brokers at 127\.0\.0\.1:1\. .*bootstrap\.servers"):
                await service.start()
            assert service.herder is None
        finally:
            await service.stop()

    asyncio.run(run())


def test_a_worker_whose_own_converters_are_wrong_does_not_start(tmp_path: Path) -> None:
    """It said `ready`, and every task of connectors without converters of their own failed."""
    worker = {
        "listeners": "http://127.0.0.1:0",
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "key.converter": "Nope",
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "maybe",
        "header.converter": "NoHeaders",
    }
    with pytest.raises(UserError) as told:
        asyncio.run(StandaloneService(worker, []).start())
    for name in ("key.converter: Class Nope", "header.converter: Class NoHeaders", "value.converter.schemas.enable"):
        assert name in str(told.value)


@pytest.mark.parametrize(
    ("code", "asked"), [(ErrorCode.BROKER_NOT_AVAILABLE, 3), (ErrorCode.SASL_AUTHENTICATION_FAILED, 1)]
)
def test_brokers_that_come_later_are_waited_for_and_a_refusal_is_not(
    code: ErrorCode, asked: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[Any] = []

    class Admin:
        def __init__(self, _settings: Any) -> None:
            calls.append(self)

        async def __aenter__(self) -> Any:
            return self

        async def __aexit__(self, *_: object) -> None:
            """Nothing is open."""

        async def describe_cluster(self) -> Any:
            if len(calls) < 3:
                raise KafkaError(code, "no")
            return SimpleNamespace(cluster_id="c")

    monkeypatch.setattr(standalone, "AsyncAdmin", Admin)
    monkeypatch.setattr(standalone, "_AGAIN_S", 0)
    if asked == 3:
        asyncio.run(standalone._reach_brokers({}))
        assert [each.getMessage().split()[0] for each in caplog.records] == ["event=brokers-away"]
    else:
        with pytest.raises(UserError):
            asyncio.run(standalone._reach_brokers({}))
    assert len(calls) == asked
