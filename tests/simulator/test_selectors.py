from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.kube_selectors import SelectorError, field_matcher, label_matcher

LABELS = {"app": "ray", "ray.io/node-type": "worker", "size": "4"}


def obj(labels: dict[str, str] | None = LABELS) -> dict[str, object]:
    return {"metadata": {"name": "a", "namespace": "ml", "labels": labels}}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("", True),
        ("app=ray", True),
        ("app==ray", True),
        ("app = ray", True),
        ("app=other", False),
        ("app!=other", True),
        ("missing!=x", True),
        ("app", True),
        ("missing", False),
        ("!missing", True),
        ("!app", False),
        ("ray.io/node-type in (head, worker)", True),
        ("ray.io/node-type in (head)", False),
        ("ray.io/node-type notin (head)", True),
        ("missing notin (a,b)", True),
        ("size>3", True),
        ("size<4", False),
        ("missing>1", False),
        ("app=ray,ray.io/node-type in (worker),!missing", True),
        ("app=ray,ray.io/node-type in (head)", False),
        ("app=", False),
    ],
)
def test_label_selectors_as_kubernetes_reads_them(selector: str, matches: bool) -> None:
    assert label_matcher(selector)(obj()) is matches


def test_no_labels_at_all_match_only_what_asks_for_none() -> None:
    assert label_matcher("!app")(obj(None))
    assert not label_matcher("app")(obj(None))


@pytest.mark.parametrize("selector", ["app in", "in (a", "a>b", ",", "app=ray,,x", "(a)"])
def test_a_wrong_label_selector_is_refused(selector: str) -> None:
    with pytest.raises(SelectorError):
        label_matcher(selector)


@given(st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.just("v"), max_size=5))
def test_a_selector_made_of_an_objects_labels_matches_it(labels: dict[str, str]) -> None:
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    assert label_matcher(selector)(obj(labels))


def test_field_selectors() -> None:
    pod = {
        "metadata": {"name": "a", "namespace": "ml"},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running"},
    }
    assert field_matcher("spec.nodeName=n1,status.phase!=Failed", "pods")(pod)
    assert not field_matcher("spec.nodeName!=n1", "pods")(pod)
    assert field_matcher("status.nominatedNodeName=", "pods")(pod)
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"name": "a"},
        "source": {"component": "k"},
    }
    assert field_matcher("involvedObject.name=a,source=k", "events")(event)
    assert field_matcher("spec.unschedulable=true", "nodes")({"spec": {"unschedulable": True}})


@pytest.mark.parametrize(
    ("selector", "kind"),
    [("spec.hostname=x", "pods"), ("status.state=ready", "rayclusters"), ("nonsense", "pods")],
)
def test_fields_that_the_api_cannot_select_by(selector: str, kind: str) -> None:
    with pytest.raises(SelectorError):
        field_matcher(selector, kind)
