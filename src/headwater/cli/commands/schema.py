"""`headwater schema`: look at the schemas of a registry, register and compare them, check one before it is merged."""

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from headwater.base.errors import UserError
from headwater.cli.options import login_options, output_option
from headwater.cli.output import emit, render_table
from headwater.cli.registry_calls import RegistryCalls, encoded, find_registry
from headwater.cli.schema_diff import schema_diff
from headwater.cli.settings import ConnectOptions

_ENDINGS = {".avsc": "AVRO", ".proto": "PROTOBUF"}


@click.group()
def schema() -> None:
    """List, register, check, compare and delete schemas."""


def registry_options(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, url: str | None, command_config: str | None, profile: str | None, **kwargs: Any) -> Any:
        registry = RegistryCalls(*find_registry(url, ConnectOptions(None, command_config, profile)))
        return function(*args, registry=registry, **kwargs)

    option = click.option(
        "--url", metavar="URL", help="The registry.  [default: the profile's, or that of `headwater up`]"
    )
    return option(login_options(output_option(wrapper)))


type_option = click.option(
    "--type",
    "schema_type",
    type=click.Choice(["AVRO", "JSON", "PROTOBUF"], case_sensitive=False),
    help="Default: by the file's ending (.avsc, .proto), else AVRO.",
)
reference_option = click.option(
    "--reference", "references", metavar="NAME=SUBJECT:VERSION", multiple=True, help="A schema that this one refers to."
)


@schema.command("list")
@click.option("--prefix", default="", help="Only subjects that begin so.")
@click.option("--deleted", is_flag=True, help="Soft-deleted ones too.")
@registry_options
def list_(registry: RegistryCalls, prefix: str, deleted: bool, output: str) -> None:
    """List subjects with their versions."""
    named = encoded(prefix if prefix.startswith(":") else f":*:{prefix}")
    latest: dict[str, dict[str, Any]] = {}
    offset = 0
    while page := registry.call("GET", f"/schemas?subjectPrefix={named}&deleted={deleted}&limit=1000&offset={offset}"):
        for each in page:
            before = latest.get(each["subject"], {}).get("versions", [])
            latest[each["subject"]] = {**each, "versions": [*before, each["version"]]}
        offset += len(page)
    value = [
        {"subject": name, "versions": each["versions"], "id": each["id"], "type": each.get("schemaType", "AVRO")}
        for name, each in latest.items()
    ]
    rows = [[each["subject"], each["versions"], each["id"], each["type"]] for each in value]
    emit(output, value, render_table(["SUBJECT", "VERSIONS", "LATEST ID", "TYPE"], rows) if rows else "")


@schema.command()
@click.argument("subject", required=False)
@click.argument("version", default="latest")
@click.option("--id", "id_", type=click.IntRange(0), help="By its id, in place of a subject.")
@registry_options
def get(registry: RegistryCalls, subject: str | None, version: str, id_: int | None, output: str) -> None:
    """Show a schema: of a subject (VERSION: latest), or of an id."""
    if (subject is None) == (id_ is None):
        raise click.UsageError("Name a subject, or an id with --id")
    path = f"/schemas/ids/{id_}" if subject is None else f"/subjects/{encoded(subject)}/versions/{encoded(version)}"
    found = registry.call("GET", path)
    emit(output, found, _pretty(found["schema"]) + "\n")


@schema.command()
@click.argument("subject")
@click.argument("file", type=click.Path(allow_dash=True))
@type_option
@reference_option
@click.option("--normalize", is_flag=True, help="Differences that mean nothing do not make another schema.")
@registry_options
def register(
    registry: RegistryCalls,
    subject: str,
    file: str,
    schema_type: str | None,
    references: tuple[str, ...],
    normalize: bool,
    output: str,
) -> None:
    """Register the schema in FILE (- for stdin) under a subject."""
    document = _document(file, schema_type, references)
    found = registry.call("POST", f"/subjects/{encoded(subject)}/versions?normalize={normalize}", document)
    version = found.get("version")
    emit(output, found, f"{subject} version {version} has the id {found['id']}\n")


@schema.command()
@click.argument("subject")
@click.argument("file", type=click.Path(allow_dash=True))
@click.option(
    "--version", default="all", help="Against this one, `latest`, or all that the level asks for.  [default: all]"
)
@type_option
@reference_option
@registry_options
def check(
    registry: RegistryCalls,
    subject: str,
    file: str,
    version: str,
    schema_type: str | None,
    references: tuple[str, ...],
    output: str,
) -> int:
    """Whether the schema in FILE could be registered. Exit code 1 if not: for a check before a merge."""
    document = _document(file, schema_type, references)
    path = f"/compatibility/subjects/{encoded(subject)}/versions"
    path += "" if version == "all" else f"/{encoded(version)}"
    status, found = registry.try_call("POST", f"{path}?verbose=true", document)
    if status == 404 and isinstance(found, dict) and found.get("error_code") == 40401:
        found = {"is_compatible": True, "messages": []}  # a new subject: nothing to be compatible with
    elif status >= 400:
        raise UserError(str(found.get("message")), f"error {found.get('error_code')} of the registry")
    if found["is_compatible"]:
        emit(output, found, f"compatible with {subject}\n")
        return 0
    reasons = "".join(f"  {message}\n" for message in found.get("messages") or [])
    emit(output, found, f"not compatible with {subject}:\n{reasons}")
    return 1


@schema.command()
@click.argument("subject")
@click.argument("old")
@click.argument("new", default="latest")
@registry_options
def diff(registry: RegistryCalls, subject: str, old: str, new: str, output: str) -> None:
    """What changed between two versions, field by field. OLD and NEW: numbers, latest, or a file."""
    texts = [_text_of(registry, subject, each) for each in (old, new)]
    found = schema_diff(*texts)
    emit(output, found, "".join(f"{line}\n" for line in found) or "no difference\n")


@schema.command()
@click.argument("subject")
@click.option("--version", help="Only this one, or `latest`.")
@click.option("--permanent", is_flag=True, help="For good; it must have been deleted before.")
@registry_options
def delete(registry: RegistryCalls, subject: str, version: str | None, permanent: bool, output: str) -> None:
    """Delete a subject, or one version of it: it is not listed any more, and its id still stands for it."""
    path = f"/subjects/{encoded(subject)}" + (f"/versions/{encoded(version)}" if version else "")
    found = registry.call("DELETE", f"{path}?permanent={permanent}")
    versions = found if isinstance(found, list) else [found]
    how = "for good" if permanent else "(its ids are still known; --permanent forgets them)"
    emit(output, versions, f"Deleted {subject} versions {', '.join(map(str, versions))} {how}\n")


@schema.command()
@click.argument("subject", required=False)
@click.option("--set", "level", metavar="LEVEL", help="NONE, BACKWARD, FORWARD, FULL, or one of them with _TRANSITIVE.")
@click.option("--unset", is_flag=True, help="What holds for all holds for the subject again.")
@registry_options
def compat(registry: RegistryCalls, subject: str | None, level: str | None, unset: bool, output: str) -> None:
    """Show or set the compatibility level: of a subject, or of all."""
    path = "/config" + (f"/{encoded(subject)}" if subject else "")
    if unset:
        registry.call("DELETE", path)
    elif level:
        registry.call("PUT", path, {"compatibility": level})
    found = registry.call("GET", f"{path}?defaultToGlobal=true")
    emit(output, found, f"{found['compatibilityLevel']}\n")


@schema.command()
@click.argument("subject", required=False)
@click.option("--set", "wanted", metavar="MODE", help="READWRITE, READONLY or IMPORT.")
@click.option("--unset", is_flag=True, help="What holds for all holds for the subject again.")
@click.option("--force", is_flag=True, help="Import mode though there are schemas.")
@registry_options
def mode(
    registry: RegistryCalls, subject: str | None, wanted: str | None, unset: bool, force: bool, output: str
) -> None:
    """Show or set the mode: of a subject, or of all."""
    path = "/mode" + (f"/{encoded(subject)}" if subject else "")
    if unset:
        registry.call("DELETE", path)
    elif wanted:
        registry.call("PUT", f"{path}?force={force}", {"mode": wanted})
    found = registry.call("GET", f"{path}?defaultToGlobal=true")
    emit(output, found, f"{found['mode']}\n")


def _document(file: str, schema_type: str | None, references: tuple[str, ...]) -> dict[str, Any]:
    kind = (schema_type or _ENDINGS.get(Path(file).suffix, "AVRO")).upper()
    return {"schema": _read(file), "schemaType": kind, "references": [_reference(each) for each in references]}


def _reference(text: str) -> dict[str, Any]:
    name, _, rest = text.partition("=")
    subject, _, version = rest.rpartition(":")
    if not name or not subject or not (version.isascii() and version.isdigit()):
        raise click.BadParameter(f"{text!r} is not NAME=SUBJECT:VERSION", param_hint="--reference")
    return {"name": name, "subject": subject, "version": int(version)}


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise UserError(f"Cannot read the schema in {file}", str(problem)) from None


def _text_of(registry: RegistryCalls, subject: str, which: str) -> str:
    if which == "latest" or (which.isascii() and which.isdigit()):
        text: str = registry.call("GET", f"/subjects/{encoded(subject)}/versions/{which}?deleted=true")["schema"]
        return text
    return _read(which)


def _pretty(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text.rstrip("\n")
