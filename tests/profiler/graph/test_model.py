"""Loading: what is refused, what is normalised, where weights may lie."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

from profiler.errors import ModelError
from profiler.graph import weights
from profiler.graph.model import load_model
from profiler.graph.weights import store_model
from tests.zoo import (
    ZOO,
    awkward_names,
    dead_branches,
    if_capture_nested,
    ir3_initializer_inputs,
    noise,
    parsed,
    resnet_toy,
    split_with_unnamed_output,
)


def save(proto: onnx.ModelProto, folder: Path, name: str = "m.onnx") -> Path:
    path = folder / name
    path.write_bytes(proto.SerializeToString())
    return path


def with_external_weight(location: str, length: int = 64 * 4, offset: int = 0) -> onnx.ModelProto:
    proto = parsed("g (float[2,64] x) => (float[2,64] y) { y = Add (x, w) }", {"w": noise(64)})
    tensor = proto.graph.initializer[0]
    set_external_data(tensor, location, offset=offset, length=length)
    tensor.ClearField("raw_data")
    return proto


def test_a_name_that_is_no_text_becomes_one(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/m\xff.onnx"))
    path.write_bytes(resnet_toy().proto.SerializeToString())
    assert load_model(path).identity.name == "m\N{REPLACEMENT CHARACTER}"


class TestRefusal:
    def test_no_such_file(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="there is no file"):
            load_model(tmp_path / "none.onnx")

    def test_a_folder(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match=r"name the \.onnx file in it"):
            load_model(tmp_path)

    def test_what_has_no_end(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "m.onnx")
        with pytest.raises(ModelError, match="it is a named pipe, not a file"):
            load_model(tmp_path / "m.onnx")
        with pytest.raises(ModelError, match="it is a device, not a file"):
            load_model("/dev/zero")

    @pytest.mark.parametrize("content", [b"", b"not a model", b"\x08\x08" * 40, b"\0" * 100])
    def test_not_a_model(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "m.onnx"
        path.write_bytes(content)
        with pytest.raises(ModelError, match="is not an ONNX model"):
            load_model(path)

    def test_truncated(self, tmp_path: Path) -> None:
        data = resnet_toy().proto.SerializeToString()
        path = tmp_path / "m.onnx"
        for size in range(1, len(data), len(data) // 40):
            path.write_bytes(data[:size])
            with pytest.raises(ModelError):
                load_model(path)

    def test_sparse_weights(self, tmp_path: Path) -> None:
        proto = resnet_toy().proto
        values = numpy_helper.from_array(np.ones(1, np.float32), "thin")
        indices = numpy_helper.from_array(np.zeros(1, np.int64), "thin_at")
        proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [9]))
        with pytest.raises(ModelError, match="'thin' is a sparse_initializer"):
            load_model(save(proto, tmp_path))

    def test_two_weights_of_one_name(self, tmp_path: Path) -> None:
        proto = resnet_toy().proto
        proto.graph.initializer[1].name = "w0"
        with pytest.raises(ModelError, match="two weights are called 'w0'"):
            load_model(save(proto, tmp_path))

    def test_a_sequence_as_input(self, tmp_path: Path) -> None:
        proto = resnet_toy().proto
        proto.graph.input.append(
            helper.make_tensor_sequence_value_info("many", TensorProto.FLOAT, None)
        )
        with pytest.raises(ModelError, match="'many' is of type sequence; no message carries it"):
            load_model(save(proto, tmp_path))

    def test_a_tensor_that_nothing_makes(self, tmp_path: Path) -> None:
        proto = resnet_toy().proto
        proto.graph.node[3].input[1] = "ghost"
        with pytest.raises(ModelError, match="reads 'ghost', which nothing makes"):
            load_model(save(proto, tmp_path))

    def test_a_tensor_that_is_given_and_made(self, tmp_path: Path) -> None:
        proto = resnet_toy().proto
        proto.graph.node[0].input[0] = "w0"
        proto.graph.node[0].output[0] = "x"
        with pytest.raises(ModelError, match="makes 'x', which is given"):
            load_model(save(proto, tmp_path))

    def test_a_cycle(self, tmp_path: Path) -> None:
        proto = resnet_toy().proto
        proto.graph.node[1].input[0] = "g"
        with pytest.raises(ModelError, match="needs its own result"):
            load_model(save(proto, tmp_path))

    def test_an_unknown_element_type(self, tmp_path: Path) -> None:
        proto = resnet_toy().proto
        proto.graph.input[0].type.tensor_type.elem_type = 999
        with pytest.raises(ModelError, match="unknown element type 999"):
            load_model(save(proto, tmp_path))

    def test_an_input_without_a_rank(self, tmp_path: Path) -> None:
        proto = resnet_toy().proto
        proto.graph.input[0].type.tensor_type.ClearField("shape")
        with pytest.raises(ModelError, match="'x' does not say how many axes it has"):
            load_model(save(proto, tmp_path))

    def test_a_tensor_made_twice(self, tmp_path: Path) -> None:
        proto = resnet_toy().proto
        proto.graph.node[4].output[0] = "a"
        proto.graph.node[5].input[0] = "a"
        proto.graph.node[6].input[1] = "a"
        with pytest.raises(ModelError, match="'a' is made twice"):
            load_model(save(proto, tmp_path))


class TestNormalising:
    def test_nodes_get_unique_stable_names(self, tmp_path: Path) -> None:
        loaded = load_model(save(awkward_names().proto, tmp_path))
        names = [node.name for node in loaded.graph.nodes]
        assert len(set(names)) == len(names)
        assert {"a/b", "a:b", "Schicht-β", "n" * 300} <= set(names)
        assert set(loaded.renamed) == {"#0", "#5", "twice"}
        again = load_model(save(awkward_names().proto, tmp_path, "again.onnx"))
        assert [node.name for node in again.graph.nodes] == names

    def test_weights_are_no_inputs(self, tmp_path: Path) -> None:
        loaded = load_model(save(ir3_initializer_inputs().proto, tmp_path))
        assert [slot.name for slot in loaded.graph.inputs] == ["x"]
        assert loaded.proto.ir_version >= 4

    def test_nodes_in_any_order_are_sorted(self, tmp_path: Path) -> None:
        proto = resnet_toy().proto
        wanted = [node.op_type for node in load_model(save(proto, tmp_path)).graph.nodes]
        nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in proto.graph.node]
        del proto.graph.node[:]
        proto.graph.node.extend(reversed(nodes))
        found = [node.op_type for node in load_model(save(proto, tmp_path)).graph.nodes]
        assert found == wanted

    def test_dead_nodes_and_weights_go(self, tmp_path: Path) -> None:
        loaded = load_model(save(dead_branches().proto, tmp_path))
        assert [node.op_type for node in loaded.graph.nodes] == ["Tanh", "MatMul"]
        assert set(loaded.graph.initializers) == {"w"}
        assert {slot.name for slot in loaded.graph.inputs} == {"x", "unused"}

    def test_captured_names_are_inputs_of_the_node_through_all_levels(self, tmp_path: Path) -> None:
        loaded = load_model(save(if_capture_nested().proto, tmp_path))
        node = loaded.graph.producer["b"]
        assert set(node.inputs) == {"cond", "c2", "m", "x", "a", "w"}

    def test_unnamed_split_outputs_get_names(self, tmp_path: Path) -> None:
        loaded = load_model(save(split_with_unnamed_output().proto, tmp_path))
        assert all(len(node.outputs) == 2 for node in loaded.graph.nodes if node.op_type == "Split")

    def test_a_quantisation_annotation_is_dropped(self, tmp_path: Path) -> None:
        proto = resnet_toy().proto
        proto.graph.quantization_annotation.add(tensor_name="a")
        assert not load_model(save(proto, tmp_path)).proto.graph.quantization_annotation

    @pytest.mark.parametrize("name", ZOO)
    def test_twice_is_once(self, name: str, tmp_path: Path) -> None:
        once = load_model(save(ZOO[name]().proto, tmp_path))
        twice = load_model(save(once.proto, tmp_path, "twice.onnx"))
        assert twice.proto == once.proto
        assert not twice.renamed


class TestExternalWeights:
    def test_are_read_where_they_lie(self, tmp_path: Path) -> None:
        (tmp_path / "w.data").write_bytes(b"\1" * 8 + noise(64).tobytes())
        path = save(with_external_weight("w.data", offset=8), tmp_path)
        folder = tmp_path / "stored"
        folder.mkdir()
        stored = store_model(load_model(path), folder)
        whole = onnx.load(stored.full)
        assert np.array_equal(numpy_helper.to_array(whole.graph.initializer[0]), noise(64))
        assert (tmp_path / "w.data").stat().st_size == 8 + 256  # nobody wrote there

    @pytest.mark.parametrize("location", ["../w.data", "/etc/passwd", "a/../../w.data", "w\0", ""])
    def test_may_not_leave_the_folder(self, location: str, tmp_path: Path) -> None:
        (tmp_path / "w.data").write_bytes(bytes(256))
        folder = tmp_path / "model"
        folder.mkdir()
        path = save(with_external_weight(location), folder)
        with pytest.raises(ModelError, match="leaves the model's folder"):
            load_model(path)

    def test_may_not_be_a_link_to_another_folder(self, tmp_path: Path) -> None:
        (tmp_path / "secret").write_bytes(bytes(256))
        folder = tmp_path / "model"
        folder.mkdir()
        (folder / "w.data").symlink_to(tmp_path / "secret")
        path = save(with_external_weight("w.data"), folder)
        with pytest.raises(ModelError, match="link to another folder"):
            load_model(path)

    def test_missing_or_short_files_are_named(self, tmp_path: Path) -> None:
        path = save(with_external_weight("w.data"), tmp_path)
        with pytest.raises(ModelError, match=r"'w\.data' is missing"):
            load_model(path)
        (tmp_path / "w.data").write_bytes(bytes(100))
        with pytest.raises(ModelError, match=r"ends at byte 256 of w\.data, which has 100"):
            store_model(load_model(path), tmp_path)

    @pytest.mark.parametrize("size", [256, 300])
    @pytest.mark.parametrize("declared", ["0", None])
    def test_without_a_length_the_shape_says_it(
        self, declared: str | None, size: int, tmp_path: Path
    ) -> None:
        (tmp_path / "w.data").write_bytes(noise(64).tobytes() + bytes(size - 256))
        proto = with_external_weight("w.data")
        entries = proto.graph.initializer[0].external_data
        length = next(i for i, entry in enumerate(entries) if entry.key == "length")
        if declared is None:
            del entries[length]
        else:
            entries[length].value = declared
        folder = tmp_path / "stored"
        folder.mkdir()
        whole = onnx.load(store_model(load_model(save(proto, tmp_path)), folder).full)
        assert np.array_equal(numpy_helper.to_array(whole.graph.initializer[0]), noise(64))

    def test_a_wrong_length_or_an_impossible_name_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "w.data").write_bytes(bytes(256))
        path = save(with_external_weight("w.data", length=200), tmp_path)
        with pytest.raises(ModelError, match="takes 256 bytes by its shape, but 200 are declared"):
            store_model(load_model(path), tmp_path)
        path = save(with_external_weight("w" * 5000), tmp_path)
        with pytest.raises(ModelError, match="is missing"):
            load_model(path)

    @pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
    def test_may_not_be_anything_but_a_file(
        self, make: Callable[[Path], None], tmp_path: Path
    ) -> None:
        make(tmp_path / "w.data")
        path = save(with_external_weight("w.data"), tmp_path)
        with pytest.raises(ModelError, match=r"weights location 'w\.data' is no file"):
            load_model(path)

    def test_a_file_that_shrinks_while_it_is_read_is_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(weights, "_CHUNK_BYTES", 1 << 16)  # more than Python reads ahead
        proto = parsed(
            "g (float[65536] x) => (float[65536] y) { y = Add (x, w) }", {"w": noise(65536)}
        )
        tensor = proto.graph.initializer[0]
        (tmp_path / "w.data").write_bytes(tensor.raw_data)
        set_external_data(tensor, "w.data")
        tensor.ClearField("raw_data")
        loaded = load_model(save(proto, tmp_path))
        chunks = weights.external_chunks(loaded.path, loaded.proto.graph.initializer[0])
        next(chunks)
        os.truncate(tmp_path / "w.data", 1 << 16)
        with pytest.raises(ModelError, match=r"w\.data became shorter while it was read"):
            list(chunks)

    def test_an_unknown_type_is_told(self, tmp_path: Path) -> None:
        proto = with_external_weight("w.data")
        (tmp_path / "w.data").write_bytes(bytes(256))
        proto.graph.initializer[0].data_type = 99
        with pytest.raises(ModelError):
            store_model(load_model(save(proto, tmp_path)), tmp_path)

    def test_mounted_volumes_and_hub_caches_work(self, tmp_path: Path) -> None:
        """Folders made of links: a Kubernetes volume, a hub's cache, a pointer to a version."""
        real = tmp_path / "..2026"
        real.mkdir()
        save(with_external_weight("w.data"), real)
        (real / "w.data").write_bytes(noise(64).tobytes())
        mount = tmp_path / "mount"
        mount.mkdir()
        (mount / "..data").symlink_to(real)
        snapshot = tmp_path / "snapshot"
        snapshot.mkdir()
        blobs = tmp_path / "blobs"
        blobs.mkdir()
        for name, blob in (("m.onnx", "ab12"), ("w.data", "cd34")):
            (mount / name).symlink_to(Path("..data") / name)
            (blobs / blob).write_bytes((real / name).read_bytes())
            (snapshot / name).symlink_to(Path("../blobs") / blob)
        (tmp_path / "current").symlink_to(real)
        for folder in (mount, snapshot, tmp_path / "current"):
            stored = tmp_path / f"stored-{folder.name}"
            stored.mkdir()
            store_model(load_model(folder / "m.onnx"), stored)

    def test_belong_to_the_digest(self, tmp_path: Path) -> None:
        path = save(with_external_weight("w.data"), tmp_path)
        (tmp_path / "w.data").write_bytes(bytes(256))
        first = load_model(path).identity
        (tmp_path / "w.data").write_bytes(b"\1" + bytes(255))
        assert load_model(path).identity.sha256 != first.sha256

    def test_a_model_larger_than_memory_takes_little(self, tmp_path: Path) -> None:
        """2.5 GB of weights, made of holes: structure is loaded, weights are streamed."""
        size = 2_500_000_000
        with (tmp_path / "w.data").open("wb") as stream:
            stream.truncate(size)
        rows = size // 4 // 100
        proto = parsed(
            "g (int64[1] i) => (float[1,100] y) { y = Gather (w, i) }",
        )
        tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[rows, 100])
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "w.data"), ("offset", "0"), ("length", str(size))):
            tensor.external_data.add(key=key, value=value)
        proto.graph.initializer.append(tensor)
        path = save(proto, tmp_path)
        assert path.stat().st_size < 1000
        loaded = load_model(path)
        assert loaded.graph.initializers["w"].shape == (rows, 100)
        assert loaded.proto.ByteSize() < 1000
