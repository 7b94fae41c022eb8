"""Scenes written from the contract and the facts alone, as raw answers of the APIs on disk."""
