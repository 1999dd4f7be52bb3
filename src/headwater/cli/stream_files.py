"""The application in a Python file, for the verbs of `headwater stream`."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.base.errors import UserError
    from headwater.streams.dsl.app import App


def load_app(path: Path) -> "App":
    """The application in a Python file: the only one, or the one that is named `app`."""
    import runpy
    import sys

    from headwater.base.errors import UserError
    from headwater.streams import App

    sys.path.insert(0, str(path.resolve().parent))
    try:
        defined = runpy.run_path(str(path))
    except UserError:
        raise
    except Exception as error:
        raise _broken(path, error) from error
    found = {name: value for name, value in defined.items() if isinstance(value, App)}
    if "app" in found:
        return found["app"]
    if len(set(map(id, found.values()))) != 1:
        raise UserError(
            f"{path} has no application to run" if not found else f"{path} has several applications",
            f"it defines {', '.join(sorted(found))}" if found else "it defines no App",
            "Name the one to run: app = App(...)",
        )
    return next(iter(found.values()))


def use_brokers(app: "App", typed: str | None) -> None:
    """Those that were typed, else those that the application names, else those that other commands would ask."""
    from headwater.cli.settings import ConnectOptions, resolve

    if typed is not None:
        app.brokers = typed
    elif not app.names_brokers:
        found = resolve(ConnectOptions())
        if not found.security:  # a login is said in the application: `client=`
            app.brokers = found.bootstrap


def _broken(path: Path, error: Exception) -> "UserError":
    """The stack from the file on: what is above it is not its author's."""
    import traceback

    from headwater.base.errors import UserError

    shown = traceback.TracebackException.from_exception(error)
    while shown.stack and shown.stack[0].filename != str(path):
        del shown.stack[0]
    return UserError(f"{path} cannot be run", "it raises an error while it is read", "".join(shown.format()).rstrip())
