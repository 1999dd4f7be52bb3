"""State of a task: key-value, window, session and versioned stores on ordered bytes, in memory or in LMDB.

The engine sees the protocols of `port`; `build` makes a store from its description on the state of a task.
"""
