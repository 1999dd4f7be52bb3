"""`headwater stream test`: an application and cases for it, without a broker."""

import json
from pathlib import Path

import click

from headwater.cli.options import output_option
from headwater.cli.output import emit

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("test")
@click.argument("path", metavar="FILE", type=_FILE)
@click.argument("cases", metavar="CASE...", nargs=-1, type=_FILE, required=True)
@click.option("--partitions", type=click.IntRange(1), default=1, show_default=True, help="Of every topic.")
@click.option("--show", is_flag=True, help="Print all outputs, also where they are as expected.")
@output_option
def test(path: Path, cases: tuple[Path, ...], partitions: int, show: bool, output: str) -> int:
    """Run an application over cases, without a broker: records in, and what must come out.

    \b
    {"topic": "orders", "key": "1", "value": {"amount": 200}, "timestamp": 1000}
    {"advance_ms": 60000}
    {"expect": "revenue", "key": "ann", "value": 200}
    {"expect_none": "revenue"}
    {"expect_store": "totals", "key": "ann", "value": 200}

    One JSON object a line, one file a case; each begins with empty stores. A case that expects nothing prints its
    outputs.
    """
    from headwater.cli.stream_files import load_app
    from headwater.streams.testing.cases import parse, run

    app = load_app(path)
    documents, lines = [], []
    for case in cases:
        steps = parse(_text(case), case.name)
        with app.test(partitions=partitions) as driver:
            outcome = run(driver, steps)
        if show or not outcome.expectations:
            lines += [json.dumps(row, ensure_ascii=False) for row in outcome.outputs]
        lines += [f"{case.name}: {difference}" for difference in outcome.differences]
        if outcome.expectations:
            lines.append(f"{case.name}: {'failed' if outcome.differences else 'ok'}")
        documents.append(
            {
                "case": case.name,
                "ok": not outcome.differences,
                "differences": outcome.differences,
                "outputs": outcome.outputs,
            }
        )
    emit(output, documents, "".join(f"{line}\n" for line in lines))
    return 0 if all(document["ok"] for document in documents) else 1


def _text(case: Path) -> str:
    from headwater.base.errors import UserError

    try:
        return case.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{case} is no text in UTF-8", f"byte {error.start} is none: {error.reason}") from None
