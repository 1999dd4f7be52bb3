"""`headwater stream reprocess`: a new version of an application beside the former one, compared, and switched."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwater.cli.options import output_option
from headwater.cli.output import emit, render_table
from headwater.cli.record_output import put_bytes

if TYPE_CHECKING:
    from headwater.streams.reprocessing.comparison import Comparison


@click.command()
@click.argument("path", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--beside", metavar="APP", required=True, help="The former version: its name, or its file.")
@click.option("--switch", is_flag=True, help="Stop the former version, and let the outputs show the new one's results.")
@click.option(
    "--max-differences", type=click.IntRange(0), metavar="N", help="Switch only if no output differs in more rows."
)
@click.option(
    "--state-dir", type=click.Path(file_okay=False, path_type=Path), default="headwater-state", show_default=True
)
@click.option("-b", "--bootstrap-server", metavar="HOST:PORT", help="In place of the application's own.")
@output_option
def reprocess(
    path: Path,
    beside: str,
    switch: bool,
    max_differences: int | None,
    state_dir: Path,
    bootstrap_server: str | None,
    output: str,
) -> int:
    """Run a new version of an application beside the former one, from the first record, and compare their outputs.

    The new version (FILE) has a name of its own, and writes to shadow topics until it is switched. Outputs are compared
    as tables: by the latest value of each key. Interrupted, it is simply started again.

    \b
    headwater stream reprocess orders_v2.py --beside orders                 process everything, compare, stop
    headwater stream reprocess orders_v2.py --beside orders --switch        the same; then version 1 is stopped for good
    headwater stream run orders_v2.py                                       and version 2 goes on
    """
    from headwater.cli.stream_files import load_app, use_brokers
    from headwater.streams.reprocessing.reprocessing import Reprocessing
    from headwater.streams.slot.settings import RunSettings

    app = load_app(path)
    use_brokers(app, bootstrap_server)
    former = load_app(Path(beside)).name if Path(beside).is_file() else beside
    with Reprocessing(app, former, RunSettings(app.brokers, state_dir)) as reprocessing:
        found = reprocessing.switch(max_differences) if switch else reprocessing.catch_up()
    table = render_table(
        ("OUTPUT", "EQUAL", "CHANGED", "MISSING", "ADDED", "WITHOUT-KEY"),
        [(each.topic, each.equal, each.changed, each.missing, each.added, each.keyless) for each in found],
    )
    table += "".join(
        f"{each.topic} {example.key!r}: {example.former!r} -> {example.new!r}\n"
        for each in found
        for example in each.examples
    )
    if switch:
        table += f"switched: {former} is stopped and must stay so; now: headwater stream run {path}\n"
    document = {"former": former, "new": app.name, "switched": switch, "outputs": [_document(each) for each in found]}
    emit(output, document, table)
    return 0


def _document(found: "Comparison") -> dict[str, Any]:
    examples = []
    for example in found.examples:
        shown: dict[str, Any] = {"partition": example.partition}
        put_bytes(shown, "key", example.key)
        put_bytes(shown, "former", example.former)
        put_bytes(shown, "new", example.new)
        examples.append(shown)
    return {
        "topic": found.topic,
        "equal": found.equal,
        "changed": found.changed,
        "missing": found.missing,
        "added": found.added,
        "keyless": found.keyless,
        "examples": examples,
    }
