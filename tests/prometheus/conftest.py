"""One stack for all tests here: it takes some seconds to start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import program
from tests.prometheus.stack import ALERTMANAGER, PROMETHEUS, Stack, house


@pytest.fixture(scope="package")
def stack(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A fleet that is whole, watched by Slicewatch, Prometheus and Alertmanager."""
    for names in (PROMETHEUS, ALERTMANAGER):
        if program(*names) is None:
            pytest.skip(f"{names[0]} is not installed")
    rules = (root / "deploy" / "prometheus" / "rules.yaml").read_text()
    with house(tmp_path_factory.mktemp("prometheus"), rules, program) as found:
        yield found
