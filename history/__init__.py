"""What was: changes between looks, and looks to go back to.

``picture``, ``changes``, ``spans`` and ``memory`` are pure. Only ``service``, ``database``,
``schema``, ``writer`` and ``reader`` import SQLAlchemy, so nothing here may import them: the
command line works without.
"""
