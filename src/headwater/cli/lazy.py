"""A click group that imports a command's module only when that command runs or is asked for its own help."""

from importlib import import_module
from typing import NamedTuple

import click


class LazyCommand(NamedTuple):
    module: str
    attribute: str
    help: str  # said by the group's own help, so that it needs no import


class LazyGroup(click.Group):
    """`lazy` maps names to where they are defined. Commands added in the usual way work beside them."""

    def __init__(self, *args: object, lazy: dict[str, LazyCommand], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = self._lazy.get(cmd_name)
        if found is None:
            return super().get_command(ctx, cmd_name)
        command = getattr(import_module(found.module), found.attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing and not args[0].startswith("-"):
            from difflib import get_close_matches

            close = get_close_matches(args[0], self.list_commands(ctx), n=2, cutoff=0.6)
            hint = f" Did you mean {' or '.join(close)}?" if close else ""
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = [
            (name, command.get_short_help_str(80))
            for name in super().list_commands(ctx)
            if (command := super(LazyGroup, self).get_command(ctx, name)) is not None
        ]
        rows = [(name, command.help) for name, command in self._lazy.items()]
        with formatter.section("Commands"):
            formatter.write_dl(sorted(rows + own) if own else rows)
