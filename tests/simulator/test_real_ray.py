"""The demo on a real local Ray cluster: each fault made, seen in both APIs, and mended."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from simulator.control import DemoControl
from simulator.demo import Demo
from simulator.ray_cluster import LocalRay
from tests.conftest import program
from tests.simulator.conftest import fault, processes_of_session, settled, wait_for

pytestmark = [pytest.mark.real_ray, pytest.mark.timeout(300)]


def rows(demo: Demo, part: str) -> list[dict[str, Any]]:
    answer = httpx.get(
        f"{demo.ray_address}/api/v0/{part}",
        params={"detail": 1, "limit": 10_000},
        trust_env=False,
        timeout=20,
    )
    found: list[dict[str, Any]] = answer.json()["data"]["result"]["result"]
    return found


def groups(demo: Demo) -> dict[str, dict[str, Any]]:
    """Named groups that are not removed."""
    return {g["name"]: g for g in rows(demo, "placement_groups") if g["state"] != "REMOVED"}


def pods(demo: Demo) -> dict[str, dict[str, Any]]:
    control = demo.control
    assert isinstance(control, DemoControl)
    return {
        entry.obj["metadata"]["name"]: entry.obj for entry in control.mirror.kube.store.all("pods")
    }


def phases(demo: Demo) -> list[str]:
    """STATUS of each pod that is not simply running."""
    from simulator.kube_tables import pod_status

    found = []
    for pod in pods(demo).values():
        reason, ready, total, _ = pod_status(pod)
        if reason != "Running" or ready != total:
            found.append(reason)
    return sorted(found)


def gang_on(demo: Demo) -> list[str]:
    """``slice/worker`` of each live worker of the training gang."""
    where = {
        row["node_id"]: f"{row['labels']['ray.io/tpu-slice-name']}/"
        f"{row['labels']['ray.io/tpu-worker-id']}"
        for row in rows(demo, "nodes")
        if "ray.io/tpu-slice-name" in row["labels"] and row["state"] == "ALIVE"
    }
    return sorted(
        where.get(actor["node_id"], "?")
        for actor in rows(demo, "actors")
        if actor["state"] == "ALIVE" and actor["name"].startswith("train-a")
    )


def whole_gang(demo: Demo) -> bool:
    found = gang_on(demo)
    return len(found) == 4 and len({item.split("/")[0] for item in found}) == 1


def test_ten_hosts_a_head_and_a_gang(demo: Demo) -> None:
    # Tests before this one may have left dead nodes in Ray's list; it never forgets them.
    nodes = [row for row in rows(demo, "nodes") if row["state"] == "ALIVE"]
    assert len(nodes) == 11
    assert {row["labels"].get("ray.io/tpu-slice-name") for row in nodes} == {
        None,
        "v6e-group-0",
        "v6e-group-1",
        "v5p-group-0",
    }
    assert whole_gang(demo)
    assert groups(demo)["train-a"]["state"] == "CREATED"
    assert len(pods(demo)) == 11
    assert phases(demo) == []


def test_pods_carry_what_joins_them_to_ray(demo: Demo) -> None:
    """Ray's state API does not show the instance id: slice name and worker id join the two."""
    by_place = set()
    for pod in pods(demo).values():
        env = {item["name"]: item.get("value") for item in pod["spec"]["containers"][0]["env"]}
        assert env["RAY_CLOUD_INSTANCE_ID"] == pod["metadata"]["name"]
        if "TPU_NAME" in env:
            by_place.add((env["TPU_NAME"], env["TPU_WORKER_ID"]))
    assert by_place == {
        (row["labels"]["ray.io/tpu-slice-name"], row["labels"]["ray.io/tpu-worker-id"])
        for row in rows(demo, "nodes")
        if not row["is_head_node"]
    }


def test_a_split_group(demo: Demo) -> None:
    demo.control.inject("split_group")
    settled(demo, "split_group", active=True)
    group = groups(demo)["eval-split"]
    assert (group["state"], group["stats"]["scheduling_state"]) == ("CREATED", "FINISHED")
    slices = {
        row["node_id"]: row["labels"].get("ray.io/tpu-slice-name") for row in rows(demo, "nodes")
    }
    assert len({slices[bundle["node_id"]] for bundle in group["bundles"]}) == 2
    demo.control.mend("split_group")
    settled(demo, "split_group", active=False)
    assert "eval-split" not in groups(demo)


def test_a_squatter(demo: Demo) -> None:
    demo.control.inject("squat")
    settled(demo, "squat", active=True)
    assert groups(demo)["notebook"]["state"] == "CREATED"
    assert groups(demo)["train-b"]["state"] == "PENDING"
    demo.control.mend("squat")
    settled(demo, "squat", active=False)
    assert not {"notebook", "train-b"} & set(groups(demo))


def test_a_leaked_head_reservation_and_its_removal_by_hand(demo: Demo) -> None:
    demo.control.inject("leak_head")
    settled(demo, "leak_head", active=True)
    (leaked,) = [
        g
        for g in rows(demo, "placement_groups")
        if g["state"] == "CREATED" and "TPU-v5p-16-head" in g["bundles"][0]["unit_resources"]
    ]
    assert leaked["stats"]["scheduling_state"] == "FINISHED"
    control = demo.control
    assert isinstance(control, DemoControl)
    control.driver.ask("undo", timeout=60, name="leaked-head")
    wait_for(lambda: not fault(demo, "leak_head").active)


def test_a_stalled_pod(demo: Demo) -> None:
    demo.control.inject("stall_pod")
    settled(demo, "stall_pod", active=True)
    assert phases(demo) == ["CrashLoopBackOff"]
    wait_for(lambda: [r["state"] for r in rows(demo, "nodes")].count("ALIVE") == 10)
    demo.control.mend("stall_pod")
    settled(demo, "stall_pod", active=False)
    assert phases(demo) == []
    assert [r["state"] for r in rows(demo, "nodes")].count("ALIVE") == 11


@pytest.mark.kubectl
def test_kubectl_delete_mends_a_stalled_pod(demo: Demo) -> None:
    demo.control.inject("stall_pod")
    settled(demo, "stall_pod", active=True)
    kubectl = program("kubectl")
    assert kubectl
    env = {**os.environ, "KUBECONFIG": str(demo.kubeconfig)}

    def run(*arguments: str) -> str:
        return subprocess.run(
            [kubectl, "-n", "ml", *arguments],
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout

    table = run("get", "pods", "--no-headers").splitlines()
    (bad,) = [line.split()[0] for line in table if "CrashLoopBackOff" in line]
    run("delete", "pod", bad)
    settled(demo, "stall_pod", active=False)
    assert bad not in pods(demo)
    assert len(pods(demo)) == 11
    head = run("get", "pods", "-l", "ray.io/node-type=head", "-o", "name").strip()
    code = "import os; print(os.environ['RAY_ADDRESS'])"
    assert run("exec", head, "--", "python", "-c", code).startswith("127.0.0.1:")
    assert "gcs" in run("logs", head, "--tail=200")


def test_no_capacity(demo: Demo) -> None:
    demo.control.inject("no_capacity")
    settled(demo, "no_capacity", active=True)
    assert phases(demo) == ["Pending"]
    control = demo.control
    assert isinstance(control, DemoControl)
    reasons = {e.obj["reason"] for e in control.mirror.kube.store.all("events")}
    assert {"FailedScheduling", "FailedScaleUp"} <= reasons
    demo.control.mend("no_capacity")
    settled(demo, "no_capacity", active=False)
    assert phases(demo) == []


def test_a_stopped_host_under_a_gang(demo: Demo) -> None:
    wait_for(lambda: whole_gang(demo))
    demo.control.inject("stop_host")
    settled(demo, "stop_host", active=True)
    wait_for(lambda: groups(demo)["train-a"]["state"] == "RESCHEDULING")
    assert len(gang_on(demo)) == 3, "the others stay alive and wait"
    first = int(groups(demo)["train-a"]["stats"]["scheduling_attempt"])
    wait_for(lambda: int(groups(demo)["train-a"]["stats"]["scheduling_attempt"]) > first + 1000)
    control = demo.control
    assert isinstance(control, DemoControl)
    nodes = [entry.obj for entry in control.mirror.kube.store.all("nodes")]
    assert [n["status"]["conditions"][0]["status"] for n in nodes].count("Unknown") == 1
    demo.control.mend("stop_host")
    settled(demo, "stop_host", active=False)
    wait_for(lambda: groups(demo)["train-a"]["state"] == "CREATED", 60)
    wait_for(lambda: whole_gang(demo), 60)
    assert phases(demo) == []


def test_asking_twice_is_asking_once(demo: Demo) -> None:
    demo.control.mend("squat")
    assert not fault(demo, "squat").busy
    demo.control.inject("leak_head")
    demo.control.inject("leak_head")
    settled(demo, "leak_head", active=True)
    demo.control.inject("leak_head")
    assert not fault(demo, "leak_head").busy
    demo.control.mend("leak_head")
    settled(demo, "leak_head", active=False)


SCRIPT = textwrap.dedent(
    """
    import sys, time
    from simulator.ray_cluster import LocalRay
    ray = LocalRay(())
    ray.start()
    print(ray._child.pid, flush=True)
    time.sleep(600)
    """
)


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGINT"])
def test_nothing_outlives_a_parent_that_ends(signal: str, root: Path) -> None:
    """Only a head, to be quick. After SIGKILL nobody is left to tidy up but the keeper itself."""
    import signal as signals

    parent = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert parent.stdout is not None
    session = int(parent.stdout.readline())
    assert len(processes_of_session(session)) > 5
    parent.send_signal(getattr(signals, signal))
    parent.wait(20)
    parent.stdout.close()
    wait_for(lambda: processes_of_session(session) == [], 20)


def test_nothing_outlives_a_keeper_that_is_killed() -> None:
    ray = LocalRay(())
    ray.start()
    assert ray._child is not None
    session = ray._child.pid
    os.kill(session, 9)
    wait_for(lambda: processes_of_session(session) == [], 20)
    wait_for(lambda: not Path(ray._temp_dir or "").exists())
    began = time.monotonic()
    ray.stop()
    assert time.monotonic() - began < 5
