"""Everything that talks to the outside: one module a source, and the loop that runs them.

What comes in is hostile until :mod:`collectors.decoding` made typed structs of it.
"""
