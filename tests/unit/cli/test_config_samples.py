"""The sample file, copied and edited as everybody does it to run several brokers on one machine."""

from pathlib import Path

import pytest

from headwater.base.config.broker import BrokerConfig

SAMPLE = Path(__file__).parents[3] / "config" / "server.properties"


def _edited(directory: Path, *lines: tuple[str, str]) -> BrokerConfig:
    """The sample with some of its lines replaced; each of them is there exactly once."""
    text = SAMPLE.read_text()
    for old, new in lines:
        assert text.count(f"\n{old}\n") == 1, old
        text = text.replace(f"\n{old}\n", f"\n{new}\n")
    path = directory / "server-1.properties"
    path.write_text(text)
    return BrokerConfig.load(str(path))[0]


@pytest.mark.parametrize(
    "listener", ["listeners=PLAINTEXT://localhost:9093", "host.name=localhost\nport=9093", "port=9093"]
)
def test_a_copy_becomes_a_second_broker(tmp_path: Path, listener: str) -> None:
    config = _edited(
        tmp_path,
        ("broker.id=0", "broker.id=1"),
        ("listeners=PLAINTEXT://localhost:9092", listener),
        ("log.dirs=/var/lib/headwater", "log.dir=/tmp/kafka-logs-1"),
        ("#zookeeper.connect=localhost:2181", "zookeeper.connect=localhost:2181"),
    )
    assert config.node_id() == 1
    assert [each.port for each in config.listeners()] == [9093]
    assert config.log_dirs() == ["/tmp/kafka-logs-1"]
    assert config.string("zookeeper.connect") == "localhost:2181"


def test_the_sample_itself_is_a_broker_on_its_own(tmp_path: Path) -> None:
    config = _edited(tmp_path)
    assert config.node_id() == 0
    assert not config.string("zookeeper.connect")
