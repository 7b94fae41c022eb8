"""The commands of the command line, one module each; ``slicewatch.py`` loads one when it is called.

Nothing here is imported before it is needed: a look at a bundle starts in well under a second.
"""
