"""`headwater stream list` and `headwater stream status`: ask the leads of applications that run on this machine."""

import time
from pathlib import Path
from typing import Any, Final

import click

from headwater.cli.options import output_option
from headwater.cli.output import emit, render_pairs, render_table

_state_dir = click.option(
    "--state-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default="headwater-state",
    show_default=True,
    help="Of the run: its lead leaves there how it is reached.",
)
_LOOK_HINT: Final = (
    "headwater stream list shows who runs; --state-dir names the run's directory, on the driver's machine"
)


@click.command("list")
@_state_dir
@output_option
def list_applications(state_dir: Path, output: str) -> None:
    """List the applications that have their state in a directory, and those of them that run.

    With Spark, on the machine of the driver.
    """
    from headwater.cli.lead_status import NotRunning, known_applications, status_of

    rows: list[dict[str, Any]] = []
    for name in known_applications(state_dir):
        found = status_of(state_dir, name)
        if isinstance(found, NotRunning):
            rows.append({"application": name, "state": "not running", "reason": found.reason})
        else:
            rows.append(found)
    table = render_table(
        ("APPLICATION", "STATE", "TASKS", "SLOTS", "LAG", "PROCESS"),
        [
            (
                each["application"],
                each["state"],
                len(each["tasks"]) if "tasks" in each else None,
                len(each["slots"]) if "slots" in each else None,
                _lag(each.get("tasks", [])),
                each.get("process"),
            )
            for each in rows
        ],
    )
    emit(output, rows, table if rows else f"no application has its state in {state_dir}\n")


@click.command()
@click.argument("application", metavar="APP")
@_state_dir
@output_option
def status(application: str, state_dir: Path, output: str) -> int:
    """Show how an application runs: which slot has which task, positions and lag, what is being restored, what went
    wrong.

    APP: its name, or its file. With Spark, on the machine of the driver. Exits with 1 if it does not run, or has
    failed.
    """
    from headwater.base.errors import UserError
    from headwater.cli.lead_status import NotRunning, status_of
    from headwater.cli.stream_files import load_app

    name = load_app(Path(application)).name if Path(application).is_file() else application
    found = status_of(state_dir, name)
    if isinstance(found, NotRunning):
        raise UserError(f"The application {name} does not run", found.reason, _LOOK_HINT)
    emit(output, found, _text(found))
    return 1 if found["state"] == "failed" else 0


def _text(found: dict[str, Any]) -> str:
    head = [
        ("application", found["application"]),
        ("state", found["state"]),
        ("process", found["process"]),
        ("records read", found["records"]),
        ("lag", _lag(found["tasks"])),
    ]
    if found["dropped"]:
        head.append(("left out", ", ".join(f"{reason}: {count}" for reason, count in found["dropped"].items())))
    if found["error"]:
        head.append(("error", found["error"]))
    pieces = [render_pairs(head)]
    if found["slots"]:
        rows = [(each["slot"], each["process"], len(each["tasks"]), each["records"]) for each in found["slots"]]
        pieces.append(render_table(("SLOT", "PROCESS", "TASKS", "RECORDS"), rows))
    if found["tasks"]:
        pieces.append(_tasks(found["tasks"]))
    if found["errors"]:
        errors = [(_time(each["at_ms"]), each["slot"], each["error"]) for each in found["errors"]]
        pieces.append(render_table(("TIME", "SLOT", "ERROR"), errors))
    return "\n".join(pieces)


def _tasks(tasks: list[dict[str, Any]]) -> str:
    rows: list[tuple[Any, ...]] = []
    for task in tasks:
        copies = [f"{each['slot']}:{'?' if each['lag'] is None else each['lag']}" for each in task["standbys"]]
        first = (task["task"], task["slot"], _state(task), copies or None)
        inputs: list[tuple[Any, ...]] = [
            (f"{each['topic']}-{each['partition']}", each["position"], each["end"], each["lag"])
            for each in task["inputs"]
        ]
        for place, each in enumerate(inputs or [(None, None, None, None)]):
            rows.append((*(first if place == 0 else ("", "", "", "")), *each))
    return render_table(("TASK", "SLOT", "STATE", "STANDBYS:LAG", "INPUT", "POSITION", "END", "LAG"), rows)


def _state(task: dict[str, Any]) -> str:
    if task["state"] != "restoring":
        return str(task["state"])
    total = task["restore_offsets"]
    share = f"{100 * task['restored_offsets'] // total}%" if total else "0%"
    return f"restoring {share} ({task['restored_offsets']} of {total} offsets)"


def _lag(tasks: list[dict[str, Any]]) -> int | None:
    lags = [task["lag"] for task in tasks]
    return sum(lags) if lags and None not in lags else None


def _time(at_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_ms / 1000))
