"""A fault in a fleet reaches whoever is on call, and goes when it is mended."""

from __future__ import annotations

import pytest

from diagnosis.catalogue import CODES
from simulator.http_server import Failure
from tests.prometheus.stack import Stack
from tests.simulator.conftest import wait_for

pytestmark = pytest.mark.prometheus


def quiet(stack: Stack) -> bool:
    return stack.active() == []


def test_a_whole_fleet_is_silent(stack: Stack) -> None:
    # Two evaluations of the rules after the first scrape, each of which could have alerted.
    wait_for(lambda: stack.query("count_over_time(slicewatch_build_info[1m]) > 4"))
    assert stack.query('ALERTS{alertstate=~"pending|firing"}') == []
    assert stack.active() == []
    assert stack.query("sum(namespace_ray_cluster:slicewatch_slices_whole:ratio)")[0]["value"][
        1
    ] == str(len(stack.fleet.fleet.clusters))


def test_a_lost_host_alerts_once_with_all_there_is_to_know_and_resolves(stack: Stack) -> None:
    wait_for(lambda: quiet(stack))
    (view,) = [view for view in stack.fleet.faults() if view.key == "stop_host"]
    with stack.fault("stop_host") as before:
        name = "RayTPUSliceIncomplete"
        alert = wait_for(lambda: stack.receiver.got("firing", name, before))
        assert isinstance(alert, dict)
        labels, notes = alert["labels"], alert["annotations"]
        subject = labels["subject"]
        assert subject in view.text
        namespace, cluster, slice_name = subject.split("/")
        assert labels == {
            "alertname": name,
            "namespace": namespace,
            "ray_cluster": cluster,
            "code": "SliceIncomplete",
            "severity": "critical",
            "cause": "NodeNotReady",
            "subject_kind": "slice",
            "subject": subject,
            "instance": stack.slicewatch.removeprefix("http://"),
            "job": "slicewatch",
        }
        hosts = len(stack.fleet.fleet.cluster(f"{namespace}/{cluster}").slice(slice_name).hosts)
        assert notes["summary"] == f"{CODES['SliceIncomplete'].title.rstrip('.')}."
        assert notes["description"] == (
            f"Slice {subject}, {hosts - 1} of {hosts} hosts ready: "
            f"{CODES['SliceIncomplete'].meaning} Cause: NodeNotReady."
        )
        assert notes["runbook_url"].endswith("/SliceIncomplete.md")
        assert notes["dashboard_url"].endswith(
            "/finding?code=SliceIncomplete&subject=" + subject.replace("/", "%2F")
        )
        assert alert["generatorURL"]
        # The same from Alertmanager's own mouth, and no alert that looks like another fault.
        (held,) = [item for item in stack.active() if item["labels"]["alertname"] == name]
        assert held["labels"] == labels
        assert held["annotations"] == notes
        about = {item["labels"]["subject"] for item in stack.active()}
        assert subject in about
        print(sorted((a["labels"]["alertname"], a["labels"]["subject"]) for a in stack.active()))

        stack.mend("stop_host")
        resolved = wait_for(lambda: stack.receiver.got("resolved", name, before, subject=subject))
        assert isinstance(resolved, dict)
        assert resolved["labels"] == labels
        wait_for(lambda: quiet(stack))
    assert stack.query(f'slicewatch_finding_active{{subject="{subject}"}}') == []


def test_a_blind_slicewatch_says_that_it_is_blind_and_nothing_about_slices(stack: Stack) -> None:
    wait_for(lambda: quiet(stack))
    before = len(stack.receiver.alerts)
    failures = stack.fleet.kube.failures
    failure = failures.add(Failure(status=503))
    try:
        name = "SlicewatchSourceDown"
        alert = wait_for(lambda: stack.receiver.got("firing", name, before, subject="kubernetes"))
        assert isinstance(alert, dict)
        assert alert["labels"]["severity"] == "warning"
        wait_for(lambda: stack.query('slicewatch_source_up{source="kubernetes"} == 0'))
        told = {item["labels"]["alertname"] for item in stack.receiver.alerts[before:]}
        assert not {found for found in told if found.startswith("RayTPU")}, told
    finally:
        failures.remove(failure)
    wait_for(lambda: stack.receiver.got("resolved", name, before, subject="kubernetes"))
    wait_for(lambda: quiet(stack))
