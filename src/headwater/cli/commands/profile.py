"""`headwater profile`: clusters under a name, with their login and doors. A password is never an argument, and never
shown.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from headwater.base.errors import UserError
from headwater.base.redaction import without_login
from headwater.cli import keyrings, profiles
from headwater.cli.options import output_option
from headwater.cli.output import emit, render_pairs, render_table

_MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
_MODULES: Final = {"PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule"}
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_SHOWN: Final = ("security.protocol", "sasl.mechanism", "ssl.truststore.location", "ssl.ca.location", "sasl.username")
_HIDDEN: Final = "[hidden]"


@click.group()
def profile() -> None:
    """Keep clusters under a name: address, login and doors. Commands use the current one."""


@profile.command()
@click.argument("name")
@click.option("--bootstrap-server", metavar="HOST:PORT[,...]", required=True, help="Brokers to ask first.")
@click.option("--username", help="Log in as this user; the password is asked for without echo.")
@click.option("--password-stdin", is_flag=True, help="Read the password from stdin: its only line.")
@click.option(
    "--mechanism", type=click.Choice(_MECHANISMS, case_sensitive=False), default="SCRAM-SHA-512", show_default=True
)
@click.option(
    "--tls/--no-tls", default=True, show_default=True, help="Whether the brokers' listener has TLS; with a login only."
)
@click.option(
    "--ca-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Whose certificates are trusted: PEM.",
)
@click.option(
    "--command-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Client properties, copied: any login.",
)
@click.option("--keyring", is_flag=True, help="Keep the login in the system's keyring instead of a file.")
@click.option("--schema-registry-url", metavar="URL")
@click.option("--connect-url", metavar="URL")
@click.option("--sql-url", metavar="URL")
@click.option("--force", is_flag=True, help="Also where there is one of that name.")
@click.option("--use", "is_used", is_flag=True, help="Make it the current one, as `headwater profile use` does.")
@output_option
def create(
    name: str,
    bootstrap_server: str,
    username: str | None,
    password_stdin: bool,
    mechanism: str,
    tls: bool,
    ca_file: Path | None,
    command_config: Path | None,
    keyring: bool,
    force: bool,
    is_used: bool,
    output: str,
    **doors: str | None,
) -> None:
    """Make a profile. Commands go on with what they use until `headwater profile use`, or with --use."""
    profiles.check_name(name)
    if command_config is not None and (username is not None or ca_file is not None):
        raise click.UsageError("--command-config holds the login and what is trusted: name one or the other")
    known = profiles.read_profiles()
    if name in known.named and not force:
        raise UserError(f"There is a profile {name!r} already", "", "Use --force, or `headwater profile delete` first")
    made = {"bootstrap_server": bootstrap_server}
    made |= {door: profiles.check_url(url) for door, url in doors.items() if url}
    if command_config is not None:
        from headwater.cli.settings import read_command_config

        text, _ = read_command_config(str(command_config))  # no command could log in by what cannot be read
    else:
        password = _password(password_stdin) if username is not None else ""
        text = profiles.properties_text(login_properties(username, password, mechanism.upper(), tls, ca_file))
    if keyring and not text:
        raise click.UsageError("--keyring keeps a login: name --username, --ca-file or --command-config")
    path = profiles.secrets_file(name)
    if keyring:
        made["keyring"] = profiles.new_entry(name)
        keyrings.keep(made["keyring"], text)
    elif text:
        profiles.write_private(path, text)
        made["command_config"] = str(path)
    current = name if is_used else known.current
    named = {**known.named, name: made}
    profiles.write_profiles(profiles.Profiles(current, named))
    _forget_login(known.named.get(name, {}), named, path)
    is_current = current == name
    said = (
        "the current one" if is_current else f"for --profile {name}, or all commands by `headwater profile use {name}`"
    )
    emit(output, {"name": name, "current": is_current}, f"made the profile {name}, {said}\n")


def _forget_login(former: Mapping[str, str], left: Mapping[str, Mapping[str, str]], path: Path) -> None:
    """The login of a profile that was replaced or deleted stays nowhere, unless another one uses it. A keyring that
    does not answer keeps nobody from that: its owner is told what to take out.
    """
    if not any(each.get("command_config") == str(path) for each in left.values()):
        path.unlink(missing_ok=True)
    entry = former.get("keyring")
    if entry is None or any(each.get("keyring") == entry for each in left.values()):
        return
    try:
        keyrings.forget(entry)
    except UserError as problem:
        click.echo(f"warning: the login stays in the system's keyring, as {entry!r} of headwater: {problem}", err=True)


def login_properties(
    user: str | None, password: str, mechanism: str, tls: bool, ca_file: Path | None
) -> dict[str, str]:
    """Pure. Raises UserError."""
    trusted = {"ssl.truststore.location": str(ca_file.absolute())} if ca_file is not None else {}
    if user is None:
        return {"security.protocol": "SSL", **trusted} if trusted else {}
    if any(each in '"\\' or not each.isprintable() for each in user + password):
        raise UserError("A user or password with a quote, a backslash or a control character cannot be kept")
    module = _MODULES.get(mechanism, _SCRAM)
    return {
        "security.protocol": "SASL_SSL" if tls else "SASL_PLAINTEXT",
        **trusted,
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
    }


def _password(from_stdin: bool) -> str:
    text = sys.stdin.readline().rstrip("\r\n") if from_stdin else click.prompt("Password", hide_input=True, err=True)
    if not text:
        raise UserError("There is no password", "stdin is empty" if from_stdin else "nothing was typed")
    return str(text)


@profile.command()
@click.argument("name")
@output_option
def use(name: str, output: str) -> None:
    """Make a profile the current one."""
    known = profiles.read_profiles()
    _of(known, name)
    profiles.write_profiles(known._replace(current=name))
    emit(output, {"name": name, "current": True}, f"the current profile is {name}\n")


@profile.command("list")
@output_option
def list_profiles(output: str) -> None:
    """List profiles; the current one has a star."""
    known = profiles.read_profiles()
    value = [
        {"name": name, "current": name == known.current, **_document(each, ask_keyring=False)}
        for name, each in sorted(known.named.items())
    ]
    rows = [
        [
            "*" if each["current"] else "",
            each["name"],
            each["bootstrap_server"],
            each["user"] or "",
            each["login"] or "",
        ]
        for each in value
    ]
    emit(output, value, render_table(["", "PROFILE", "BOOTSTRAP SERVER", "USER", "LOGIN"], rows) if rows else "")


@profile.command()
@click.argument("name", required=False)
@output_option
def show(name: str | None, output: str) -> None:
    """Show a profile, or the current one. Secrets stay hidden."""
    known = profiles.read_profiles()
    wanted = name or known.current
    if wanted is None:
        hint = (
            "headwater profile use NAME"
            if known.named
            else "headwater profile create NAME --bootstrap-server HOST:PORT"
        )
        raise UserError("There is no current profile", f"there are: {', '.join(sorted(known.named)) or 'none'}", hint)
    value = {"name": wanted, "current": wanted == known.current, **_document(_of(known, wanted))}
    pairs = [
        (key.replace("_", " "), str(each)) for key, each in value.items() if key != "settings" and each is not None
    ]
    pairs += list(value["settings"].items())
    emit(output, value, render_pairs(pairs))


@profile.command()
@click.argument("name")
@output_option
def delete(name: str, output: str) -> None:
    """Delete a profile and its login."""
    known = profiles.read_profiles()
    found = _of(known, name)
    rest = {each: value for each, value in known.named.items() if each != name}
    profiles.write_profiles(profiles.Profiles(known.current if known.current != name else None, rest))
    _forget_login(found, rest, profiles.secrets_file(name))
    emit(output, {"name": name, "deleted": True}, f"deleted the profile {name}\n")


def _of(known: profiles.Profiles, name: str) -> dict[str, str]:
    found = known.named.get(name)
    if found is None:
        raise UserError(f"There is no profile {name!r}", f"there are: {', '.join(sorted(known.named)) or 'none'}")
    return found


def _document(found: dict[str, str], *, ask_keyring: bool = True) -> dict[str, Any]:
    """What may be seen: addresses, and of the login who it is for, that there is one, and where it is kept.

    A list does not ask the keyring, which may ask its owner for a password for each of its entries.
    """
    settings, user = _settings_of(found, ask_keyring)
    return {
        "bootstrap_server": found.get("bootstrap_server"),
        **{door: without_login(found[door]) if door in found else None for door in profiles.DOORS},
        "user": user,
        "login": "keyring" if "keyring" in found else "file" if "command_config" in found else None,
        "settings": {key: text if key in _SHOWN else _HIDDEN for key, text in sorted(settings.items())},
    }


def _settings_of(found: dict[str, str], ask_keyring: bool) -> tuple[dict[str, str], str | None]:
    from headwater.base.config.properties import parse_properties
    from headwater.base.security.jaas import parse_jaas

    try:
        if "keyring" in found:
            text = keyrings.find(found["keyring"]) if ask_keyring else ""
        elif "command_config" in found:
            text = Path(found["command_config"]).expanduser().read_text(encoding="utf-8")
        else:
            return {}, None
        settings = parse_properties(text)
        modules = parse_jaas(settings["sasl.jaas.config"]) if settings.get("sasl.jaas.config") else []
    except (OSError, ValueError, UserError):
        return {}, None
    named = [module.options["username"] for module in modules if "username" in module.options]
    return settings, named[0] if named else settings.get("sasl.username")
