"""A broker on the simulated ports, asked through the codecs:
request and response go over the wire format of a version.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from headwater.base.config.broker import BrokerConfig
from headwater.base.ids import BrokerId
from headwater.broker.broker import Broker
from headwater.broker.context import ConnectionContext, RequestContext
from headwater.broker.deferred import Deferred
from headwater.broker.registry import APIS
from headwater.metadata.image import BrokerState, Endpoint
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.server.assembly import Assembly
from headwater.server.dispatch import begin
from headwater.sim.clock import SimClock
from headwater.sim.disk import SimDisk
from headwater.sim.scheduler import SimRandom, SimScheduler


class Lab:
    """Owns the broker and its ports. Nothing happens on the disk until `settle`."""

    def __init__(self, properties: dict[str, str], disk: SimDisk | None = None) -> None:
        self.disk = disk or SimDisk(seed=1)
        self.clock = SimClock()
        self.scheduler = SimScheduler(self.clock)
        self.properties = {"node.id": "1", "log.dirs": "/data", "listeners": "PLAINTEXT://:0", **properties}
        self._assembly = Assembly(
            BrokerConfig(self.properties),
            disk=self.disk,
            clock=self.clock,
            random=SimRandom(7),
            scheduler=self.scheduler,
        )
        opened: list[Broker] = []
        self._assembly.open(opened.append)
        self.settle()
        (self.broker,) = opened
        self.add_broker(1)
        self.broker.image.controller_id = BrokerId(1)

    def add_broker(self, broker_id: int) -> None:
        endpoint = Endpoint("PLAINTEXT", f"host{broker_id}", 9092)
        self.broker.image.brokers[BrokerId(broker_id)] = BrokerState(BrokerId(broker_id), [endpoint])

    def settle(self) -> None:
        """Runs the disk and what is due now until nothing moves."""
        while self.disk.run() + self.scheduler.run_due():
            pass

    def begin(self, request: Any, version: int | None = None) -> Any:
        """What the handler returns, over the request's bytes in that version; the newest if none is named."""
        api = APIS[request.KEY]
        version = api.serves[1] if version is None else version
        assert api.serves[0] <= version <= api.serves[1]
        self.frame = bytearray(
            b"".join(request.encode(version))
        )  # as in the server: a buffer that is written over later
        decoded = type(request).decode(self.frame, 0, version)
        context = RequestContext(ConnectionContext("127.0.0.1", 5000, "PLAINTEXT"), api.key, version, "tests")
        return import_module(f"headwater.broker.handlers.{api.name}").handle(self.broker, context, decoded)

    def answer_to(self, frame: bytes) -> bytes:
        """The whole frame of the answer to a whole request, by the general way."""
        begun = begin(self.broker, ConnectionContext("127.0.0.1", 5000, "PLAINTEXT"), memoryview(bytearray(frame)))
        result = begun.result
        if isinstance(result, Deferred):
            self.settle()
            result = result.response
        return b"".join(map(bytes, begun.frame(result)))

    def ask(self, request: Any, version: int | None = None) -> Any:
        """The response, over its bytes in that version."""
        answer = self.begin(request, version)
        if isinstance(answer, Deferred):
            self.settle()
            assert answer.done
            answer = answer.response
        version = APIS[request.KEY].serves[1] if version is None else version
        return type(answer).decode(b"".join(answer.encode(version)), 0, version)

    def append(self, topic: str, partition: int, count: int) -> None:
        records = build_batch([Record(offset, self.clock.now_ms(), b"key", b"value") for offset in range(count)])
        self.broker.partition(topic, partition).append(memoryview(records), self.clock.now_ms())

    def restarted(self) -> "Lab":
        """Another broker on the same disk, after a clean stop."""
        self.broker.logs.close()
        self._assembly.store.close()
        return Lab(self.properties, self.disk)


@pytest.fixture(name="make_lab")
def make_lab_fixture() -> Callable[..., Lab]:
    return lambda **properties: Lab({name.replace("_", "."): value for name, value in properties.items()})


@pytest.fixture(name="lab")
def lab_fixture() -> Lab:
    return Lab({})
