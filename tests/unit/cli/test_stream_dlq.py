"""The clients of `headwater stream dlq`: as secured as the one that finds the topic."""

from pathlib import Path

import click
import pytest

from headwater.cli.commands.stream import reset
from headwater.cli.commands.stream_dlq import _client, list_letters, replay, show
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


@pytest.mark.parametrize("command", [list_letters, show, replay, reset])
def test_brokers_are_named_as_for_stream_run(command: click.Command) -> None:
    assert [each.opts for each in command.params if each.name == "bootstrap_server"] == [["-b", "--bootstrap-server"]]
