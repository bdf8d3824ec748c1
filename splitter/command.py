"""Where ``split-plan`` starts. Light, so that missing packages can be told in one line."""

from __future__ import annotations

from protocol.command import extra_command

main = extra_command("splitter.cli", "plan")
