"""One module a family of codes; :data:`diagnosis.rules.registry.RULES` is the list of all."""
