"""`headwater schema`: look at the schemas of a registry, register and compare them, check one before it is merged."""

import functools
import json
from collections.abc import Callable
from typing import Any

import click

from headwater.base.errors import UserError
from headwater.cli.options import login_options, output_option
from headwater.cli.output import emit, render_table
from headwater.cli.registry_calls import RegistryCalls, encoded, find_registry, registry_error
from headwater.cli.schema_diff import schema_diff
from headwater.cli.schema_files import comparable, guessed_type, read_schema
from headwater.cli.schema_reasons import reasons
from headwater.cli.settings import ConnectOptions


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
    help="Default: by the file's ending (.avsc, .proto), else by what it says.",
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
    named = encoded(prefix if prefix.startswith(":") or registry.is_in_context else f":*:{prefix}")
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
    name = encoded(subject)
    known, _ = registry.try_call("POST", f"/subjects/{name}?normalize={normalize}", document)
    status, found = registry.try_call("POST", f"/subjects/{name}/versions?normalize={normalize}", document)
    if status == 409:
        raise _incompatible(registry, subject, file, document) or registry_error(status, found)
    if status >= 400:
        raise registry_error(status, found)
    before = " (registered before)" if known == 200 else ""
    emit(output, found, f"{subject} version {found.get('version')} has the id {found['id']}{before}\n")


def _incompatible(registry: RegistryCalls, subject: str, file: str, document: dict[str, Any]) -> UserError | None:
    """With the reasons one by one, if the registry tells them."""
    path = f"/compatibility/subjects/{encoded(subject)}/versions?verbose=true"
    status, checked = registry.try_call("POST", path, document)
    messages = checked.get("messages") if status == 200 and isinstance(checked, dict) else None
    if not messages:
        return None
    why, against = reasons(messages)
    return UserError(
        f"The schema in {file} is not compatible with {subject}" + (f" ({against})" if against else ""),
        "; ".join(why),
        f"`headwater schema diff {subject} latest {file}` shows what changed, `headwater schema compat {subject}` the level",
    )


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
        raise registry_error(status, found)
    if found["is_compatible"]:
        emit(output, found, f"compatible with {subject}\n")
        return 0
    why, against = reasons(found.get("messages") or [])
    heading = f"not compatible with {subject} ({against})" if against else f"cannot be registered under {subject}"
    emit(output, found, f"{heading}:\n" + "".join(f"  {line}\n" for line in why))
    return 1


@schema.command()
@click.argument("subject")
@click.argument("old")
@click.argument("new", default="latest")
@registry_options
def diff(registry: RegistryCalls, subject: str, old: str, new: str, output: str) -> None:
    """What changed between two versions, field by field. OLD and NEW: numbers, latest, or a file."""
    registered = {each: _registered(registry, subject, each) for each in (old, new) if _is_version(each)}
    kind = next((str(each.get("schemaType") or "AVRO") for each in registered.values()), None)
    texts = [str(registered[each]["schema"]) if each in registered else _file_text(each, kind) for each in (old, new)]
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
    if level and unset:
        raise click.UsageError("--set and --unset exclude each other")
    if unset:
        _unset(registry, path)
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
    if wanted and unset:
        raise click.UsageError("--set and --unset exclude each other")
    if unset:
        _unset(registry, path)
    elif wanted:
        registry.call("PUT", f"{path}?force={force}", {"mode": wanted})
    found = registry.call("GET", f"{path}?defaultToGlobal=true")
    emit(output, found, f"{found['mode']}\n")


def _unset(registry: RegistryCalls, path: str) -> None:
    """Nothing that was set is nothing to remove: what holds for all holds already."""
    status, answer = registry.try_call("DELETE", path)
    if status >= 400 and not (isinstance(answer, dict) and answer.get("error_code") == 40401):
        raise registry_error(status, answer)


def _document(file: str, given_type: str | None, references: tuple[str, ...]) -> dict[str, Any]:
    named = [_reference(each) for each in references]
    text = read_schema(file)
    kind = (given_type or guessed_type(file, text)).upper()
    return {"schema": text, "schemaType": kind, "references": named}


def _reference(text: str) -> dict[str, Any]:
    name, _, rest = text.partition("=")
    subject, _, version = rest.rpartition(":")
    if not name or not subject or not (version.isascii() and version.isdigit()):
        raise click.BadParameter(f"{text!r} is not NAME=SUBJECT:VERSION", param_hint="--reference")
    return {"name": name, "subject": subject, "version": int(version)}


def _is_version(text: str) -> bool:
    return text == "latest" or (text.isascii() and text.isdigit())


def _registered(registry: RegistryCalls, subject: str, version: str) -> dict[str, Any]:
    found: dict[str, Any] = registry.call("GET", f"/subjects/{encoded(subject)}/versions/{version}?deleted=true")
    return found


def _file_text(file: str, kind: str | None) -> str:
    text = read_schema(file)
    return text if kind is None else comparable(file, text, kind)


def _pretty(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text.rstrip("\n")
