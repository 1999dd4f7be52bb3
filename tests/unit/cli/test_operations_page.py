"""docs/OPERATIONS.md has only commands that exist, with options that they take."""

import re
import shlex
import tomllib
from importlib import import_module
from pathlib import Path

import click
import pytest

from headwater.cli.root import cli

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "OPERATIONS.md").read_text()
SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
LINES = sorted(
    {
        text.partition("  #")[0].strip()
        for text in (*re.findall(r"^(.+)$", "\n".join(re.findall(r"```\n(.*?)```", PAGE, re.DOTALL)), re.MULTILINE),
                     *re.findall(r"`([^`\n]+)`", PAGE))
        if text.split()[0] in SCRIPTS
    }
)  # fmt: skip


def test_the_page_has_commands() -> None:
    assert len(LINES) > 15
    assert {"kafka-server-start", "zookeeper-server-start", "headwater"} <= {line.split()[0] for line in LINES}


@pytest.mark.parametrize("line", [each for each in LINES if each.split()[0] == "headwater"])
def test_verbs_and_their_options_exist(line: str) -> None:
    words = shlex.split(line)[1:]
    command: click.Command = cli
    while isinstance(command, click.Group) and words:
        found = command.get_command(click.Context(command), words.pop(0))
        assert found is not None, line
        command = found
    if words:
        command.make_context(line, words)  # refuses what the verb does not take


@pytest.mark.parametrize("line", [each for each in LINES if each.startswith("kafka-")])
def test_scripts_and_their_options_exist(line: str) -> None:
    name, *words = shlex.split(line)
    launcher, script = SCRIPTS[name].split(":")
    module = import_module(f"headwater.cli.kafka.{script}" if launcher.endswith(".launch") else launcher)
    if hasattr(module, "OPTIONS"):
        options = module.OPTIONS() if callable(module.OPTIONS) else module.OPTIONS
        known = {option.name for option in options}
        assert {word[2:].partition("=")[0] for word in words if word.startswith("--")} <= known
    elif words:
        module.parse_start(words)


def test_metrics_of_the_page_exist() -> None:
    where = ("server/exposition.py", "server/exposition_security.py", "connect/metrics/names.py")
    source = "".join((ROOT / "src" / "headwater" / name).read_text() for name in where)
    named = set(re.findall(r"`((?:headwater|kafka_server)_\w+)`", PAGE))
    assert named
    assert {name for name in named if not re.search(rf'["\s]{name}["\s{{]', source)} == set()
