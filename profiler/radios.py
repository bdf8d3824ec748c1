"""Published power models of radios, by name. Needs yaml."""

from __future__ import annotations

from typing import Any

import yaml

from profiler.configs import CONFIGS
from profiler.energy import Radio
from profiler.errors import RadioError
from protocol.text import did_you_mean, quoted

__all__ = ["load_radio", "radio_names"]

_FILE = CONFIGS / "radios.yaml"


def radio_names() -> list[str]:
    """Return the names of all radios."""
    return sorted(_read())


def load_radio(name: str) -> Radio:
    """Return a radio.

    Raises:
        RadioError: There is none of this name, or the file is broken.
    """
    radios = _read()
    if name not in radios:
        raise RadioError(
            f"there is no radio {quoted(name)}{did_you_mean(name, sorted(radios))}; "
            f"radios: {', '.join(sorted(radios))}"
        )
    fields = radios[name]
    try:
        beta_mw = fields.get("beta_mw")
        tail = fields.get("tail", {"ms": 0, "mw": 0})
        return Radio(
            name=name,
            alpha_up_mw_per_mbps=fields["alpha_up_mw_per_mbps"],
            alpha_down_mw_per_mbps=fields["alpha_down_mw_per_mbps"],
            beta_up_mw=fields["beta_up_mw"] if beta_mw is None else beta_mw,
            beta_down_mw=fields["beta_down_mw"] if beta_mw is None else beta_mw,
            base_mw=fields["base_mw"],
            tail_mw=tail["mw"],
            tail_ms=tail["ms"],
            verified=fields["verified"],
        )
    except (AttributeError, KeyError, TypeError) as problem:
        raise RadioError(f"radio {name!r} in {_FILE} is broken: {problem!r}") from problem


def _read() -> dict[str, Any]:
    try:
        radios = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as problem:
        raise RadioError(f"cannot read {_FILE}: {problem}") from problem
    if not isinstance(radios, dict):
        raise RadioError(f"{_FILE} is broken: it must map names to radios")
    return radios
