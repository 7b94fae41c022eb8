"""Small hand-made snapshots for whatever shows a report: one healthy, one broken, one hostile.

They need neither a bundle nor the engine, so a test of a page or a metric fails for its own
reasons only. All times hang on ``NOW``.
"""

from __future__ import annotations

from diagnosis.finding import Action, Evidence, Finding, Report, Subject, Unknown
from diagnosis.snapshot import POLL_BUCKETS_SECONDS, PollStats, Snapshot
from fleet.model import Bundle, ClusterView, Fleet, Host, PlacementGroup, Slice, Worker
from fleet.observation import Event, Observation, SourceStatus, Truncation

NOW = 1_796_040_000.0
"""2026-11-30T12:00:00Z."""

HOSTILE = '<script>alert("x")</script> **b** `c` $x$ [a](javascript:1) \x1b[31m\x00 ‮ \\ "q"\n#'
"""HTML, Markdown, LaTeX, a terminal escape, NUL, a right-to-left override, quotes, a line end."""


def host(worker_id: int, slice_name: str = "v6e-0", **changes: object) -> Host:
    fields: dict[str, object] = {
        "key": f"{slice_name}-{worker_id}",
        "worker_id": worker_id,
        "state": "ready",
        "pod_name": f"{slice_name}-{worker_id}",
        "node_name": f"gke-{slice_name}-n{worker_id}",
        "node_pool": f"pool-{slice_name}",
        "ray_node_id": f"{worker_id:02x}" * 28,
        "chips": 4,
        "coordinates": (worker_id % 2, worker_id // 2, 0),
        "age_since": NOW - 7200.0,
        "offers_head": worker_id == 0,
    }
    return Host(**{**fields, **changes})  # type: ignore[arg-type]


def slice_(name: str = "v6e-0", **changes: object) -> Slice:
    fields: dict[str, object] = {
        "id": f"ml/train/{name}",
        "namespace": "ml",
        "cluster": "train",
        "name": name,
        "generation": "v6e",
        "topology_name": "4x4",
        "pod_type": "v6e-16",
        "hosts_expected": 4,
        "chips_expected": 16,
        "hosts": tuple(host(index, name) for index in range(4)),
        "node_pools": (f"pool-{name}",),
        "seen_by": ("kubernetes", "ray"),
        "first_seen": NOW - 7200.0,
        "holding": "free",
    }
    return Slice(**{**fields, **changes})  # type: ignore[arg-type]


def group(name: str = "train-a", **changes: object) -> PlacementGroup:
    ident = str(changes.get("id", "a1" * 18))
    fields: dict[str, object] = {
        "key": f"ml/train/{ident}",
        "id": ident,
        "name": name,
        "namespace": "ml",
        "cluster": "train",
        "state": "CREATED",
        "scheduling_state": "FINISHED",
        "role": "slice",
        "chips": 16.0,
        "requested_at": NOW - 3600.0,
        "created_at": NOW - 3590.0,
    }
    return PlacementGroup(**{**fields, **changes})  # type: ignore[arg-type]


def source(name: str = "kubernetes", **changes: object) -> SourceStatus:
    fields: dict[str, object] = {"name": name, "status": "ok", "fetched_at": NOW - 4.0}
    return SourceStatus(**{**fields, **changes})  # type: ignore[arg-type]


def finding(**changes: object) -> Finding:
    fields: dict[str, object] = {
        "code": "SliceIncomplete",
        "severity": "critical",
        "cause": "RayletDead",
        "subject": Subject(
            kind="slice", id="ml/train/v6e-1", name="v6e-1", namespace="ml", cluster="train"
        ),
        "summary": "Slice v6e-1 has 3 of 4 hosts: the Ray node of worker 2 is dead.",
        "evidence": (
            Evidence(source="ray:ml/train", object="node 0202", field="state", value="DEAD"),
            Evidence(source="kubernetes", object="pod v6e-1-2", field="phase", value="Running"),
        ),
        "actions": (
            Action(
                text="Read the last lines of the raylet's log.",
                command="kubectl -n ml logs v6e-1-2 --tail 50",
            ),
            Action(
                text="Delete the pod; KubeRay makes the whole replica again (kills the job).",
                command="kubectl -n ml delete pod v6e-1-2",
                kind="fix",
            ),
        ),
        "since": NOW - 90.0,
        "affects": ("placement group train-b waits for worker 2",),
        "runbook": "docs/runbooks/SliceIncomplete.md",
    }
    return Finding(**{**fields, **changes})  # type: ignore[arg-type]


def snapshot(
    fleet: Fleet | None = None,
    *,
    findings: tuple[Finding, ...] = (),
    unknowns: tuple[Unknown, ...] = (),
    statuses: dict[str, str] | None = None,
    **changes: object,
) -> Snapshot:
    fleet = fleet if fleet is not None else Fleet(now=NOW)
    report = Report(
        fleet=fleet,
        findings=findings,
        unknowns=unknowns,
        statuses=statuses or {},  # type: ignore[arg-type]
        status_since=dict.fromkeys(statuses or {}, NOW - 600.0),
    )
    fields: dict[str, object] = {
        "observation": Observation(now=fleet.now),
        "report": report,
        "published_at": NOW - 2.0,
    }
    return Snapshot(**{**fields, **changes})  # type: ignore[arg-type]


def stats(name: str = "kubernetes", errors: dict[str, int] | None = None) -> PollStats:
    counts = tuple(range(1, len(POLL_BUCKETS_SECONDS) + 2))
    return PollStats(
        source=name,
        bucket_counts=counts,
        sum_seconds=1.5,
        polls=counts[-1],
        errors=errors or {},
    )


def cluster(name: str = "train") -> ClusterView:
    return ClusterView(
        namespace="ml",
        cluster=name,
        source=source(f"ray:ml/{name}"),
        version="2.60.0",
        has_kubernetes=True,
        heads_alive=1,
    )


def gang(slice_name: str, key: str) -> tuple[tuple[Bundle, ...], tuple[Worker, ...]]:
    """Four bundles on the four hosts of a slice, each with a running actor."""
    bundles = tuple(
        Bundle(
            index=index,
            chips=4.0,
            node_id=f"{index:02x}" * 28,
            slice_id=f"ml/train/{slice_name}",
            host_key=f"{slice_name}-{index}",
        )
        for index in range(4)
    )
    workers = tuple(
        Worker(
            kind="actor",
            id=f"{index:02x}" * 16,
            name=f"rank-{index}",
            state="ALIVE",
            alive=True,
            slice_id=f"ml/train/{slice_name}",
            host_key=f"{slice_name}-{index}",
            group_id=key,
            bundle_index=index,
            chips=4.0,
            job_id="01000000",
            since=NOW - 3500.0,
        )
        for index in range(4)
    )
    return bundles, workers


def healthy() -> Snapshot:
    """Two whole v6e 4x4 slices: one idle, one running a gang."""
    held = group()
    bundles, workers = gang("v6e-1", held.key)
    held = group(bundles=bundles, workers=workers, slices=("ml/train/v6e-1",))
    fleet = Fleet(
        now=NOW,
        slices=(
            slice_("v6e-0"),
            slice_("v6e-1", held_by=(held.key,), holding="whole", workers=workers),
        ),
        placement_groups=(held,),
        clusters=(cluster(),),
        sources=(source(), source("ray:ml/train")),
        kubernetes_parts=frozenset({"pods", "nodes", "events"}),
        has_kubernetes=True,
    )
    return snapshot(
        fleet,
        statuses={"ml/train/v6e-0": "idle", "ml/train/v6e-1": "running"},
        stats=(stats(), stats("ray:ml/train", {"timed_out": 2})),
    )


def broken() -> Snapshot:
    """One slice lost worker 2 under its gang, a second group waits, and Ray's rows were cut."""
    held = group("train-b", state="RESCHEDULING", pending_seconds=90.0)
    bundles, workers = gang("v6e-1", held.key)
    lost = Bundle(index=2, chips=4.0, node_id="02" * 28)
    held = group(
        "train-b",
        state="RESCHEDULING",
        scheduling_state="FAILED_TO_COMMIT_RESOURCES",
        pending_seconds=90.0,
        bundles=(*bundles[:2], lost, bundles[3]),
        workers=workers,
        slices=("ml/train/v6e-1",),
    )
    waiting = group(
        "eval", id="b2" * 18, state="PENDING", created_at=None, pending_seconds=400.5, attempts=12
    )
    dead = host(
        2,
        "v6e-1",
        state="not_ready",
        problem="RayletDead",
        problem_detail="raylet exited",
        was_there=True,
        gone_since=NOW - 90.0,
    )
    hosts = (host(0, "v6e-1"), host(1, "v6e-1"), dead, host(3, "v6e-1"))
    event = Event(
        type="Warning",
        reason="BackOff",
        message="Back-off restarting failed container",
        last_timestamp="2026-11-30T11:59:00Z",
    )
    fleet = Fleet(
        now=NOW,
        slices=(
            slice_("v6e-0", holding="unknown", blind=("placement groups were cut",)),
            slice_("v6e-1", hosts=hosts, held_by=(held.key,), holding="whole", workers=workers),
        ),
        placement_groups=(held, waiting),
        clusters=(cluster(),),
        sources=(
            source(),
            source(
                "ray:ml/train",
                status="degraded",
                detail="100 of 302 placement groups arrived",
                reason="truncated",
                complete=False,
                truncated=(Truncation(part="placement_groups", total=302, rows=100),),
            ),
            source(
                "ray:ml/old", status="down", reason="refused", complete=False, fetched_at=NOW - 700
            ),
            source("ray:ml/night", status="suspended", fetched_at=None),
        ),
        kubernetes_parts=frozenset({"pods", "nodes", "events"}),
        has_kubernetes=True,
        events_by_object={("Pod", "ml", "v6e-1-2"): (event,)},
    )
    pending = finding(
        code="PlacementPending",
        severity="warning",
        cause="AllSlicesBusy",
        subject=Subject(
            kind="placement_group",
            id=waiting.key,
            name="eval",
            namespace="ml",
            cluster="train",
        ),
        summary="Placement group eval waits for a v6e-16 slice: all are busy.",
        since=NOW - 400.5,
        affects=(),
        runbook="docs/runbooks/PlacementPending.md",
    )
    down = finding(
        code="SourceDown",
        severity="warning",
        cause=None,
        subject=Subject(kind="source", id="ray:ml/old", name="ray:ml/old"),
        summary="Source ray:ml/old does not answer.",
        since=None,
        affects=(),
        actions=(Action(text="Look whether the head runs.", command=None),),
        runbook="docs/runbooks/SourceDown.md",
    )
    return snapshot(
        fleet,
        findings=(finding(), pending, down),
        unknowns=(
            Unknown(code="HeadReservationLeaked", subject=None, reason="placement groups were cut"),
            Unknown(code="ReservationIdle", subject=None, reason="placement groups were cut"),
            Unknown(code="ReservationIdle", subject=None, reason="tasks were not answered"),
        ),
        statuses={"ml/train/v6e-0": "unknown", "ml/train/v6e-1": "incomplete"},
        stats=(stats(), stats("ray:ml/old", {"refused": 7, "timed_out": 1})),
    )


def hostile() -> Snapshot:
    """Every name that a cluster chooses is hostile; some are 5,000 characters long or equal."""
    long = "x" * 5000
    bad = slice_(
        HOSTILE,
        id=f"ml/train/{HOSTILE}",
        generation=HOSTILE,
        topology_name=HOSTILE,
        node_pools=(HOSTILE, long),
        hosts=(host(0, HOSTILE, problem_detail=HOSTILE), host(1, long)),
    )
    twin = slice_(HOSTILE, id="ml/train/twin")
    huge = slice_(long, id=f"ml/train/{long}", hosts_expected=None, chips_expected=None, hosts=())
    bad_group = group(HOSTILE, id=HOSTILE, state="PENDING", pending_seconds=5.0)
    bundles = (Bundle(index=0, node_id=HOSTILE, selector={HOSTILE: HOSTILE}),)
    bad_group = group(
        HOSTILE, id=HOSTILE, state="PENDING", pending_seconds=5.0, bundles=bundles, role="other"
    )
    subject = Subject(kind="slice", id=bad.id, name=HOSTILE, namespace=HOSTILE, cluster=HOSTILE)
    worst = finding(
        subject=subject,
        cause=HOSTILE,
        summary=HOSTILE,
        evidence=(Evidence(source=HOSTILE, object=long, field=HOSTILE, value=HOSTILE),),
        actions=(Action(text=HOSTILE, command=f"kubectl get pod '{HOSTILE}'"),),
        affects=(HOSTILE, long),
    )
    event = Event(
        type=HOSTILE, reason=HOSTILE, message=HOSTILE, last_timestamp="not a time", count=-1
    )
    fleet = Fleet(
        now=NOW,
        slices=(bad, twin, huge),
        placement_groups=(bad_group, bad_group),
        clusters=(cluster(HOSTILE),),
        sources=(source(HOSTILE, detail=HOSTILE), source(HOSTILE, status="down")),
        events_by_object={("Pod", "ml", str(bad.hosts[0].pod_name)): (event,)},
        has_kubernetes=True,
    )
    return snapshot(
        fleet,
        findings=(worst, worst),
        unknowns=(Unknown(code="ReservationIdle", subject=subject, reason=HOSTILE),),
        statuses={bad.id: "broken"},
        stats=(stats(HOSTILE, {HOSTILE: 1}), stats(HOSTILE)),
    )


def empty() -> Snapshot:
    """A look that succeeded and found no TPU slice."""
    return snapshot(Fleet(now=NOW, sources=(source(),), has_kubernetes=True))
