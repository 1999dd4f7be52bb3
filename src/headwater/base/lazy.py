"""Names of a package that load when they are first used, so that a program that needs one of them does not wait for
all.

    __getattr__, __dir__ = lazy_names(__name__, {"headwater.client.topic_frame": ("read",), ...})
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of the package. `homes`: the names by the module that has them."""
    home_of = {name: home for home, names in homes.items() for name in names}

    def load(name: str) -> Any:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(home), name)
        setattr(sys.modules[package], name, found)
        return found

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return load, names
