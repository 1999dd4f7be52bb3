"""The coordinators as pure cores: (request, state, now) -> effects. No socket, no clock, no log: the broker has
those.
"""
