"""A task: records in; outputs, changelog records and positions out. One file per operator; no clock, no socket, no
thread. Pure.
"""
