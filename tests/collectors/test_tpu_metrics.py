from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.fetching import FetchError
from collectors.tpu_metrics import (
    BYTE_METRICS,
    PERCENT_METRICS,
    parse_exposition,
    parse_labels,
    render_exposition,
)
from collectors.tpu_prometheus import PrometheusSamples, decode_query, with_samples
from fleet.observation import (
    KubernetesObservation,
    ObjectMeta,
    Pod,
    PodStatus,
    RayNode,
    RayObservation,
    SourceStatus,
    TpuSample,
)
from tests.collectors.servers import Answer, Server

RAY = 'ray_tpu_duty_cycle{NodeAddress="10.0.0.1",RayNodeId="ab",TpuIndex="2",TpuType="v6e"} 97.5\n'
PLUGIN = (
    'duty_cycle{make="cloud-tpu",namespace="ml",pod="w-0",container="c",'
    'accelerator_id="1-0"} 12 1796032800000\n'
)


def test_both_exporters() -> None:
    parsed = parse_exposition("# HELP x\n# TYPE x gauge\nother 1\n\n" + RAY + PLUGIN)
    assert parsed.malformed == ()
    assert parsed.samples == (
        TpuSample(metric="duty_cycle", value=97.5, chip="2", ray_node_id="ab", node_ip="10.0.0.1"),
        TpuSample(metric="duty_cycle", value=12.0, chip="1-0", pod="w-0", namespace="ml"),
    )


def test_the_scrapers_own_label_names_the_host() -> None:
    (sample,) = parse_exposition('ray_tpu_duty_cycle{instance="10.0.0.1:44217"} 1\n').samples
    assert sample.node_ip == "10.0.0.1"
    (sample,) = parse_exposition('ray_tpu_duty_cycle{instance="[fd00::1]:44217"} 1\n').samples
    assert sample.node_ip == "fd00::1"


def test_gpus_have_the_same_names() -> None:
    assert parse_exposition('duty_cycle{make="nvidia",pod="p"} 1\n').samples == ()


@pytest.mark.parametrize("value", ["x", "-1", "101.5", "+Inf", "1e999", "0x10"])
def test_values_that_cannot_be(value: str) -> None:
    parsed = parse_exposition(f"ray_tpu_duty_cycle {value}\n{RAY}")
    assert len(parsed.samples) == 1
    assert parsed.malformed == ("tpu_metrics: line 1: duty_cycle cannot have this value",)


@pytest.mark.parametrize(
    "line", ['ray_tpu_duty_cycle{a="b} 3', "ray_tpu_duty_cycle", "ray_tpu_duty_cycle{a} 3"]
)
def test_lines_that_are_none(line: str) -> None:
    assert parse_exposition(line).malformed == ("tpu_metrics: line 1: is no sample",)


def test_no_number_is_no_data() -> None:
    parsed = parse_exposition("ray_tpu_duty_cycle NaN\n")
    assert (parsed.samples, parsed.malformed) == ((), ())


def test_labels() -> None:
    assert parse_labels('a="1", b="x\\"y\\\\\\n",') == {"a": "1", "b": 'x"y\\\n'}
    assert parse_labels("") == {}
    assert parse_labels('a="1" b="2"') is None


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=20)


@given(
    st.lists(
        st.builds(
            TpuSample,
            metric=st.sampled_from((*PERCENT_METRICS, *BYTE_METRICS)),
            value=st.floats(0, 100),
            chip=TEXT,
            ray_node_id=st.none() | TEXT.filter(bool),
            pod=st.none() | TEXT.filter(bool),
        ),
        max_size=5,
    )
)
def test_what_is_rendered_parses_the_same(samples: list[TpuSample]) -> None:
    assert parse_exposition(render_exposition(samples)).samples == tuple(samples)


# --- Prometheus -------------------------------------------------------------------------------


def query_answer(*series: tuple[dict[str, str], str]) -> bytes:
    result = [{"metric": labels, "value": [1796032800.1, value]} for labels, value in series]
    data = {"resultType": "vector", "result": result}
    return json.dumps({"status": "success", "data": data}).encode()


def test_a_query(server: Server) -> None:
    import asyncio

    body = query_answer(
        ({"__name__": "ray_tpu_duty_cycle", "RayNodeId": "ab", "TpuIndex": "0"}, "50"),
        ({"__name__": "duty_cycle", "make": "nvidia"}, "50"),
        ({"__name__": "duty_cycle", "pod": "p", "namespace": "ml"}, "NaN"),
        ({"__name__": "up"}, "1"),
    )
    server.routes["/api/v1/query"] = Answer(body)

    async def look() -> list[object]:
        source = PrometheusSamples(server.url, timeout=5)
        await source.look()
        first = source.latest
        server.routes["/api/v1/query"] = Answer(b"", 500)
        await source.look()
        await source.aclose()
        return [first, source.latest]

    first, second = asyncio.run(look())
    assert first == (TpuSample(metric="duty_cycle", value=50.0, chip="0", ray_node_id="ab"),)
    assert second is None
    assert "ray_tpu_" in server.requests[0].query["query"][0]


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"status": "error", "error": "boom"}', b"[" * 100_000]
)
def test_what_is_no_query_api(body: bytes) -> None:
    with pytest.raises(FetchError):
        decode_query(body)


def ray(name: str, *nodes: tuple[str, str, str]) -> RayObservation:
    return RayObservation(
        source=SourceStatus(name=f"ray:ml/{name}", status="ok"),
        namespace="ml",
        cluster=name,
        nodes=tuple(RayNode(node_id=i, node_ip=ip, state=state) for i, ip, state in nodes),
    )


def test_samples_find_their_cluster() -> None:
    looks = (
        ray("one", ("a", "10.0.0.1", "ALIVE"), ("b", "10.0.0.9", "DEAD")),
        ray(
            "two",
            ("c", "10.0.0.9", "ALIVE"),
            ("d", "10.0.0.7", "ALIVE"),
            ("e", "10.0.0.7", "ALIVE"),
        ),
    )
    pod = Pod(metadata=ObjectMeta(name="w", namespace="ml"), status=PodStatus(pod_i_p="10.0.0.1"))
    kubernetes = KubernetesObservation(
        source=SourceStatus(name="kubernetes", status="ok"), pods=(pod,)
    )

    def sample(**labels: str) -> TpuSample:
        return TpuSample(metric="duty_cycle", value=1.0, **labels)

    samples = (
        sample(ray_node_id="c"),
        sample(node_ip="10.0.0.9"),
        sample(node_ip="10.0.0.7"),
        sample(pod="w", namespace="ml"),
        sample(pod="w", namespace="other"),
        sample(ray_node_id="zz"),
    )
    one, two = with_samples(looks, samples, kubernetes)
    assert [item.ray_node_id for item in one.tpu_samples or ()] == ["a"]
    assert [item.ray_node_id for item in two.tpu_samples or ()] == ["c", "c"]
    assert with_samples(looks, None, kubernetes) == looks
