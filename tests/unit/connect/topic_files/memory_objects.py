"""An object store in memory."""

from collections.abc import Callable


class Crash(BaseException):
    pass


class MemoryObjects:
    """`before` runs before each change, with its number."""

    def __init__(self, before: Callable[[int], None] = lambda _: None) -> None:
        self.there: dict[str, bytes] = {}
        self.changes, self.before = 0, before

    def _change(self) -> None:
        self.changes += 1
        self.before(self.changes)

    def keys(self, prefix: str) -> list[str]:
        return [key for key in self.there if not prefix or key.startswith(f"{prefix}/")]

    def get(self, key: str) -> bytes:
        if key not in self.there:
            raise FileNotFoundError(key)
        return self.there[key]

    def put(self, key: str, data: bytes) -> None:
        self._change()
        self.there[key] = data

    def delete(self, key: str) -> None:
        self._change()
        self.there.pop(key, None)
