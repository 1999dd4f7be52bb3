"""Who gets which partition in a classic group: `spec` (what an assignor is), the built-in ones, and the bytes that
members of a group exchange (`formats`). Pure.
"""
