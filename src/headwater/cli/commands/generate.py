"""`headwater generate`: files for other programs. So far: shell completion."""

import click

_SHELLS = ("bash", "zsh", "fish")


@click.group()
def generate() -> None:
    """Write files for other programs."""


@generate.command()
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Write the completion script for a shell.

    \b
    bash:  headwater generate completion bash > ~/.local/share/bash-completion/completions/headwater
    zsh:   headwater generate completion zsh > ~/.zfunc/_headwater      (with ~/.zfunc in $fpath)
    fish:  headwater generate completion fish > ~/.config/fish/completions/headwater.fish
    """
    from click.shell_completion import get_completion_class

    from headwater.cli.root import cli

    found = get_completion_class(shell)
    assert found is not None
    complete = found(cli, {}, "headwater", "_HEADWATER_COMPLETE")
    # Not `complete.source()`: for bash that looks at the version of the bash that runs here, which need not be there.
    click.echo(complete.source_template % complete.source_vars())
