"""Write the golden expositions anew; read the diff before committing them.

Also prints the table of docs/metrics.md: ``python -m tests.exporter.write_golden``.
"""

from __future__ import annotations

from exporter.families import FAMILIES, PREFIX
from tests.exporter.test_metrics import GOLDEN, STATES, text

if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name, snapshot in STATES.items():
        (GOLDEN / f"{name}.prom").write_text(text(snapshot))
    for info in FAMILIES:
        labels = ", ".join(f"`{label}`" for label in info.labels) or "–"
        print(f"| `{PREFIX}{info.name}` | {info.type} | {labels} | {info.help} |")
