"""From statements to topologies: what exists (catalog), what a query means (analysis), and the `headwater.streams`
application it becomes.
"""
