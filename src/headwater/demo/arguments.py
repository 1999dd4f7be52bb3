"""What `python -m headwater.demo` takes, and where it keeps things."""

import argparse
import os
from pathlib import Path


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m headwater.demo", description="Website activity through Spark.")
    parser.add_argument("--directory", help="where data, checkpoints and results are kept")
    parser.add_argument("--rate", type=float, default=300, help="page views a second (default 300)")
    parser.add_argument("--seconds", type=float, help="end by itself after so long")
    return parser.parse_args()


def directory_of(arguments: argparse.Namespace) -> Path:
    return Path(arguments.directory or _home()).absolute()


def log_of(directory: Path) -> Path:
    """What Spark and the demo's own process write to their standard errors."""
    return directory / "spark.log"


def _home() -> Path:
    from headwater.spark.sessions import data_home

    return data_home(os.environ) / "demo"
