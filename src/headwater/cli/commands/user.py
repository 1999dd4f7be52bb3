"""`headwater user`: the SCRAM users of a cluster. A password is never an argument, which other users of the machine
could read; it is asked for without echo or read from stdin, and does not leave this process: its salted hash does.
"""

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from headwater.cli.options import Target, client_options
from headwater.cli.output import render_table

if TYPE_CHECKING:
    from headwater.base.errors import KafkaError
    from headwater.client.admin.scram import ScramCredentialInfo

MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_PASSWORD_CHARACTERS_MAX: Final = 1024

name_argument = click.argument("name", metavar="USER")


@click.group()
def user() -> None:
    """List, add and delete users that log in by SCRAM."""


@user.command("list")
@click.argument("names", metavar="[USER]...", nargs=-1)
@client_options
def list_users(target: Target, names: tuple[str, ...]) -> int:
    """List users with their mechanisms: those named, or all."""
    from headwater.base.errors import KafkaError

    value: list[dict[str, Any]] = []
    failed = False
    for name, found in target.admin.describe_user_scram_credentials(list(names) or None).items():
        if isinstance(found, KafkaError):
            _complain(found, name)
            failed = True
            continue
        each = sorted(found, key=lambda info: info.mechanism)
        value.append(
            {
                "name": name,
                "mechanisms": [{"mechanism": _name_of(info), "iterations": info.iterations} for info in each],
            }
        )
    value.sort(key=lambda document: str(document["name"]))
    rows = [
        [document["name"], one["mechanism"], one["iterations"]] for document in value for one in document["mechanisms"]
    ]
    target.emit(value, render_table(["USER", "MECHANISM", "ITERATIONS"], rows))
    return 1 if failed else 0


@user.command()
@name_argument
@click.option(
    "-m",
    "--mechanism",
    "mechanisms",
    type=click.Choice(MECHANISMS, case_sensitive=False),
    multiple=True,
    help="By which the user logs in; may come twice.  [default: SCRAM-SHA-512]",
)
@click.option("--iterations", type=int, default=4096, show_default=True, help="How often the password is hashed.")
@click.option("--password-stdin", is_flag=True, help="Read the password from stdin: its only line.")
@client_options
def add(target: Target, name: str, mechanisms: tuple[str, ...], iterations: int, password_stdin: bool) -> int:
    """Add a user, or give one that there is a new password.

    The password is asked for twice, without echo, or read from stdin.
    """
    from headwater.base.security import scram
    from headwater.client.admin.scram import ScramMechanism, ScramUpsertion

    if not name:
        raise click.BadParameter("a user has a name", param_hint="USER")
    if not scram.ITERATIONS_MIN <= iterations <= scram.ITERATIONS_MAX:
        raise click.BadParameter(
            f"brokers take {scram.ITERATIONS_MIN} to {scram.ITERATIONS_MAX}", param_hint="--iterations"
        )
    password = _password_of_stdin() if password_stdin else _asked_password(name)
    wanted = [
        ScramUpsertion(name, password.encode(), ScramMechanism(scram.MECHANISMS[each].number), iterations)
        for each in dict.fromkeys(mechanisms or (MECHANISMS[-1],))
    ]
    return _report(target, name, "added", target.admin.alter_user_scram_credentials(wanted)[name])


@user.command()
@name_argument
@click.option(
    "-m",
    "--mechanism",
    "mechanisms",
    type=click.Choice(MECHANISMS, case_sensitive=False),
    multiple=True,
    help="Only this one; may come twice.  [default: all that the user has]",
)
@client_options
def delete(target: Target, name: str, mechanisms: tuple[str, ...]) -> int:
    """Delete a user: who is logged in stays so until the connection ends."""
    from headwater.base.errors import KafkaError
    from headwater.base.security import scram
    from headwater.client.admin.scram import ScramDeletion, ScramMechanism

    wanted = [ScramMechanism(scram.MECHANISMS[each].number) for each in dict.fromkeys(mechanisms)]
    if not wanted:
        found = target.admin.describe_user_scram_credentials([name])[name]
        if isinstance(found, KafkaError):
            return _report(target, name, "deleted", found)
        wanted = [info.mechanism for info in found]
    outcome = target.admin.alter_user_scram_credentials([ScramDeletion(name, each) for each in wanted])
    return _report(target, name, "deleted", outcome[name])


def _password_of_stdin() -> str:
    """The whole of stdin, which is one line."""
    text = sys.stdin.read(_PASSWORD_CHARACTERS_MAX + 2)
    line, _, rest = text.partition("\n")
    line = line.removesuffix("\r")
    if rest or not line or len(line) > _PASSWORD_CHARACTERS_MAX:
        raise click.UsageError(
            f"--password-stdin: stdin must be one line with the password, of 1 to {_PASSWORD_CHARACTERS_MAX} characters"
        )
    return line


def _asked_password(name: str) -> str:
    if not sys.stdin.isatty():
        raise click.UsageError("There is no terminal to ask for the password: use --password-stdin")
    answer = click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True)
    assert isinstance(answer, str)
    return answer


def _name_of(info: "ScramCredentialInfo") -> str:
    from headwater.base.security.scram import BY_NUMBER

    return BY_NUMBER[info.mechanism].value


def _complain(error: "KafkaError", name: str) -> None:
    from headwater.base.errors import ErrorCode, UserError
    from headwater.cli.explain import explain

    if error.code == ErrorCode.RESOURCE_NOT_FOUND:
        told = explain(
            UserError(f"There is no user {name!r}", "no SCRAM credential has that name", "See `headwater user list`")
        )
    else:
        told = explain(error)
    click.echo(told, err=True)


def _report(target: Target, name: str, done: str, error: "KafkaError | None") -> int:
    document: dict[str, Any] = {"name": name, "status": done}
    if error is not None:
        _complain(error, name)
        document = {"name": name, "status": "failed", "error": error.code.name, "message": error.message}
    target.emit([document], render_table(["USER", "STATUS"], [[name, document["status"]]]))
    return 0 if error is None else 1
