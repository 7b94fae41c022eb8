"""All settings: environment variables with the prefix ``SLICEWATCH_``, each also a flag.

Every field says why one would change it; the command line's help and the documentation are made
from these texts. Secrets are :class:`pydantic.SecretStr` and appear in no log and no error.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AliasChoices, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from diagnosis.thresholds import Thresholds
from exporter.links import check_template

_DEFAULTS = Thresholds()
_CLUSTER = re.compile(
    r"(?:[a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9.:]*[A-Za-z0-9])?"
)


def _seconds(default: float, description: str) -> float:
    # Typed as its value, as pydantic's own Field is.
    value: float = Field(default, gt=0, le=30 * 86400, description=description)
    return value


class Settings(BaseSettings):
    """One immutable set of settings. Keyword arguments (flags) win over the environment."""

    model_config = SettingsConfigDict(
        env_prefix="SLICEWATCH_",
        frozen=True,
        extra="ignore",
        hide_input_in_errors=True,
        populate_by_name=True,
        env_ignore_empty=True,
    )

    # --- where to look
    kubernetes: Literal["auto", "on", "off"] = Field(
        "auto",
        description="Whether to ask Kubernetes. 'auto' asks where a kubeconfig or an in-cluster "
        "account is found, except when only Ray addresses were given: then the kubeconfig that "
        "happens to lie around has nothing to do with them.",
    )
    kubernetes_watch: Literal["on", "off"] = Field(
        "on",
        description="Whether 'serve' follows Kubernetes by watches, which cost the API server next "
        "to nothing while little changes. 'off' lists everything at each look: for an account that "
        "may list and not watch, or a proxy that cuts long answers.",
    )
    kubeconfig: Path | None = Field(
        None, description="The kubeconfig file, when it is neither $KUBECONFIG nor ~/.kube/config."
    )
    kube_context: str | None = Field(
        None, description="The kubeconfig context, when it is not the current one."
    )
    namespaces: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Only these namespaces (comma-separated). For an account that may not list "
        "across the cluster; nodes are cluster-wide and still need a ClusterRole.",
    )
    ray_addresses: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Dashboard addresses of Ray clusters (comma-separated URLs, port 8265), where "
        "there is no Kubernetes to find them. 'namespace/raycluster=URL' says where one that "
        "Kubernetes knows is reached.",
    )
    bundle: Path | None = Field(
        None, description="Show a bundle (folder, .tar.gz, .zip) instead of a live cluster."
    )
    demo: bool = Field(
        False, description="Set by 'slicewatch demo': adds the page that breaks things on purpose."
    )

    # --- credentials
    ray_token: SecretStr | None = Field(
        None,
        validation_alias=AliasChoices("SLICEWATCH_RAY_TOKEN", "RAY_AUTH_TOKEN"),
        description="The token of Ray clusters with token authentication; RAY_AUTH_TOKEN, which "
        "Ray's own tools use, is read too.",
    )
    ray_token_file: Path | None = Field(
        None,
        validation_alias=AliasChoices("SLICEWATCH_RAY_TOKEN_FILE", "RAY_AUTH_TOKEN_PATH"),
        description="A file with that token, read anew at each poll so that a rotated secret needs "
        "no restart; RAY_AUTH_TOKEN_PATH is read too.",
    )
    ray_ca_file: Path | None = Field(
        None,
        description="Certificates (PEM) to trust for https Ray addresses behind a private CA.",
    )
    prometheus_url: str | None = Field(
        None,
        description="A Prometheus that scrapes Ray's agents or the TPU device plugin. Without it "
        "the rules on what chips do (GangStalled, GangStraggler) have no data.",
    )

    # --- pace
    poll_interval: float = Field(
        10.0,
        ge=1,
        le=3600,
        description="Seconds between two looks at a source. A Ray head answers all callers from "
        "one thread, so several pollers at less than 10 s slow down everybody's dashboard.",
    )
    request_timeout: float = Field(
        10.0,
        ge=0.1,
        le=120,
        description="Seconds to wait for one answer. A healthy head takes 10 ms, a large one 3 s.",
    )
    max_body_mebibytes: int = Field(
        128,
        ge=1,
        le=4096,
        description="The largest answer that is read; 10,000 pods are 48 MB. A limit keeps one "
        "broken server from filling the memory.",
    )

    # --- serving
    host: str = Field(
        "127.0.0.1",
        description="The address to listen on; 0.0.0.0 in a container. What is shown names pods, "
        "jobs and errors, so it is not offered to the network unless asked.",
    )
    port: int = Field(8501, ge=1, le=65535, description="The one port of pages, metrics and API.")
    api_token: SecretStr | None = Field(
        None,
        description="When set, /metrics and /api/v1 want 'Authorization: Bearer' with this token.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="How much to log to standard error."
    )

    # --- links out of the dashboard
    link_ray: str | None = Field(
        None,
        description="Where the dashboard of a Ray cluster is, for links from its slices: a URL "
        "with {namespace} and {cluster} in it, as https://ray-{cluster}.example.com.",
    )
    link_console: str | None = Field(
        None,
        description="Where a pod is shown in the cloud's console: a URL with {namespace}, {pod}, "
        "{node}, {node_pool} or {cluster} in it. For GKE: https://console.cloud.google.com/"
        "kubernetes/pod/REGION/CLUSTER/{namespace}/{pod}/details?project=PROJECT.",
    )
    link_grafana: str | None = Field(
        None,
        description="A Grafana dashboard for one slice: a URL with {namespace}, {cluster}, {slice} "
        "or {node_pool} in it, as https://grafana.example.com/d/tpu?var-slice={slice}.",
    )

    # --- history: what was
    history: Literal["on", "off"] = Field(
        "on",
        description="Whether to keep what was, for the History page: changes, and looks to go back "
        "to. Off while a bundle is shown.",
    )
    history_path: Path | None = Field(
        None,
        description="The SQLite file of the history, when it is not slicewatch/history.sqlite in "
        "the user's state folder (~/.local/state). In a container: a path on a volume.",
    )
    history_url: SecretStr | None = Field(
        None,
        description="postgresql://USER:PASSWORD@HOST/DATABASE in place of a file, when several "
        "replicas run: one of them writes, the others take over from it.",
    )
    history_days: int = Field(
        14,
        gt=0,
        le=3650,
        description="How many days history goes back. Two weeks are enough for a post-mortem and "
        "the question whether it was so last week, too.",
    )
    history_mebibytes: int = Field(
        1024,
        ge=16,
        description="What history may take; the oldest looks go first. 1,000 hosts cost under 50 "
        "MB a day.",
    )

    # --- thresholds: what diagnosis/thresholds.py says, in seconds unless the name says otherwise
    slice_startup_grace: float = _seconds(
        _DEFAULTS.slice_startup_grace,
        "How long a slice may take to become whole before SliceIncomplete; a multi-host node pool "
        "takes 3 to 8 minutes, large images longer.",
    )
    placement_pending: float = _seconds(
        _DEFAULTS.placement_pending,
        "How long a TPU placement group may wait before PlacementPending; Ray itself gives up on "
        "a slice's head after 100 s.",
    )
    gang_startup_grace: float = _seconds(
        _DEFAULTS.gang_startup_grace,
        "Time for each rank of a gang to start before GangIncomplete.",
    )
    reservation_idle: float = _seconds(
        _DEFAULTS.reservation_idle,
        "How long a whole slice may be held without work before ReservationIdle.",
    )
    head_leak: float = _seconds(
        _DEFAULTS.head_leak,
        "How long a slice's head may be held without its slice before HeadReservationLeaked.",
    )
    host_age_gap: float = _seconds(
        _DEFAULTS.host_age_gap,
        "How much younger than its peers a host has to be for HostRestartedAlone.",
    )
    maintenance_soon: float = _seconds(
        _DEFAULTS.maintenance_soon,
        "How near a scheduled maintenance has to be to be a warning: the time a checkpoint takes.",
    )
    head_restart_hold_off: float = _seconds(
        _DEFAULTS.head_restart_hold_off,
        "After a Ray head restarts, how long Ray's side opens no finding.",
    )
    livelock_attempts: int = Field(
        _DEFAULTS.livelock_attempts,
        gt=0,
        description="Scheduling attempts of one waiting group beyond which it may be a livelock.",
    )
    livelock_rate_per_second: float = Field(
        _DEFAULTS.livelock_rate_per_second,
        gt=0,
        description="Attempts a second beyond which it is one; a healthy queue backs off.",
    )
    gang_stall: float = _seconds(
        _DEFAULTS.gang_stall,
        "How long all chips of a gang may do nothing before GangStalled; compiling and "
        "checkpointing take minutes.",
    )
    gang_stall_duty_cycle: float = Field(
        _DEFAULTS.gang_stall_duty_cycle,
        ge=0,
        le=1,
        description="The duty cycle (0 to 1) below which a chip counts as doing nothing.",
    )
    gang_straggler: float = _seconds(
        _DEFAULTS.gang_straggler,
        "How long the chips of few hosts may differ from the rest of their gang before "
        "GangStraggler; one rank may evaluate or write a checkpoint alone for a while.",
    )
    stale_polls: float = Field(
        _DEFAULTS.stale_polls,
        ge=1,
        description="How many polls old a source's last good answer may be before SourceStale.",
    )
    blip: float = _seconds(
        _DEFAULTS.blip,
        "A condition that the API itself dates further back than this needs no second look.",
    )
    replica_drift_grace: float = _seconds(
        _DEFAULTS.replica_drift_grace,
        "How long pods may differ from replicas times hosts before ReplicaDrift.",
    )

    @field_validator("namespaces", "ray_addresses", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return (
            tuple(re.split(r"[\s,]+", value.strip(", \t\n"))) if isinstance(value, str) else value
        )

    @field_validator("ray_addresses")
    @classmethod
    def _addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for address in value:
            split_address(address)
        return value

    @field_validator("history_url")
    @classmethod
    def _history(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not re.match(
            r"postgres(ql)?(\+psycopg)?://", value.get_secret_value()
        ):
            raise ValueError("is no postgresql:// address")
        return value

    @field_validator("link_ray", "link_console", "link_grafana")
    @classmethod
    def _template(cls, value: str | None) -> str | None:
        return check_template(value) if value else None

    @field_validator("prometheus_url")
    @classmethod
    def _prometheus(cls, value: str | None) -> str | None:
        return _base_url(value) if value else None

    @field_validator("ray_token_file", "ray_ca_file", "kubeconfig", "bundle", "history_path")
    @classmethod
    def _home(cls, value: Path | None) -> Path | None:
        return value.expanduser() if value is not None else None

    @property
    def thresholds(self) -> Thresholds:
        """The rules' thresholds as the engine takes them."""
        return Thresholds(**{name: getattr(self, name) for name in Thresholds.__struct_fields__})

    @property
    def asks_kubernetes(self) -> bool:
        """Whether to look for a Kubernetes connection at all."""
        if self.kubernetes == "auto":
            chosen = self.kubeconfig is not None or self.kube_context is not None
            named = any("/" in split_address(address)[0] for address in self.ray_addresses)
            return chosen or named or not self.ray_addresses
        return self.kubernetes == "on"


def split_address(text: str) -> tuple[str, str]:
    """``ml/train=http://host:8265`` → ``("ml/train", "http://host:8265")``; the name may be empty.

    Raises:
        ValueError: no address that HTTP reaches. The message never repeats a password.
    """
    name, equals, url = text.partition("=")
    if not equals or ("/" in name and "://" in name):
        name, url = "", text
    if name and not _CLUSTER.fullmatch(name):
        raise ValueError("the name before '=' is no 'namespace/raycluster' and no plain name")
    return name, _base_url(url)


def _base_url(text: str) -> str:
    """An http(s) URL without a slash at its end; ``host:port`` is taken for http."""
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("is no URL") from None
    if parts.scheme == "ray":
        raise ValueError("ray:// is the client's port; give the dashboard's, http://HOST:8265")
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError("is no http:// or https:// address")
    if parts.username or parts.password:
        raise ValueError("holds a password; give a token with SLICEWATCH_RAY_TOKEN instead")
    if parts.query or parts.fragment:
        raise ValueError("has a query or a fragment; give the address before it")
    return url.rstrip("/")


def explain_error(error: ValidationError) -> str:
    """One line that names each wrong setting; values are left out, as they may be secrets."""
    texts = []
    for item in error.errors(include_input=False, include_url=False):
        name = ".".join(str(part) for part in item["loc"]) or "settings"
        variable = name if name.isupper() else f"SLICEWATCH_{name.upper()}"
        texts.append(f"{variable}: {item['msg'].removeprefix('Value error, ')}")
    return "; ".join(texts)
