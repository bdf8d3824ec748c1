"""Settings of this package's property tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Examples have no deadline and may be slow to draw: a busy machine is no failure.
settings.register_profile("protocol", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("protocol")
