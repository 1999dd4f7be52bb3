"""The config of a connector: the properties that every one has, and the check of all of it before anything starts."""
