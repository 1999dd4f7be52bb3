"""`headwater broker dump-log`: what log files hold, for eyes or as JSON lines."""

import mmap
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from headwater.base.errors import UserError
from headwater.cli.options import output_option


@click.command()
@click.argument("paths", metavar="FILE|DIR...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("-r", "--records", is_flag=True, help="Also the records inside the batches.")
@output_option
def dump_log(paths: tuple[Path, ...], records: bool, output: str) -> int:
    """Show what log files hold: segments, indexes, producer snapshots, checkpoints.

    A directory stands for the files of a log in it. JSON comes as one object a line, each with its file. Exit code 1 if
    anything is damaged.
    """
    damaged = False
    for path in _files(paths):
        for document in _documents(path, records):
            damaged = damaged or "error" in document
            if output == "table":
                sys.stdout.write(_text(document))
            else:
                from headwater.cli.record_output import document_line

                sys.stdout.write(document_line(output, {"file": str(path), **document}))
    return 1 if damaged else 0


def _files(paths: tuple[Path, ...]) -> Iterator[Path]:
    from headwater.cli.dump import kind_of

    for path in paths:
        if path.is_dir():
            yield from sorted(each for each in path.iterdir() if each.is_file() and kind_of(each.name))
        else:
            yield path


def _documents(path: Path, records: bool) -> Iterator[dict[str, Any]]:
    from headwater.cli.dump import dump, kind_of

    kind = kind_of(path.name)
    if not kind:
        raise UserError(
            f"Cannot tell what {path} is",
            "its name ends in none of .log .index .timeindex .txnindex .snapshot, and it is no checkpoint",
        )
    yield {"kind": kind, "path": str(path), "size_bytes": path.stat().st_size}
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            view = memoryview(mapped)
            try:
                yield from dump(kind, path.name, view, records=records)
            finally:
                view.release()


def _text(document: dict[str, Any]) -> str:
    if "kind" in document:
        return f"{document['path']}: {document['kind']}, {document['size_bytes']} bytes\n"
    records = document.get("records", ())
    pairs = " ".join(f"{key}={_value(value)}" for key, value in document.items() if key != "records")
    return f"  {pairs}\n" + "".join(
        "    " + " ".join(f"{key}={_value(value)}" for key, value in record.items()) + "\n" for record in records
    )


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (
        "null" if value is None else repr(value) if isinstance(value, str) and not value.isprintable() else str(value)
    )
