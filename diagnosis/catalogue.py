"""What each finding code means: for ``explain``, the pages, the alerts and the runbooks.

The codes are those of the contract; a code never changes its meaning.
"""

from __future__ import annotations

import msgspec

from diagnosis.finding import SubjectKind


class CodeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One finding code in words.

    ``title``: a short noun phrase. ``meaning``: sentences for somebody who has never seen it.
    ``severity``: when it is which. ``silent_on``: what it does not flag. ``runbook``: its file.
    """

    code: str
    title: str
    meaning: str
    severity: str
    subjects: tuple[SubjectKind, ...]
    causes: dict[str, str] = {}
    silent_on: str = ""

    @property
    def runbook(self) -> str:
        """Path of the runbook in the repository."""
        return f"docs/runbooks/{self.code}.md"


_LIST: tuple[CodeInfo, ...] = (
    CodeInfo(
        code="SliceIncomplete",
        title="A slice has fewer live hosts than its topology needs",
        meaning="A TPU slice works only as a whole: with one host missing no job can start on it, "
        "and a job that runs on it hangs.",
        severity="critical while a placement group holds the slice or waits for it by name, else "
        "warning",
        subjects=("slice",),
        causes={
            "PodUnschedulable": "A host's pod exists, but no node fits it.",
            "PodCrashLooping": "A host's container starts and ends again and again.",
            "PodFailed": "A host's pod has failed or ended.",
            "PodNotReady": "A host's pod is there but not Ready.",
            "NodeNotReady": "The Kubernetes node under a host is not Ready.",
            "NodeGone": "The Kubernetes node under a host does not exist any more.",
            "RayletDead": "The host's Ray node is dead, though its pod (if there is one) is up.",
            "RayNodeNeverJoined": "The host is up, but no Ray node of it ever joined the cluster.",
            "PodMissing": "No pod exists for a host of the slice.",
            "ScaleUpFailed": "The cloud had no capacity or quota for the hosts' nodes.",
        },
        silent_on="Slices younger than the start-up grace that have lost nobody, pods held back by "
        "scheduling gates (Kueue), slices that are being deleted or were made anew as a whole, and "
        "suspended clusters.",
    ),
    CodeInfo(
        code="SliceSpansNodePools",
        title="A slice's pods sit on more than one node pool",
        meaning="Hosts of one slice have to be on one node pool (or one dynamic slice), because "
        "only those are joined by ICI. Between pools there is none, so the slice cannot work.",
        severity="critical",
        subjects=("slice",),
        silent_on="Single-host slices, and dynamic slices whose sub-blocks are pools of their own.",
    ),
    CodeInfo(
        code="DuplicateWorkerId",
        title="Two live hosts of one slice claim the same worker id",
        meaning="Every host of a slice needs a worker id and a hostname of its own. Two with the "
        "same one means that another is missing, and TPU start-up fails or hangs.",
        severity="critical",
        subjects=("slice",),
        silent_on="A dead or terminating predecessor, equal ids in different slices, and the 30 s "
        "in which Ray lists a host and its successor.",
    ),
    CodeInfo(
        code="MissingSliceIdentity",
        title="TPU pods do not know which slice they are part of",
        meaning="A TPU host of a multi-host group has no slice name, worker id or hostnames. The "
        "TPU webhook sets them when a pod is made; it did not see this one.",
        severity="critical",
        subjects=("pod", "worker_group"),
        silent_on="Single-host groups, and hosts to which Ray gave a name and id by other means.",
    ),
    CodeInfo(
        code="HostnamesUnresolvable",
        title="The hosts of a worker group cannot find each other by name",
        meaning="The pods' subdomain has no Service of that name in their namespace, so their "
        "hostnames cannot be resolved and TPU start-up waits for ever.",
        severity="critical",
        subjects=("worker_group",),
        silent_on="Single-host groups, and pods without a subdomain (MissingSliceIdentity).",
    ),
    CodeInfo(
        code="AffinityDeadlock",
        title="Pods wait for a label that no pod carries",
        meaning="The pods require to be placed beside pods with a label that they do not carry "
        "themselves and nobody else does: they can never be scheduled.",
        severity="critical",
        subjects=("worker_group",),
        silent_on="Pods that are on a node already, and affinity that some placed pod fulfils.",
    ),
    CodeInfo(
        code="HostCountMismatch",
        title="A worker group disagrees on how many hosts a slice has",
        meaning="numOfHosts, the topology divided by chips per host, and the number of "
        "TPU_WORKER_HOSTNAMES have to be the same number. Else every slice of the group is too big "
        "or too small.",
        severity="critical",
        subjects=("worker_group",),
        silent_on="Groups without pods and replicas, and shapes that are not known.",
    ),
    CodeInfo(
        code="WebhookDown",
        title="Pods are not created because the TPU webhook does not answer",
        meaning="Kubernetes asks the TPU webhook about every KubeRay pod and refuses the pod when "
        "the webhook does not answer: no slice can be made or repaired.",
        severity="critical",
        subjects=("ray_cluster",),
        silent_on="A failure after which pods were created, and other webhooks.",
    ),
    CodeInfo(
        code="ReplicaDrift",
        title="A worker group has other pods than its spec asks for",
        meaning="The number of pods has differed from replicas times hosts past the grace, or pods "
        "from before an upgrade of KubeRay are left over: capacity is lost or paid for twice.",
        severity="warning",
        subjects=("worker_group",),
        silent_on="Changes that are under way, pods that are being deleted, suspended groups.",
    ),
    CodeInfo(
        code="HostRestartedAlone",
        title="One host of a slice restarted while its job went on",
        meaning="One host is much younger than its peers, and work on the slice is older than that "
        "host. The TPU runtime of the others waits for the host as it was.",
        severity="critical",
        subjects=("slice",),
        silent_on="Slices made anew as a whole, work that began after the restart, single hosts.",
    ),
    CodeInfo(
        code="HeadResourceMissing",
        title="A whole slice that nobody can reserve",
        meaning="Ray reserves a slice through a resource named TPU-<pod type>-head that worker 0 "
        "offers. No host of this slice offers it, so slice_placement_group never finds the slice.",
        severity="warning",
        subjects=("slice",),
        silent_on="Slices that are not whole, and single hosts without a slice name.",
    ),
    CodeInfo(
        code="ChipCountMismatch",
        title="The counts of chips on a host do not agree",
        meaning="Ray's TPU count, the pod's google.com/tpu, the node's allocatable and its label "
        "should be one number. A node that offers less than its label has lost a chip; a pod that "
        "asks for another number wastes chips or cannot start.",
        severity="warning",
        subjects=("node", "pod"),
        silent_on="Nodes that have just come or are not Ready, and pods that are being deleted.",
    ),
    CodeInfo(
        code="PhantomTpu",
        title="Ray counts TPUs on a host that has none",
        meaning="Ray took another device for a TPU. TPU work that is placed there fails.",
        severity="warning",
        subjects=("pod",),
        silent_on="Pods that ask for google.com/tpu, and nodes with an accelerator label.",
    ),
    CodeInfo(
        code="HostMaintenance",
        title="A host of a slice is in, or about to be in, maintenance",
        meaning="A host is under, or scheduled for, maintenance or termination. The whole slice "
        "goes down with one host.",
        severity="warning within the hour or under way, info when further ahead",
        subjects=("slice",),
        silent_on="Times long past with nothing under way.",
    ),
    CodeInfo(
        code="RuntimeFault",
        title="The TPU runtime reports a fault on the node",
        meaning="The device plugin has written a condition on a node of the slice: its runtime "
        "hangs or has an error. The job on the slice makes no progress.",
        severity="critical",
        subjects=("slice",),
        causes={
            "MegascaleHangDetected": "Communication between slices of a multislice hangs.",
            "SliceErrorDetected": "The slice itself has an error, in the condition's message.",
        },
        silent_on="Conditions that are not True.",
    ),
    CodeInfo(
        code="DynamicSliceDegraded",
        title="A dynamic slice is not active and healthy",
        meaning="The Slice object of a TPU7x slice, or a partition under it, is not ACTIVE or "
        "HEALTHY: links or chips of it are lost, or ICI was never set up.",
        severity="critical when FAILED or UNHEALTHY and in use, else warning",
        subjects=("slice",),
        silent_on="Slices that are activating within the grace or being deactivated.",
    ),
    CodeInfo(
        code="PlacementSplit",
        title="A placement group is split over slices",
        meaning="The group is CREATED, so Ray reports nothing, but its bundles lie on two or more "
        "slices without filling each of them. No ICI joins them: a collective never finishes.",
        severity="critical",
        subjects=("placement_group",),
        silent_on="Multislices that fill each slice, groups over single hosts, and sub-slices that "
        "are named worker by worker.",
    ),
    CodeInfo(
        code="PlacementSubset",
        title="A placement group holds an odd part of a slice",
        meaning="The group holds several hosts of a slice that are none of its sub-slices. The "
        "rest of the slice cannot be used as a whole, and this part may not work as one.",
        severity="warning",
        subjects=("placement_group",),
        silent_on="Real sub-slices, and groups on a single host.",
    ),
    CodeInfo(
        code="PlacementPending",
        title="A placement group waits for TPUs",
        meaning="A TPU group has waited longer than two minutes. The cause says whether waiting "
        "can end it.",
        severity="critical for causes that waiting cannot end (Squatter, SliceGone, "
        "BundleTooLarge, HeadHeld, BehindLivelock, ResourceNameMismatch), else warning",
        subjects=("placement_group",),
        causes={
            "NoSuchSlice": "The cluster has no slice of that shape.",
            "AllSlicesBusy": "Slices of that shape exist, and all are held.",
            "SliceIncomplete": "The slice that it needs lacks hosts.",
            "Squatter": "Others hold hosts of the slice that it reserved or names.",
            "SliceGone": "The slice that it names has no live host.",
            "BundleTooLarge": "No host is as big as one of its bundles.",
            "HeadHeld": "The slice's head is held by a leaked reservation.",
            "BehindLivelock": "The scheduler is caught in a loop over another group.",
            "ScaleUpFailed": "The cloud had no capacity or quota for the slice.",
            "ResourceNameMismatch": "It asks for a resource under a name that no host offers.",
        },
        silent_on="Groups whose slice is coming within its grace, and groups without TPUs.",
    ),
    CodeInfo(
        code="PlacementHostLost",
        title="A placement group lost a host",
        meaning="The group is RESCHEDULING, because a host that it held is gone. Its workers on "
        "the other hosts stay alive and wait.",
        severity="critical",
        subjects=("placement_group",),
        silent_on="Groups that were never placed.",
    ),
    CodeInfo(
        code="SchedulerLivelock",
        title="Ray's scheduler is caught in a loop",
        meaning="A placement group is retried without delay. Meanwhile no other group of the "
        "cluster is scheduled, however small.",
        severity="critical",
        subjects=("ray_cluster",),
        silent_on="Groups that are CREATED, and long waits with Ray's own back-off.",
    ),
    CodeInfo(
        code="HeadReservationLeaked",
        title="A slice's head is reserved and nobody uses the slice",
        meaning="A placement group holds the slice's head resource, and no group holds or waits "
        "for the slice: the slice is free, and nobody can reserve it.",
        severity="critical when another group waits for such a head, else warning",
        subjects=("slice",),
        silent_on="The head group beside its worker group, which is normal, and reservations "
        "younger than two minutes.",
    ),
    CodeInfo(
        code="ReservationIdle",
        title="A whole slice is held and nothing runs on it",
        meaning="A placement group holds whole slices, and no actor or task has been on them for a "
        "quarter of an hour.",
        severity="warning",
        subjects=("placement_group",),
        silent_on="Young reservations, and ones whose last worker has just ended.",
    ),
    CodeInfo(
        code="GangIncomplete",
        title="A gang never started on some of its hosts",
        meaning="Workers run on some hosts of the group, and none ever started on the others. The "
        "TPU runtime of those that run waits for all hosts.",
        severity="critical",
        subjects=("placement_group",),
        silent_on="Gangs within their start-up grace, and hosts whose worker has finished.",
    ),
    CodeInfo(
        code="GangMemberDead",
        title="A member of a gang died and the others wait",
        meaning="Some of the group's actors or tasks died or failed while others still run. The "
        "rest wait in a collective for ever.",
        severity="critical",
        subjects=("placement_group",),
        silent_on="Gangs that ended as a whole, members stopped on purpose or started again.",
    ),
    CodeInfo(
        code="GangStalled",
        title="A gang runs and its chips do nothing",
        meaning="Every worker of the gang runs, and the duty cycle of all its chips has been under "
        "1 % for ten minutes.",
        severity="critical",
        subjects=("placement_group",),
        silent_on="Workers that run no task, pauses under ten minutes, hosts without samples, and "
        "a single look.",
    ),
    CodeInfo(
        code="GangStraggler",
        title="A host of a gang does something else than the rest",
        meaning="One or a few hosts differ from the rest of the gang in what their chips do.",
        severity="warning",
        subjects=("placement_group",),
        silent_on="Gangs of fewer than three hosts, gangs that are mixed as a whole, differences "
        "under two minutes, and a single look.",
    ),
    CodeInfo(
        code="MultisliceMismatch",
        title="Multislice settings do not match the slices",
        meaning="MEGASCALE_NUM_SLICES or the slice ids that pods were told do not agree with the "
        "slices that are there: the processes wait for slices that do not come.",
        severity="critical",
        subjects=("placement_group", "ray_cluster"),
        silent_on="Pods without these variables, and multislices of which a slice is coming.",
    ),
    CodeInfo(
        code="ScaleUpFailed",
        title="The cloud could not add nodes for a worker group",
        meaning="The autoscaler asked for nodes and was refused: no capacity, or no quota. The "
        "evidence has its own words.",
        severity="warning",
        subjects=("worker_group",),
        silent_on="Failures after which a scale-up was triggered, and pods that were bound since.",
    ),
    CodeInfo(
        code="SourceDown",
        title="An API does not answer",
        meaning="Kubernetes or a Ray cluster does not answer, or not all that is asked. Whatever "
        "needs it is unknown, not healthy.",
        severity="warning",
        subjects=("source",),
        silent_on="Suspended clusters.",
    ),
    CodeInfo(
        code="SourceTruncated",
        title="An API gave only part of its rows",
        meaning="Rows of a list are missing or cannot be read. What is missing is unknown, not "
        "gone.",
        severity="warning",
        subjects=("source",),
        silent_on="Lists that were filtered on purpose.",
    ),
    CodeInfo(
        code="SourceStale",
        title="An API's last good answer is old",
        meaning="The last good answer is older than three polls: what is shown of it may have "
        "changed since.",
        severity="warning",
        subjects=("source",),
        silent_on="One or two lost answers.",
    ),
)

CODES: dict[str, CodeInfo] = {info.code: info for info in _LIST}
"""Every finding code, in the contract's order."""
