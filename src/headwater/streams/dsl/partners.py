"""Whether what an operator was given beside its own stream or table is of the right kind, and of the same
application.
"""

from typing import TYPE_CHECKING, Any

from headwater.base.errors import UserError

if TYPE_CHECKING:
    from headwater.streams.dsl.app import App


def check_partner(app: "App", other: Any, kind: type, operator: str) -> None:
    """`kind` is a class of the DSL that has an `app`, as streams and tables have."""
    if not isinstance(other, kind):
        shown = type(other).__name__ if hasattr(other, "app") else repr(other)
        raise UserError(f"{operator} needs a {kind.__name__}", f"it was given {shown}")
    check_same_application(app, other.app, operator)  # type: ignore[attr-defined]  # see above


def check_same_application(app: "App", other: "App", operator: str) -> None:
    if other is not app:
        raise UserError(
            f"{operator} was given something of another App",
            f"{other.name} where the rest is of {app.name}",
            "an application is made from one App",
        )
