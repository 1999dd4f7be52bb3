"""Decisions of the controller over the cluster image: who leads, who is in sync, where replicas stand. Pure, but for
one driver.
"""
