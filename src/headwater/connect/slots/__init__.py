"""Connector tasks in slots of a Spark query: `placement` decides (pure), `task_slots` is the worker's side, `slot_host`
a slot.
"""
