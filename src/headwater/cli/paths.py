"""Where things of this user live: XDG's directories, unless someone says otherwise."""

import os
from collections.abc import Mapping
from pathlib import Path


def default_data_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """$HEADWATER_DATA_DIR, else `headwater` in the user's data home."""
    if named := environment.get("HEADWATER_DATA_DIR"):
        return Path(named).expanduser()
    return _home(environment, "XDG_DATA_HOME", ".local/share") / "headwater"


def default_profiles_file(environment: Mapping[str, str] = os.environ) -> Path:
    return _home(environment, "XDG_CONFIG_HOME", ".config") / "headwater" / "profiles.toml"


def sql_history_file(environment: Mapping[str, str] = os.environ) -> Path:
    """$HEADWATER_SQL_HISTORY, else in the user's state home."""
    if named := environment.get("HEADWATER_SQL_HISTORY"):
        return Path(named).expanduser()
    return _home(environment, "XDG_STATE_HOME", ".local/state") / "headwater" / "sql_history"


def _home(environment: Mapping[str, str], variable: str, fallback: str) -> Path:
    """XDG says: a relative path there is to be ignored."""
    named = environment.get(variable, "")
    return Path(named) if os.path.isabs(named) else Path.home() / fallback
