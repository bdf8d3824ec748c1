"""Values that describe models and their tensors. Light."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

WHOLE_ONLY = (
    "no message carries it, so the model can only run whole, on the device: "
    "give it to ONNX Runtime there, without a plan"
)
"""What becomes of a model with an input or output that cannot be sent."""


@dataclass(frozen=True)
class TensorSlot:
    """An input or output of a model.

    Attributes:
        name: The tensor's name in the model.
        dtype: A numpy dtype name such as ``float32``.
        shape: One entry per axis; ``None`` where the axis may vary from run to run.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping."""
        return {"name": self.name, "dtype": self.dtype, "shape": list(self.shape)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TensorSlot:
        """Read what :meth:`to_dict` wrote."""
        return cls(str(data["name"]), str(data["dtype"]), tuple(data["shape"]))

    def accepts(self, dtype: str, shape: tuple[int, ...]) -> bool:
        """Whether a concrete tensor fits: same dtype, same rank, equal fixed axes."""
        return (
            dtype == self.dtype
            and len(shape) == len(self.shape)
            and all(
                want is None or want == got for want, got in zip(self.shape, shape, strict=True)
            )
        )


@dataclass(frozen=True)
class ModelIdentity:
    """Which model: its file name without suffix, and the digest of its bytes.

    The digest is the SHA-256 of the model file; where weights lie outside it, the SHA-256 over the
    digests of the model file and of each weights file.
    """

    name: str
    sha256: str

    def to_dict(self) -> dict[str, str]:
        """Return a JSON-ready mapping."""
        return {"name": self.name, "sha256": self.sha256}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ModelIdentity:
        """Read what :meth:`to_dict` wrote."""
        return cls(str(data["name"]), str(data["sha256"]))
