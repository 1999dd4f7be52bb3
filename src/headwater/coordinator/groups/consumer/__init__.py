"""Groups of the consumer protocol (KIP-848): the coordinator assigns, and members move towards the target one by one.

Three epochs: the group's grows when its members or topics change; the assignment's follows it when a target was
computed; a member's follows that when it has given up all that the target takes from it. `engine` is the way in.
"""
