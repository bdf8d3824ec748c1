"""Decides where to cut a model, cuts it, and writes what device and cloud run.

Names load on first use, so that a board, which has no onnx, can open bundles.
"""

from __future__ import annotations

from protocol.lazy import lazy_exports

_MODULES = {
    "Bundle": "bundle",
    "BundleContents": "bundle_writer",
    "BundleError": "errors",
    "BundledCut": "bundle",
    "Candidate": "plan",
    "CrossingTensor": "plan",
    "Cut": "cuts",
    "CutError": "errors",
    "CutSpace": "cuts",
    "Decision": "bundle",
    "ExtractionError": "errors",
    "FrontierTensor": "bundle",
    "InputEncoding": "situation",
    "ModelConfig": "model_config",
    "Plan": "plan",
    "PlanError": "errors",
    "Prediction": "plan",
    "Situation": "situation",
    "SplitterError": "errors",
    "bundle_workspace": "workspace",
    "disagreement": "extraction",
    "extract_tail": "extraction",
    "find_model_config": "model_config",
    "is_bundle": "bundle",
    "make_plan": "planner",
    "open_bundle": "bundle",
    "picture_encoding": "pictures",
    "run_parts": "extraction",
    "write_bundle": "bundle_writer",
    "write_head": "extraction",
    "write_part": "extraction",
    "write_tail": "extraction",
}

__all__ = sorted(_MODULES)
__getattr__ = lazy_exports(__name__, _MODULES)
