"""The driver's side of an application: its topics, its membership of the group, its producer ids."""
