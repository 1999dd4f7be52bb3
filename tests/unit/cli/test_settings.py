"""Which cluster a command talks to."""

from pathlib import Path

import pytest

from headwater.base.errors import UserError
from headwater.cli.settings import ConnectOptions, resolve


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_DATA_HOME": str(tmp_path / "data")}


def _profiles(environment: dict[str, str], text: str) -> None:
    directory = Path(environment["XDG_CONFIG_HOME"]) / "headwater"
    directory.mkdir(parents=True)
    (directory / "profiles.toml").write_text(text)


PROFILES = """
current = "local"
[profiles.local]
bootstrap_server = "local:1"
[profiles.far]
bootstrap_server = "far:2"
"""


def test_without_anything_it_is_localhost(environment: dict[str, str]) -> None:
    settings = resolve(ConnectOptions(), environment)
    assert (settings.bootstrap, settings.source) == ("localhost:9092", "the default")
    assert settings.request_timeout_ms == 30_000


def test_the_nearest_word_wins(environment: dict[str, str], tmp_path: Path) -> None:
    _profiles(environment, PROFILES)
    config = tmp_path / "client.properties"
    config.write_text("bootstrap.servers=config:3\nclient.id = me\nrequest.timeout.ms=1234\n")
    assert resolve(ConnectOptions(), environment).bootstrap == "local:1"
    environment["HEADWATER_BOOTSTRAP_SERVER"] = "environment:4"
    assert resolve(ConnectOptions(), environment).bootstrap == "environment:4"
    assert resolve(ConnectOptions(profile="far"), environment).bootstrap == "far:2"
    settings = resolve(ConnectOptions(profile="far", command_config=str(config)), environment)
    assert (settings.bootstrap, settings.client_id, settings.request_timeout_ms) == ("config:3", "me", 1234)
    assert resolve(ConnectOptions("typed:5", str(config), "far"), environment).bootstrap == "typed:5"


def test_a_profile_may_bring_its_properties(environment: dict[str, str], tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("client.id=me\nsome.other=1\n")
    _profiles(environment, f'[profiles.p]\nbootstrap_server = "p:1"\ncommand_config = "{config}"\n')
    settings = resolve(ConnectOptions(profile="p"), environment)
    assert (settings.bootstrap, settings.client_id) == ("p:1", "me")


def test_a_property_without_meaning_is_a_warning(
    environment: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "client.properties"
    config.write_text("group.id=x\n")
    resolve(ConnectOptions(command_config=str(config)), environment)
    assert "group.id has no meaning here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("properties", "said"),
    [("request.timeout.ms=soon", "request.timeout.ms=soon")],
)
def test_what_cannot_be_done_is_said(environment: dict[str, str], tmp_path: Path, properties: str, said: str) -> None:
    config = tmp_path / "client.properties"
    config.write_text(properties)
    with pytest.raises(UserError, match=said):
        resolve(ConnectOptions(command_config=str(config)), environment)


def test_a_profile_that_is_not_there_is_named_with_those_that_are(environment: dict[str, str]) -> None:
    with pytest.raises(UserError, match="does not exist"):
        resolve(ConnectOptions(profile="x"), environment)
    _profiles(environment, PROFILES)
    with pytest.raises(UserError, match="local, far"):
        resolve(ConnectOptions(profile="x"), environment)


def test_a_broken_profile_file_is_a_user_error(environment: dict[str, str]) -> None:
    _profiles(environment, "[profiles")
    with pytest.raises(UserError, match="Cannot read"):
        resolve(ConnectOptions(), environment)
