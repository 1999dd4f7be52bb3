"""The options that every verb takes, and the way from them to an admin client.

A verb decorated with `client_options` gets one argument, `target`: it names the output and connects on first use, so
that a wrong argument is reported before anything is tried.
"""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headwater.base.redaction import assignments
from headwater.cli.output import OUTPUTS, emit
from headwater.cli.settings import ClientSettings, ConnectOptions, resolve

if TYPE_CHECKING:
    from headwater.client.admin import Admin

F = TypeVar("F", bound=Callable[..., Any])


class Target:
    """What a command talks to and how it answers. Owned by one run of one command."""

    def __init__(self, connect: ConnectOptions, output: str) -> None:
        self.connect = connect
        self.output = output
        self._settings: ClientSettings | None = None
        self._admin: Admin | None = None

    @property
    def settings(self) -> ClientSettings:
        if self._settings is None:
            self._settings = resolve(self.connect)
        return self._settings

    @property
    def admin(self) -> "Admin":
        if self._admin is None:
            from headwater.cli.connecting import open_admin

            self._admin = open_admin(self.settings)
        return self._admin

    def hurry(self, patience_ms: int) -> None:
        """For commands that tell what is wrong: a broker that is away is news, and nothing to wait for."""
        self._settings = self.settings._replace(api_timeout_ms=min(patience_ms, self.settings.api_timeout_ms))

    def emit(self, value: Any, table: str) -> None:
        emit(self.output, value, table)

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()


def output_option(function: F) -> F:
    return click.option(
        "-o", "--output", type=click.Choice(OUTPUTS), default="table", show_default=True, help="Shape of the result."
    )(function)


def connect_options(function: F, *short: str) -> F:
    """`--bootstrap-server`, `--command-config`, `--profile`, as separate arguments. `short`: also for the first."""
    for option in (
        click.option("--profile", metavar="NAME", help="A profile of ~/.config/headwater/profiles.toml."),
        click.option("--command-config", metavar="FILE", type=click.Path(dir_okay=False), help="Client properties."),
        click.option(
            *short,
            "--bootstrap-server",
            metavar="HOST:PORT[,...]",
            help="Brokers to ask first. [env: HEADWATER_BOOTSTRAP_SERVER; default: what `headwater up` started]",
        ),
    ):
        function = option(function)
    return function


def login_options(function: F) -> F:
    """`--command-config` and `--profile`: the login that a command of an HTTP door sends."""
    for option in (
        click.option("--profile", metavar="NAME", help="A profile of ~/.config/headwater/profiles.toml."),
        click.option(
            "--command-config", metavar="FILE", type=click.Path(dir_okay=False), help="Client properties: the login."
        ),
    ):
        function = option(function)
    return function


def client_options(function: F, *short: str) -> F:
    """`connect_options` and `-o`, put together into `target`, which is closed when the command ends."""

    @functools.wraps(function)
    def wrapper(
        *args: Any,
        bootstrap_server: str | None,
        command_config: str | None,
        profile: str | None,
        output: str = "table",
        **kwargs: Any,
    ) -> Any:
        target = Target(ConnectOptions(bootstrap_server, command_config, profile), output)
        try:
            return function(*args, target=target, **kwargs)
        finally:
            target.close()

    return connect_options(output_option(wrapper), *short)  # type: ignore[return-value]


def stream_options(function: F) -> F:
    """`client_options` with `-b` for `--bootstrap-server`, as `headwater stream run` has it."""
    return client_options(function, "-b")


def key_values(pairs: tuple[str, ...], option: str) -> dict[str, str]:
    """('a=1', 'b=') -> {'a': '1', 'b': ''}. What is wrong is not repeated: it may be a secret."""
    found, problem = assignments(pairs, option)
    if problem:
        raise click.BadParameter(problem, param_hint=option)
    return {key: value.strip() for key, value in found.items()}


data_dir_option = click.option(
    "--data-dir", metavar="DIR", type=click.Path(file_okay=False), help="Default: headwater in the user's data home."
)
