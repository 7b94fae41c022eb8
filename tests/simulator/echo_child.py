"""A child for the tests of ``simulator.child``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time

LOCK = threading.Lock()


def carry_out(order: dict) -> None:
    number, op = order.pop("id"), order.pop("op")
    answer: dict = {"id": number}
    if op == "echo":
        answer["result"] = order
    elif op == "sleep":
        time.sleep(order["seconds"])
        answer["result"] = {"slept": order["seconds"]}
    elif op == "spawn":
        subprocess.Popen(["sleep", "60"])
        answer["result"] = {}
    elif op == "die":
        print("out of luck", file=sys.stderr, flush=True)
        os._exit(3)
    else:
        answer["error"] = "ValueError: no such order"
    with LOCK:
        print(json.dumps(answer), flush=True)


for line in sys.stdin:
    threading.Thread(target=carry_out, args=(json.loads(line),), daemon=True).start()
