"""`HadoopFiles` with a file system of Hadoop's that fails where it hurts; the real ones are in tests/spark."""

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from headwater.base.errors import UserError
from headwater.spark.sinks.hadoop import HadoopFiles, rename_locally


def files_on(scheme: str, system: Any) -> HadoopFiles:
    """Paths are text here, with `getParent` and nothing else."""
    files = HadoopFiles.__new__(HadoopFiles)
    files._jvm, files._gateway, files._configuration = MagicMock(), MagicMock(), None
    files._jvm.org.apache.hadoop.fs.Path.return_value.getFileSystem.return_value = system
    system.getUri.return_value.getScheme.return_value = scheme
    return files


def test_a_copy_of_an_object_store_that_fails_half_way_is_an_error() -> None:
    """What it left at the target is no other driver's batch."""
    system = MagicMock()
    files = files_on("s3a", system)
    system.exists.return_value = False

    def half(*_: object) -> None:
        system.exists.return_value = True
        raise OSError("503 after 2 of 4 copies")

    system.rename.side_effect = half
    context = files._jvm.org.apache.hadoop.fs.FileContext.getFileContext.return_value
    context.rename.side_effect = half
    with pytest.raises(OSError, match="503"):
        files.rename_once("s3a://b/_staging/x", "s3a://b/x")


@pytest.mark.parametrize(
    ("scheme", "expected"), [("file", True), ("hdfs", True), ("s3a", False), ("gs", False), ("abfs", False)]
)
def test_a_rename_at_once_is_believed_of_disks_and_hdfs_alone(scheme: str, expected: bool) -> None:
    assert files_on(scheme, MagicMock()).renames_at_once(f"{scheme}://b/x") is expected


@pytest.mark.parametrize(("mounted", "expected"), [("hdfs", True), ("s3a", False)])
def test_a_mount_of_viewfs_is_what_it_leads_to(mounted: str, expected: bool) -> None:
    system = MagicMock()
    system.resolvePath.return_value.toUri.return_value.getScheme.return_value = mounted
    assert files_on("viewfs", system).renames_at_once("viewfs://cluster/x") is expected


def test_a_text_whose_name_is_taken_leaves_nothing_aside() -> None:
    system = MagicMock()
    system.exists.return_value = True
    files = files_on("hdfs", system)
    with pytest.raises(UserError, match="is there already"):
        files.write_text("hdfs://c/_manifests/x", "{}", "hdfs://c/_staging/x-1.manifest")
    system.create.assert_called_once()
    system.delete.assert_called_once_with(system.create.call_args.args[0], False)


def test_a_directory_that_another_driver_removed_after_it_made_the_target_is_no_error(tmp_path: Path) -> None:
    mine, target = tmp_path / "mine", tmp_path / "target"
    with pytest.raises(FileNotFoundError):
        rename_locally(str(mine), str(target))
    target.mkdir()
    assert rename_locally(str(mine), str(target)) is False
