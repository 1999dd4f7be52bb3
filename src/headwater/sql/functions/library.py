"""Everything that statements may call. Importing this module declares the functions of all others."""

from headwater.sql.functions import (  # noqa: F401  each declares its functions
    binary,
    collections,
    dates,
    json_texts,
    lambdas,
    masks,
    nulls,
    numbers,
    strings,
    urls,
)
from headwater.sql.functions.aggregates import AGGREGATES
from headwater.sql.functions.registry import SCALARS
from headwater.sql.functions.tables import TABLE_FUNCTIONS

__all__ = ["AGGREGATES", "SCALARS", "TABLE_FUNCTIONS"]
