from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from diagnosis.thresholds import Thresholds
from settings import Settings, explain_error, split_address


def test_every_setting_says_why() -> None:
    for name, field in Settings.model_fields.items():
        assert field.description, name
        assert len(field.description) > 25, name


def test_every_threshold_is_a_setting() -> None:
    assert Settings().thresholds == Thresholds()
    for name in Thresholds.__struct_fields__:
        assert name in Settings.model_fields
    assert Settings(blip=7).thresholds.blip == 7.0


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "SLICEWATCH_RAY_ADDRESSES": "http://a:8265, ml/train=b:8265",
        "SLICEWATCH_NAMESPACES": "a,b c",
        "SLICEWATCH_POLL_INTERVAL": "",
        "SLICEWATCH_KUBECONFIG": "~/kube",
        "RAY_AUTH_TOKEN": "s3cret",
        "RAY_AUTH_TOKEN_PATH": "/run/token",
    }.items():
        monkeypatch.setenv(name, value)
    settings = Settings()
    assert settings.ray_addresses == ("http://a:8265", "ml/train=b:8265")
    assert settings.namespaces == ("a", "b", "c")
    assert settings.poll_interval == 10.0
    assert settings.kubeconfig == Path("/nonexistent/kube")
    assert settings.ray_token_file == Path("/run/token")
    assert settings.ray_token is not None
    assert settings.ray_token.get_secret_value() == "s3cret"
    assert "s3cret" not in repr(settings)
    assert "s3cret" not in settings.model_dump_json()
    monkeypatch.setenv("SLICEWATCH_RAY_TOKEN", "mine")
    token = Settings().ray_token
    assert token is not None
    assert token.get_secret_value() == "mine"
    assert Settings(namespaces=("x",)).namespaces == ("x",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://a:8265", ("", "http://a:8265")),
        ("a:8265/", ("", "http://a:8265")),
        ("https://a/ray/", ("", "https://a/ray")),
        ("[::1]:8265", ("", "http://[::1]:8265")),
        ("ml/train=http://a:1", ("ml/train", "http://a:1")),
        ("lab=a:1", ("lab", "http://a:1")),
    ],
)
def test_addresses(text: str, expected: tuple[str, str]) -> None:
    assert split_address(text) == expected


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ray_addresses": "ray://a:10001"}, "8265"),
        ({"ray_addresses": "http://user:hunter2@a"}, "password"),
        ({"ray_addresses": "http://a?x=1"}, "query"),
        ({"ray_addresses": "a/../b=http://a"}, "name before"),
        ({"ray_addresses": "ftp://a"}, "http"),
        ({"ray_addresses": "http://"}, "http"),
        ({"ray_addresses": "http://a:99999"}, "URL"),
        ({"prometheus_url": "hunter2://x"}, "http"),
        ({"poll_interval": 0}, "SLICEWATCH_POLL_INTERVAL"),
        ({"port": "hunter2"}, "SLICEWATCH_PORT"),
        ({"api_token": ["hunter2"]}, "SLICEWATCH_API_TOKEN"),
        ({"kubernetes": "maybe"}, "SLICEWATCH_KUBERNETES"),
    ],
)
def test_wrong_settings_are_one_line_without_secrets(
    options: dict[str, object], words: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(**options)  # type: ignore[arg-type]
    line = explain_error(caught.value)
    assert words in line
    assert "\n" not in line
    assert "hunter2" not in line
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "asks"),
    [
        ({}, True),
        ({"ray_addresses": "a:1"}, False),
        ({"ray_addresses": "ml/train=a:1"}, True),
        ({"ray_addresses": "a:1", "kube_context": "c"}, True),
        ({"ray_addresses": "a:1", "kubernetes": "on"}, True),
        ({"kubernetes": "off"}, False),
    ],
)
def test_when_kubernetes_is_asked(options: dict[str, object], asks: bool) -> None:
    assert Settings(**options).asks_kubernetes is asks  # type: ignore[arg-type]
