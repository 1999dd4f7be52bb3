"""The driver's side of an application: its membership of the group, its producer ids, its slots and their tasks."""
