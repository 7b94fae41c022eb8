"""Links out: no name from a cluster can change where one leads."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.links import TemplateError, check_template, expand
from tests.factories import HOSTILE

GRAFANA = "https://grafana.example.com/d/tpu?var-slice={slice}&var-pod={pod}"
RAY = "https://ray-{cluster}.{namespace}.example.com/#/cluster"


def test_fields_are_quoted() -> None:
    assert expand(GRAFANA, {"slice": "a&b=c/../d", "pod": "p 1"}) == (
        "https://grafana.example.com/d/tpu?var-slice=a%26b%3Dc%2F..%2Fd&var-pod=p%201"
    )


def test_what_is_not_known_makes_no_link() -> None:
    assert expand(GRAFANA, {"slice": "a", "pod": None}) is None
    assert expand(None, {"slice": "a"}) is None


def test_a_cluster_may_name_a_host_only_as_a_dns_label() -> None:
    assert expand(RAY, {"cluster": "train", "namespace": "ml"}) == (
        "https://ray-train.ml.example.com/#/cluster"
    )
    assert expand(RAY, {"cluster": "evil.com/x", "namespace": "ml"}) is None
    assert expand(RAY, {"cluster": HOSTILE, "namespace": "ml"}) is None


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("javascript:alert(1)", "no http"),
        ("ftp://x/{slice}", "no http"),
        ("https://x/{secret}", "names {secret}"),
        ("https://{slice}.example.com/", "in the host"),
        ("https://x/{slice", "a brace"),
        ("https://x/{}", "names {}"),
    ],
)
def test_a_wrong_template_is_refused_with_a_reason(template: str, says: str) -> None:
    with pytest.raises(TemplateError, match=says.replace("{", r"\{").replace("}", r"\}")):
        check_template(template)


@given(st.text(min_size=1))
def test_the_host_never_changes(name: str) -> None:
    found = expand(check_template(GRAFANA), {"slice": name, "pod": name})
    assert found is not None
    assert urlsplit(found).netloc == "grafana.example.com"
    assert urlsplit(found).fragment == ""
