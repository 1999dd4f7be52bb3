"""What a plain `pip install headwater` leaves out: said in a sentence, with the command that gets it, before anything
is begun that could not be carried out.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

from headwater.base.errors import UserError

STREAMS: Final = ("lmdb", "pyarrow", "numpy")  # what an application needs that runs; its tests need none of it
SPARK: Final = ("pyspark", "pandas", "pyarrow")


def require_extra(extra: str, what: str, packages: Sequence[str]) -> None:
    """`what`: who needs them, as the subject of a sentence."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        names = " and ".join([*([", ".join(missing[:-1])] if missing[1:] else []), missing[-1]])
        why = f"{names} {verb} not installed"
        raise UserError(f"{what} needs more packages", why, f"Run: pip install 'headwater[{extra}]'")
