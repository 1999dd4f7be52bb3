"""A standalone worker whose brokers do not answer says so and ends, as Kafka Connect's does."""

import asyncio
from pathlib import Path

import pytest

from headwater.base.errors import UserError
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
