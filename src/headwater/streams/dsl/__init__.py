"""What people write: App, Stream, Table and what they are grouped and windowed into. Each call adds a node to the
logical graph of `plan`.
"""
