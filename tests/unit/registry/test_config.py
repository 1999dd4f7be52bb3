"""The registry's properties: Confluent's names, and a page that says what the table says."""

from pathlib import Path

import pytest

from headwater.base.errors import UserError
from headwater.registry.config import RegistryConfig, config_document

ROOT = Path(__file__).parents[3]


def test_the_page_is_made_from_the_table() -> None:
    page = (ROOT / "docs/SCHEMAS.md").read_text()
    told = page.split("<!-- properties -->\n")[1].split("<!-- end of properties -->")[0]
    assert told == config_document(), "put headwater.registry.config.config_document() there"


def test_a_file_and_settings_over_it() -> None:
    text = "listeners=http://0.0.0.0:8081\nkafkastore.bootstrap.servers=PLAINTEXT://a:1,b:2\nschema.compatibility.level=full\n"
    config, warnings = RegistryConfig.load(text, ["listeners=http://[::1]:7", "debug=true"])
    assert config.listeners == (("::1", 7, "http"),)
    assert config.bootstrap_servers == "a:1,b:2"
    assert config.rules.compatibility == "FULL"
    assert warnings == ["debug has no effect: the registry does not know it"]
    assert not RegistryConfig.of({"master.eligibility": "false"})[0].is_eligible


@pytest.mark.parametrize(
    "setting",
    [
        "listeners=ftp://0.0.0.0:8081",
        "listeners=127.0.0.1:8081",
        "listeners=http://127.0.0.1:99999",
        "listeners=",
        "schema.compatibility.level=sometimes",
        "kafkastore.timeout.ms=soon",
        "nothing",
    ],
)
def test_what_cannot_be_is_told(setting: str) -> None:
    with pytest.raises(UserError):
        RegistryConfig.load(None, [setting])
