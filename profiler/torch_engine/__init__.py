"""Runs ONNX models with PyTorch. Needs onnx and torch; nothing else here imports torch."""

from __future__ import annotations

from profiler.torch_engine.engine import StepTime, TorchEngine, TorchSession

__all__ = ["StepTime", "TorchEngine", "TorchSession"]
