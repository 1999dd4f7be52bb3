"""What every layer may use: ids, errors, config definitions, limits, and the ports to the outside world."""
