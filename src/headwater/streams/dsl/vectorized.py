"""`@vectorized`: a function of Arrow arrays, for `map_values`, `filter` and `select`.

    @vectorized({"amount": float, "country": str})          # what is taken of each value
    def net(orders: pa.StructArray) -> pa.Array: ...

    orders.map_values(net)                                   # f(values); with two types f(keys, values)
    orders.select("customer", tax=tax(orders.amount))        # or called with columns

Types are said, not guessed: what a guess makes of a record would hang on its neighbours. Each result may depend on its
own record alone; then a record gives the same in a batch of thousands, which the lane makes, and by itself, as in the
test driver. Where a batch fails, its records are taken one by one, so that the one at fault is named.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import UserError
from headwater.streams.dsl.expressions import Column, column

if TYPE_CHECKING:
    import pyarrow as pa

_ALIASES: Final = {float: "float64", int: "int64", str: "string", bool: "bool", bytes: "binary"}

ArrowFunction = Callable[..., Any]


def vectorized(*takes: Any) -> "Callable[[ArrowFunction], Vectorized]":
    """The type of each argument: an Arrow type, or its name; `float`, `int`, `str`, `bool`, `bytes`; a dict of these
    for fields of the value.
    """
    if not takes or (len(takes) == 1 and callable(takes[0]) and not isinstance(takes[0], type)):
        raise UserError(
            "@vectorized needs the types of what its function takes",
            "guessed types would hang on the batch that a record is in",
            '@vectorized(float), or @vectorized({"amount": float})',
        )
    types = tuple(arrow_type(each) for each in takes)
    return lambda function: Vectorized(function, types)


def arrow_type(given: Any) -> "pa.DataType":
    import pyarrow as pa

    if isinstance(given, pa.DataType):
        return given
    if isinstance(given, dict):
        return pa.struct([(name, arrow_type(each)) for name, each in given.items()])
    name = _ALIASES.get(given) if isinstance(given, type) else given
    try:
        return pa.type_for_alias(name)
    except (ValueError, TypeError):
        raise UserError(
            f"{given!r} is no type of a column",
            "",
            "Give an Arrow type, its name, float, int, str, bool, bytes or a dict",
        ) from None


class Vectorized:
    """A function of as many Arrow arrays as there are types. Immutable."""

    def __init__(self, function: ArrowFunction, takes: "tuple[pa.DataType, ...]") -> None:
        self.function = function
        self.takes = takes
        self.name = getattr(function, "__name__", "a vectorized function")

    def __repr__(self) -> str:
        return f"<vectorized {self.name}>"

    def __call__(self, *arguments: Any) -> Any:
        """Of columns, a column; of arrays, what the function gives."""
        if not any(isinstance(each, Column) for each in arguments):
            return self.function(*arguments)
        self._check_count(len(arguments), "columns")
        columns = [column(each) for each in arguments]

        def evaluate(key: Any, value: Any) -> Any:
            return self.results([[each.evaluate(key, value)] for each in columns])[0]

        def evaluate_all(keys: list[Any], values: list[Any]) -> list[Any]:
            return self.results([each.evaluate_for(keys, values) for each in columns])

        return Column(evaluate, f"{self.name}({', '.join(each.text for each in columns)})", evaluate_all)

    def of_records(self, operator: str) -> Callable[[Any, Any], Any]:
        """As a function of key and value, one record at a time; its `evaluate_all` takes lists of them."""
        if len(self.takes) > 2:
            raise UserError(
                f"{self.name} takes {len(self.takes)} columns",
                f"{operator} has the value, or key and value",
                "Call it with columns in select",
            )
        with_keys = len(self.takes) == 2

        def call(key: Any, value: Any) -> Any:
            return self.results([[key], [value]] if with_keys else [[value]])[0]

        def evaluate_all(keys: list[Any], values: list[Any]) -> list[Any]:
            return self.results([keys, values] if with_keys else [values])

        call.evaluate_all = evaluate_all  # type: ignore[attr-defined]  # for the lane
        return call

    def results(self, columns: Sequence[list[Any]]) -> list[Any]:
        """As Python objects, one for each record."""
        import pyarrow as pa

        count = len(columns[0])
        if not count:
            return []
        found = self.function(*(_array(cells, kind) for cells, kind in zip(columns, self.takes, strict=True)))
        if not isinstance(found, pa.Array | pa.ChunkedArray):
            raise TypeError(f"{self.name} gave {type(found).__name__}: a vectorized function gives an Arrow array")
        if len(found) != count:
            raise ValueError(f"{self.name} gave {len(found)} results for {count} records")
        given: list[Any] = found.to_pylist()
        return given

    def _check_count(self, count: int, what: str) -> None:
        if count != len(self.takes):
            raise UserError(f"{self.name} takes {len(self.takes)} {what}, not {count}")


def _array(cells: list[Any], kind: "pa.DataType") -> "pa.Array":
    """None is null. Of structs, fields are taken from dicts or objects; one that is missing is null, and others are
    left out.
    """
    import pyarrow as pa

    if not pa.types.is_struct(kind):
        return pa.array(cells, kind)
    fields = [kind.field(number) for number in range(kind.num_fields)]
    columns = [_array([_field(cell, each.name) for cell in cells], each.type) for each in fields]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=pa.array([cell is None for cell in cells]))


def _field(owner: Any, name: str) -> Any:
    if isinstance(owner, dict):
        return owner.get(name)
    return getattr(owner, name, None)
