"""Which handler serves a request: `router.add("GET", "/subjects/{subject}/versions/{version}", handler)`.

A literal piece of a path wins over a parameter in the same place, and is given up again where it leads nowhere. HEAD is
served by what serves GET. A path that is known for other methods is a 405 that names them.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from headwater.web.messages import HttpError, Request, Response

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


@dataclass(slots=True)
class _Node:
    literals: dict[str, "_Node"] = field(default_factory=dict)
    parameter: "_Node | None" = None
    routes: dict[str, tuple[Handler, tuple[str, ...]]] = field(
        default_factory=dict
    )  # method -> handler, parameter names


class Router:
    def __init__(self) -> None:
        self._root = _Node()

    def add(self, method: str, pattern: str, handler: Handler) -> None:
        assert pattern.startswith("/"), pattern
        node, names = self._root, []
        for piece in pattern[1:].split("/") if pattern != "/" else []:
            if piece.startswith("{") and piece.endswith("}"):
                names.append(piece[1:-1])
                if node.parameter is None:
                    node.parameter = _Node()
                node = node.parameter
            else:
                node = node.literals.setdefault(piece, _Node())
        assert method not in node.routes, f"{method} {pattern} is there already"
        node.routes[method] = (handler, tuple(names))

    def route(self, request: Request) -> tuple[Handler, Request]:
        """The handler, and the request with the parameters of its path. Raises HttpError 404 or 405."""
        known: set[str] = set()
        found = self._find(self._root, request.segments, (), request.method, known)
        if found is None:
            if known:
                if "GET" in known:
                    known.add("HEAD")
                raise HttpError(405, "HTTP 405 Method Not Allowed", headers={"Allow": ", ".join(sorted(known))})
            raise HttpError(404, "HTTP 404 Not Found")
        (handler, names), values = found
        return handler, replace(request, parameters=dict(zip(names, values, strict=True)))

    def _find(
        self, node: _Node, segments: tuple[str, ...], values: tuple[str, ...], method: str, known: set[str]
    ) -> tuple[tuple[Handler, tuple[str, ...]], tuple[str, ...]] | None:
        if not segments:
            known.update(node.routes)
            route = node.routes.get(method) or (node.routes.get("GET") if method == "HEAD" else None)
            return None if route is None else (route, values)
        first, rest = segments[0], segments[1:]
        literal = node.literals.get(first)
        found = self._find(literal, rest, values, method, known) if literal is not None else None
        if found is None and node.parameter is not None:
            found = self._find(node.parameter, rest, (*values, first), method, known)
        return found
