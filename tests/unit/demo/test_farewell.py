"""What the demo says at its end, for the shell."""

import shlex
from pathlib import Path

from headwater.demo.demo_run import _farewell


def test_the_command_to_begin_anew_removes_what_it_names_and_nothing_else() -> None:
    """`rm -r /home/me/My demo` removes two others."""
    for command in _farewell(Path("/home/me/My demo"), True).splitlines()[2:]:
        words = shlex.split(command, comments=True)
        assert next(word for word in words if "demo" in word).startswith("/home/me/My demo")
        assert words[0] != "rm" or words == ["rm", "-r", "/home/me/My demo"]
