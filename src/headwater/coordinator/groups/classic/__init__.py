"""Classic groups: members join, a leader among them assigns, the coordinator keeps time and hands the assignment
round.
"""
