"""Expressions: typed against the columns they read, and compiled to Python functions of a row. Pure."""
