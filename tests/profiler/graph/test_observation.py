"""What a real run shows: fused units, dtypes, axes that vary, sizes; crashes stay in the child."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from profiler.errors import EngineError
from profiler.graph.model import load_model
from profiler.graph.observation import Observation, observe
from profiler.graph.weights import StoredModel, store_model
from tests import zoo


def run(model: zoo.ZooModel, folder: Path, codecs: tuple[str, ...] = ()) -> Observation:
    return observe(stored(model, folder), model.feeds, codecs)


def stored(model: zoo.ZooModel, folder: Path) -> StoredModel:
    path = folder / "m.onnx"
    path.write_bytes(model.proto.SerializeToString())
    return store_model(load_model(path), folder)


def types_of_units(observation: Observation, model: zoo.ZooModel, folder: Path) -> list[list[str]]:
    graph = load_model(folder / "m.onnx").graph
    return [[graph.by_name[name].op_type for name in unit.nodes] for unit in observation.units]


class TestUnits:
    def test_convolution_normalisation_and_activation_stay_together(self, tmp_path: Path) -> None:
        model = zoo.chain_cnn()
        units = types_of_units(run(model, tmp_path), model, tmp_path)
        assert units[:2] == [["Conv", "BatchNormalization", "Relu"]] * 2

    def test_an_addition_folded_by_the_layout_pass_stays_with_its_convolution(
        self, shared: Path, tmp_path: Path
    ) -> None:
        loaded = load_model(shared / "models" / "efficientnet_lite0.onnx")
        feeds = {"image": zoo.noise(1, 3, 224, 224)}
        units = observe(store_model(loaded, tmp_path), feeds).units
        adds = [
            [loaded.graph.by_name[name].op_type for name in unit.nodes]
            for unit in units
            if any(loaded.graph.by_name[name].op_type == "Add" for name in unit.nodes)
        ]
        assert len(adds) == 9
        # Whether the runtime uses the blocked layout depends on the processor it runs on.
        assert all(kinds in (["Conv", "Add"], ["Add"]) for kinds in adds)

    @pytest.mark.parametrize("make", [zoo.qdq_per_tensor, zoo.qdq_per_channel])
    def test_only_the_quantised_tensor_may_cross(self, make: type, tmp_path: Path) -> None:
        model: zoo.ZooModel = make()
        observation = run(model, tmp_path)
        crossing = {name for unit in observation.units for name in unit.outputs} - {"y"}
        assert crossing == {"q", "q0", "q1", "qa"}
        assert {observation.tensors[name].slot.dtype for name in crossing} == {"uint8"}

    def test_gelu_and_layer_normalisation_are_whole(self, tmp_path: Path) -> None:
        model = zoo.transformer_block()
        units = types_of_units(run(model, tmp_path), model, tmp_path)
        gelu = next(kinds for kinds in units if "Erf" in kinds)
        assert {"Div", "Erf", "Add", "Mul"} <= set(gelu)

    @pytest.mark.parametrize("make", zoo.ZOO.values(), ids=zoo.ZOO)
    def test_units_are_a_topological_partition(self, make: type, tmp_path: Path) -> None:
        observation = run(make(), tmp_path)
        graph = load_model(tmp_path / "m.onnx").graph
        names = [node for unit in observation.units for node in unit.nodes]
        assert sorted(names) == sorted(node.name for node in graph.regular)
        known = set(graph.input_names)
        for unit in observation.units:
            assert known.issuperset(unit.inputs), unit
            known.update(unit.outputs)


class TestTensors:
    def test_axes_that_vary_are_free(self, tmp_path: Path) -> None:
        tensors = run(zoo.batch_concat(), tmp_path).tensors
        assert tensors["b"].slot.shape == (None, 4)
        assert tensors["b"].shape == (6, 4)
        assert tensors["x"].slot.shape == (None, 4)

    def test_axes_that_depend_on_values_are_free(self, tmp_path: Path) -> None:
        tensors = run(zoo.detector(), tmp_path).tensors
        shapes = {name: tensors[name].slot.shape for name in ("t", "kept", "flat", "chosen", "y")}
        assert shapes == {
            "t": (1, 8, 6),
            "kept": (None, 3),
            "flat": (None,),
            "chosen": (None, 6),
            "y": (None, 6),
        }

    def test_axes_that_follow_from_a_branch_or_a_size_that_is_fed_are_free(
        self, tmp_path: Path
    ) -> None:
        tensors = run(zoo.branches_of_two_shapes(), tmp_path).tensors
        free = {name for name, tensor in tensors.items() if tensor.slot.shape == (None,)}
        assert free == {"b", "top", "at", "numbers", "f", "s", "y", "z"}

    def test_axes_that_follow_from_shapes_are_fixed(self, tmp_path: Path) -> None:
        model = zoo.dynamic_reshape()
        model.proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
        tensors = run(model, tmp_path).tensors
        assert all(None not in tensor.slot.shape for tensor in tensors.values())

    def test_wrong_declarations_are_not_believed(self, tmp_path: Path) -> None:
        assert run(zoo.wrong_value_info(), tmp_path).tensors["b"].slot.shape == (1, 8, 12, 12)

    @pytest.mark.parametrize(
        ("make", "name"), [(zoo.string_inside, "s"), (zoo.sequence_inside, "q")]
    )
    def test_what_cannot_be_sent_is_marked(self, make: type, name: str, tmp_path: Path) -> None:
        tensors = run(make(), tmp_path).tensors
        assert [key for key, tensor in tensors.items() if not tensor.sendable] == [name]

    def test_dtypes_of_scalars_integers_and_booleans(self, tmp_path: Path) -> None:
        tensors = run(zoo.scalar_and_integer_frontier(), tmp_path).tensors
        kinds = {
            name: (tensors[name].slot.dtype, tensors[name].shape) for name in ("m", "i", "big")
        }
        assert kinds == {"m": ("float32", ()), "i": ("int64", (3, 1)), "big": ("bool", (3, 4))}

    def test_sizes_are_of_the_encoded_tensors(self, tmp_path: Path) -> None:
        tensors = run(zoo.resnet_toy(), tmp_path, ("affine8", "raw")).tensors
        sizes = tensors["e"].encoded_bytes
        assert 0 < sizes["affine8"] < sizes["raw"] <= tensors["e"].raw_bytes + 64
        assert not tensors["a"].encoded_bytes  # inside a unit: it never crosses


class TestTrouble:
    def test_a_crash_of_the_runtime_is_an_error_not_a_crash_of_ours(self, tmp_path: Path) -> None:
        model = stored(zoo.split_with_unnamed_output(), tmp_path)
        proto = onnx.load(model.full)
        split = next(node for node in proto.graph.node if node.op_type == "Split")
        split.output[0] = ""  # undo the repair
        model.full.write_bytes(proto.SerializeToString())
        with pytest.raises(EngineError, match=r"crashed on this model|cannot run this model"):
            observe(model, zoo.split_with_unnamed_output().feeds)

    def test_an_unknown_operator_is_named(self, tmp_path: Path) -> None:
        model = zoo.runtime_operator()
        model.proto.graph.node[1].op_type = "Frobnicate"
        with pytest.raises(EngineError, match="Frobnicate") as caught:
            run(model, tmp_path)
        assert "ONNXRuntimeError" not in str(caught.value)

    def test_an_opset_newer_than_the_runtime_is_named(self, tmp_path: Path) -> None:
        model = zoo.resnet_toy()
        model.proto.opset_import[0].version = 99
        with pytest.raises(EngineError, match=r"(?i)opset"):
            run(model, tmp_path)

    def test_a_second_run_that_fails_leaves_the_axes_free(self, tmp_path: Path) -> None:
        """The model runs at batch 2 only, though it declares its batch free."""
        proto = zoo.parsed(
            "g (float[N,6] x) => (float[2,6] y) { a = Tanh (x) y = Reshape (a, s) }",
            {"s": np.array([2, 6])},
        )
        tensors = run(zoo.ZooModel(proto, {"x": zoo.noise(2, 6)}), tmp_path).tensors
        assert tensors["a"].slot.shape == (None, None)
        assert tensors["a"].shape == (2, 6)
