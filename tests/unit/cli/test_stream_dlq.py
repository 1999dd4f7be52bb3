"""The clients of `headwater stream dlq`: as secured as the one that finds the topic."""

from pathlib import Path

from headwater.cli.commands.stream_dlq import _client
from headwater.cli.options import Target
from headwater.cli.settings import ConnectOptions


def test_letters_are_read_and_replayed_with_the_security_of_the_command(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nclient.id=me\n")
    target = Target(ConnectOptions("127.0.0.1:1", str(config)), "table")
    assert _client(target) == {
        "bootstrap.servers": target.settings.bootstrap,
        "client.id": "me",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
    }
