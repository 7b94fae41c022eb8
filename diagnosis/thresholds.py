"""The numbers that rules compare against. Each says why it is what it is; all are settings."""

from __future__ import annotations

import msgspec


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """All in seconds unless the name says otherwise."""

    slice_startup_grace: float = 600.0
    """A multi-host pool is made as a unit in 3 to 8 minutes; ten leaves room for the image pull."""
    placement_pending: float = 120.0
    """``slice_placement_group`` gives up on a head after 100 s by default; longer is not normal."""
    gang_startup_grace: float = 300.0
    """Time for each rank to pull its image, import its libraries and start."""
    reservation_idle: float = 900.0
    """Between two jobs of one driver a slice may rest for minutes; not for a quarter of an hour."""
    head_leak: float = 120.0
    """Between the head reservation and its worker group lie seconds, not minutes."""
    host_age_gap: float = 600.0
    """Hosts of one slice start within minutes of each other; a gap above this is a lone restart."""
    maintenance_soon: float = 3600.0
    """An hour is enough to checkpoint and move a job."""
    head_restart_hold_off: float = 30.0
    """Two heads can be ALIVE for 15 s after a restart, and a node's death is noticed 30 s late."""
    livelock_attempts: int = 1000
    """A healthy queue backs off: hundreds in an hour. A livelock makes 100,000 a second."""
    livelock_rate_per_second: float = 10.0
    gang_stall: float = 600.0
    """Compilation, checkpointing and evaluation leave chips idle for minutes; ten is too long."""
    gang_stall_duty_cycle: float = 0.01
    gang_straggler: float = 120.0
    """One rank may evaluate or write a checkpoint alone for a while; two minutes is no accident."""
    stale_polls: float = 3.0
    """Two lost answers are weather; three in a row are a fault."""
    blip: float = 30.0
    """A condition that the API itself dates further back than this is no blip of one poll."""
    replica_drift_grace: float = 600.0
