"""CRC-32C, from the `crc32c` package's C extension alone.

The package's own `__init__` reads its version from the installed metadata and imports a command line, which is about a
tenth of the broker's start-up time; the extension module beside it is all that we need.
"""

from importlib.machinery import ExtensionFileLoader, FileFinder, PathFinder
from importlib.util import module_from_spec
from typing import Protocol

from headwater.base.ports import Buffer


class Checksum(Protocol):
    def __call__(self, data: Buffer, value: int = 0, /) -> int:
        """Of `data`, or of all that `value` is the checksum of, and `data` behind it."""
        ...


def _load() -> Checksum:
    package = PathFinder.find_spec("crc32c")
    if package is not None:
        for folder in package.submodule_search_locations or ():
            spec = FileFinder(folder, _extension_loader()).find_spec("_crc32c")
            if spec is not None and spec.loader is not None:
                extension = module_from_spec(spec)
                spec.loader.exec_module(extension)
                function: Checksum = extension.crc32c
                return function
    from crc32c import crc32c as whole  # the layout is another one: take the package as it is

    return whole


def _extension_loader() -> tuple[type[ExtensionFileLoader], list[str]]:
    from importlib.machinery import EXTENSION_SUFFIXES

    return ExtensionFileLoader, EXTENSION_SUFFIXES


crc32c = _load()
