"""Our client among brokers that do not answer."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

from compat.support.broker import BrokerProcess
from headwater.client import Admin, NewTopic, Producer

PATIENCE_MS = 600_000  # far beyond what the test may take: waiting for the one that is stopped would be seen


def test_a_broker_that_is_stopped_keeps_nobody_from_asking_the_next(
    broker_factory: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    """Its port takes connections, because the kernel does; an answer never comes."""
    stopped, sound = broker_factory(tmp_path / "stopped"), broker_factory(tmp_path / "sound")
    settings = {
        "bootstrap_servers": f"{stopped.bootstrap},{sound.bootstrap}",
        "socket_connection_setup_timeout_ms": PATIENCE_MS,
        "request_timeout_ms": PATIENCE_MS,
    }
    os.kill(stopped.pid, signal.SIGSTOP)
    try:
        with Admin(**settings) as admin:
            admin.create_topics([NewTopic("orders", 1)])
            assert [topic.name for topic in admin.list_topics()] == ["orders"]
        with Producer(**settings, delivery_timeout_ms=2 * PATIENCE_MS) as producer:
            assert producer.send("orders", b"v").result(60).offset == 0
    finally:
        os.kill(stopped.pid, signal.SIGCONT)
