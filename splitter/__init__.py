"""Decides where to cut a model, cuts it, and writes what device and cloud run.

Names load on first use, so that a board, which has no onnx, can open bundles.
"""

from __future__ import annotations

from protocol.lazy import lazy_exports

_MODULES = {
    "Box": "family",
    "Bundle": "bundle",
    "BundleContents": "bundle_writer",
    "BundleError": "errors",
    "BundledCut": "bundle",
    "Candidate": "plans",
    "CrossingTensor": "plans",
    "Cut": "cuts",
    "CutError": "errors",
    "CutSpace": "cuts",
    "Decision": "bundle",
    "Explanation": "explanation",
    "ExtractionError": "errors",
    "Family": "family",
    "FrontierTensor": "bundle",
    "Hop": "situation",
    "InputEncoding": "situation",
    "Keep": "wishes",
    "Lack": "wishes",
    "Limit": "wishes",
    "Load": "wishes",
    "ModelConfig": "model_config",
    "Objective": "wishes",
    "Pin": "wishes",
    "Plan": "plans",
    "PlanError": "errors",
    "Prediction": "plans",
    "Prices": "wishes",
    "Situation": "situation",
    "SplitterError": "errors",
    "Wishes": "wishes",
    "bundle_workspace": "workspace",
    "disagreement": "extraction",
    "explain": "explanation",
    "extract_tail": "extraction",
    "find_model_config": "model_config",
    "is_bundle": "bundle",
    "make_plan": "planner",
    "open_bundle": "bundle",
    "picture_encoding": "pictures",
    "plan": "api",
    "plan_family": "family",
    "run_parts": "extraction",
    "write_bundle": "bundle_writer",
    "write_head": "extraction",
    "write_part": "extraction",
    "write_tail": "extraction",
}

__all__ = sorted(_MODULES)
__getattr__ = lazy_exports(__name__, _MODULES)
