"""Commands that run a module of ours in a process of its own."""

import sys


def module_command(module: str, *arguments: str) -> list[str]:
    """Without the working directory on its path (`-P`), where `-m` puts it first: a `shutil.py` that lies there would
    run as ours, with the rights of whoever typed the command.
    """
    return [sys.executable, "-P", "-m", module, *arguments]
