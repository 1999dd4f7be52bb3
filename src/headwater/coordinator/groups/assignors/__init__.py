"""Server-side assignors of consumer groups: pure functions from members, topics and what was assigned before to a new
target.
"""
