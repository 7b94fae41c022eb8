"""A real local Ray cluster dressed as TPU hosts, a Kubernetes API that mirrors it, invented fleets.

It stands outside the product: nothing here is imported by the rooms that judge a cluster, and it
keeps its own tables of shapes, so that tests compare two independent readings of the facts.
"""
