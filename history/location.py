"""Where history is kept when nobody says where. Reads the environment, nothing else."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

FILE = "history.sqlite"


def default_path() -> Path:
    """``$XDG_STATE_HOME/slicewatch/history.sqlite``, usually below ``~/.local/state``.

    Raises:
        RuntimeError: there is no home folder to be found.
    """
    base = os.environ.get("XDG_STATE_HOME", "")
    # The XDG specification ignores relative ones.
    state = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    return state / "slicewatch" / FILE


def scope_of(*what: object) -> str:
    """A short name for what is looked at, the same as long as that is the same.

    Args:
        what: whatever tells one fleet from another: the kubeconfig's context, Ray addresses,
            namespaces. Empty ones do not count.
    """
    texts = [str(item) for item in what if item]
    if not texts:
        return ""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", texts[0]).strip("-")[:40]
    digest = hashlib.blake2b("\x1f".join(texts).encode(), digest_size=6).hexdigest()
    return f"{plain}-{digest}" if plain else digest
