"""Whether compiled modules may be taken: HEADWATER_PURE=1 in the environment asks for their twins in Python."""

import os


def is_pure_wanted() -> bool:
    return os.environ.get("HEADWATER_PURE", "") not in ("", "0")
