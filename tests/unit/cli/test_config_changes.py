"""What `kafka-configs` refuses: who or what is meant that would be passed over."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.cli.kafka import configs
from headwater.client.types import ConfigEntry


class Brokers:
    """Know one topic with one config of its own, and keep what is altered."""

    def __init__(self) -> None:
        self.altered: list[dict[str, str | None]] = []
        self.session = SimpleNamespace(view=SimpleNamespace(brokers=[1]))

    def list_topics(self, *, internal: bool) -> list[Any]:
        return [SimpleNamespace(name="t", internal=internal)]

    def describe_configs(self, resources: Any, *, synonyms: bool) -> dict[Any, list[ConfigEntry]]:
        own = ConfigEntry("retention.ms", "5", "topic", not synonyms, False, "long", None)
        return {resources[0]: [own, own._replace(name="retention.bytes", source="default")]}

    def alter_configs(self, changes: dict[Any, dict[str, str | None]]) -> dict[Any, None]:
        self.altered += changes.values()
        return dict.fromkeys(changes)


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    found = Brokers()
    monkeypatch.setattr("headwater.cli.kafka.connecting.connected", lambda _: nullcontext(found))
    return found


def typed(arguments: str) -> int:
    return configs.script(["--bootstrap-server", "localhost:1", *arguments.split()])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--entity-type topics --entity-name t --entity-name u", "An entity name must be specified for every"),
        ("--topic t --topic u", "Only 'users' and 'clients' entity types"),
        ("--topic t --broker 1", "Only 'users' and 'clients' entity types"),
        ("--topic t --broker-defaults", "Only 'users' and 'clients' entity types"),
        ("--entity-type topics --entity-type brokers --entity-name 1", "Only 'users' and 'clients' entity types"),
        ("--entity-type topics --topic t", "should not be used in conjunction with specific entity flags"),
        ("--topic t --entity-name u", "should not be used in conjunction with specific entity flags"),
    ],
)
@pytest.mark.parametrize("action", ["--describe", "--alter --add-config retention.ms=5"])
def test_who_would_be_passed_over_is_refused(
    brokers: Brokers, capsys: pytest.CaptureFixture[str], arguments: str, said: str, action: str
) -> None:
    """Of several topics, one was altered, and nothing was said of the others."""
    assert typed(f"{action} {arguments}") == 1
    assert said in capsys.readouterr().err
    assert brokers.altered == []


@pytest.mark.parametrize("option", ["--add-config a=1", "--delete-config a", "--add-config-file f"])
def test_a_description_changes_nothing(brokers: Brokers, capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert typed(f"--describe --topic t {option}") == 1
    assert 'Option "[describe]" can\'t be used with option' in capsys.readouterr().err
    assert brokers.altered == []


@pytest.mark.usefixtures("brokers")
def test_one_of_each_is_taken() -> None:
    for entity in ("--topic t", "--entity-type topics --entity-name t", "--entity-type topics", "--broker-defaults"):
        assert typed(f"--describe {entity}") == 0
