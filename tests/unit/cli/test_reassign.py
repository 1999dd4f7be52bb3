"""What `headwater cluster reassign` takes of a file of moves."""

from pathlib import Path

import pytest

from headwater.base.ids import TopicPartition
from headwater.cli.commands.reassign import _from_file


@pytest.mark.parametrize(("log_dirs", "is_told"), [('["any", "any"]', False), ('["any", "/disk2"]', True)])
def test_directories_in_a_file_are_told_to_be_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], log_dirs: str, is_told: bool
) -> None:
    """They were passed over: the replica stayed on its disk, and nothing was said."""
    path = tmp_path / "moves.json"
    path.write_text(f'{{"partitions": [{{"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": {log_dirs}}}]}}')
    assert _from_file(path) == {TopicPartition("t", 0): [1, 2]}
    said = f"warning: the log_dirs in {path} are left out: kafka-reassign-partitions moves between directories\n"
    assert capsys.readouterr().err == (said if is_told else "")
