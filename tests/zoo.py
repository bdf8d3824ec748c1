"""Tiny models made in code, each with one trap in it, and feeds to run them with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Feeds = dict[str, NDArray[Any]]

_HEADER = '<ir_version: 8, opset_import: ["": 17, "local": 1]>\n'


@dataclass(frozen=True)
class ZooModel:
    proto: onnx.ModelProto
    feeds: Feeds


ZOO: dict[str, Callable[[], ZooModel]] = {}


def zoo(make: Callable[[], ZooModel]) -> Callable[[], ZooModel]:
    ZOO[make.__name__] = make
    return make


def parsed(text: str, weights: Mapping[str, NDArray[Any]] | None = None) -> onnx.ModelProto:
    """Read a model in ONNX text form and give it weights."""
    model = onnx.parser.parse_model(_HEADER + text)
    for name, value in (weights or {}).items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return model


def noise(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32) * 0.5


def conv_weights(names: str, *shapes: tuple[int, ...]) -> dict[str, NDArray[Any]]:
    return {
        name: noise(*shape, seed=i)
        for i, (name, shape) in enumerate(zip(names.split(), shapes, strict=True))
    }


@zoo
def chain_cnn() -> ZooModel:
    batch_norm = {f"s{i}": np.abs(noise(8, seed=i)) + 0.5 for i in range(2)}
    batch_norm |= {f"b{i}": noise(8, seed=i) for i in range(2)}
    batch_norm |= {f"m{i}": noise(8, seed=9 + i) for i in range(2)}
    batch_norm |= {f"v{i}": np.abs(noise(8, seed=19 + i)) + 0.5 for i in range(2)}
    proto = parsed(
        """chain (float[1,3,16,16] x) => (float[1,10] y) {
        c0 = Conv <pads=[1,1,1,1]> (x, w0)
        n0 = BatchNormalization (c0, s0, b0, m0, v0)
        r0 = Relu (n0)
        c1 = Conv <pads=[1,1,1,1], strides=[2,2]> (r0, w1)
        n1 = BatchNormalization (c1, s1, b1, m1, v1)
        r1 = Relu (n1)
        p = GlobalAveragePool (r1)
        f = Flatten (p)
        y = Gemm (f, w2, g) }""",
        conv_weights("w0 w1 w2 g", (8, 3, 3, 3), (8, 8, 3, 3), (8, 10), (10,)) | batch_norm,
    )
    return ZooModel(proto, {"x": noise(1, 3, 16, 16)})


@zoo
def resnet_toy() -> ZooModel:
    proto = parsed(
        """resnet (float[1,8,12,12] x) => (float[1,8,12,12] y) {
        a = Conv <pads=[1,1,1,1]> (x, w0)
        b = Relu (a)
        c = Conv <pads=[1,1,1,1]> (b, w1)
        d = Add (c, x)
        e = Relu (d)
        f = Conv <pads=[1,1,1,1]> (e, w2)
        g = Add (f, e)
        y = Relu (g) }""",
        conv_weights("w0 w1 w2", *[(8, 8, 3, 3)] * 3),
    )
    return ZooModel(proto, {"x": noise(1, 8, 12, 12)})


@zoo
def unet_toy() -> ZooModel:
    proto = parsed(
        """unet (float[1,4,16,16] x) => (float[1,1,16,16] y) {
        d0 = Conv <pads=[1,1,1,1]> (x, w0)
        r0 = Relu (d0)
        q0 = MaxPool <kernel_shape=[2,2], strides=[2,2]> (r0)
        d1 = Conv <pads=[1,1,1,1]> (q0, w1)
        r1 = Relu (d1)
        q1 = MaxPool <kernel_shape=[2,2], strides=[2,2]> (r1)
        d2 = Conv <pads=[1,1,1,1]> (q1, w2)
        u1 = ConvTranspose <strides=[2,2]> (d2, t1)
        k1 = Concat <axis=1> (u1, r1)
        u0 = ConvTranspose <strides=[2,2]> (k1, t0)
        k0 = Concat <axis=1> (u0, r0)
        y = Conv (k0, w3) }""",
        conv_weights(
            "w0 w1 w2 t1 t0 w3",
            (4, 4, 3, 3), (4, 4, 3, 3), (4, 4, 3, 3), (4, 4, 2, 2), (8, 4, 2, 2), (1, 8, 1, 1),
        ),
    )  # fmt: skip
    return ZooModel(proto, {"x": noise(1, 4, 16, 16)})


@zoo
def densenet_toy() -> ZooModel:
    proto = parsed(
        """densenet (float[1,4,8,8] x) => (float[1,16,8,8] y) {
        a = Conv <pads=[1,1,1,1]> (x, w0)
        ax = Concat <axis=1> (a, x)
        b = Conv <pads=[1,1,1,1]> (ax, w1)
        bax = Concat <axis=1> (b, a, x)
        c = Conv <pads=[1,1,1,1]> (bax, w2)
        y = Concat <axis=1> (c, b, a, x) }""",
        conv_weights("w0 w1 w2", (4, 4, 3, 3), (4, 8, 3, 3), (4, 12, 3, 3)),
    )
    return ZooModel(proto, {"x": noise(1, 4, 8, 8)})


@zoo
def multi_input() -> ZooModel:
    proto = parsed(
        """inputs (float[2,4] a, float[2,4] b, int64[1] k) => (float[2,1] y) {
        s = Add (a, b)
        t = Tanh (s)
        u = Mul (t, b)
        y = Gather <axis=1> (u, k) }""",
    )
    return ZooModel(proto, {"a": noise(2, 4), "b": noise(2, 4, seed=1), "k": np.array([2])})


@zoo
def multi_output() -> ZooModel:
    """An output in the head, and one that the tail reads as well."""
    proto = parsed(
        """outputs (float[2,4] x) => (float[2,4] early, float[2,4] both, float[2,4] late) {
        early = Relu (x)
        both = Tanh (x)
        m = MatMul (both, w)
        late = Add (m, x) }""",
        {"w": noise(4, 4)},
    )
    return ZooModel(proto, {"x": noise(2, 4)})


_IF = """
        zero = Constant <value = float {0}> ()
        s = ReduceSum <keepdims=0> (x)
        cond = Greater (s, zero)
"""


@zoo
def if_capture_initializer() -> ZooModel:
    proto = parsed(
        "g (float[2,4] x) => (float[2,4] y) {"
        + _IF
        + """
        a = Tanh (x)
        b = If (cond) <then_branch = t () => (float[2,4] o) { o = Add (a, w) },
                       else_branch = e () => (float[2,4] o2) { o2 = Sub (a, w) }>
        y = Relu (b) }""",
        {"w": noise(4)},
    )
    return ZooModel(proto, {"x": noise(2, 4)})


@zoo
def if_capture_nested() -> ZooModel:
    """Captures of a weight, an intermediate and a graph input, through two levels of bodies."""
    proto = parsed(
        "g (float[2,4] x, bool c2) => (float[2,4] y) {"
        + _IF
        + """
        a = Tanh (x)
        m = Mul (a, w)
        b = If (cond) <
          then_branch = t () => (float[2,4] o) {
            i = If (c2) <then_branch = tt () => (float[2,4] p) { p = Add (m, x) },
                         else_branch = te () => (float[2,4] q) { q = Add (a, w) }>
            o = Neg (i) },
          else_branch = e () => (float[2,4] o2) { o2 = Identity (x) }>
        y = Add (b, m) }""",
        {"w": noise(4)},
    )
    return ZooModel(proto, {"x": np.abs(noise(2, 4)), "c2": np.array(True)})


@zoo
def loop_state() -> ZooModel:
    proto = parsed(
        """g (float[2,4] x, int64 n) => (float[2,4] y) {
        a = Tanh (x)
        cond = Constant <value = bool {1}> ()
        l = Loop (n, cond, a) <body = b (int64 i, bool c, float[2,4] s) =>
              (bool d, float[2,4] u) { d = Identity (c)
                                       v = Mul (s, w)
                                       u = Add (v, a) }>
        y = Relu (l) }""",
        {"w": noise(4)},
    )
    return ZooModel(proto, {"x": noise(2, 4), "n": np.array(3)})


@zoo
def scan() -> ZooModel:
    proto = parsed(
        """g (float[5,4] x) => (float[4] last, float[5,4] all) {
        h = Tanh (x)
        start = ReduceMax <axes=[0], keepdims=0> (h)
        last, seq = Scan <num_scan_inputs=1, body = b (float[4] s, float[4] e) =>
              (float[4] s2, float[4] o) { m = Mul (e, w)
                                          s2 = Add (s, m)
                                          o = Tanh (s2) }> (start, h)
        all = Relu (seq) }""",
        {"w": noise(4)},
    )
    return ZooModel(proto, {"x": noise(5, 4)})


@zoo
def function_in_body() -> ZooModel:
    """A function used only inside a body, which calls a function of another domain."""
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17, "local": 1, "other": 1]>
        g (float[2,4] x, bool c) => (float[2,4] y) {
          a = Tanh (x)
          b = If (c) <then_branch = t () => (float[2,4] o) { o = local.outer (a) },
                      else_branch = e () => (float[2,4] o2) { o2 = Neg (a) }>
          y = Add (b, x) }
        <domain: "local", opset_import: ["": 17, "other": 1]>
        outer (p) => (q) { r = other.inner (p)
                           q = Neg (r) }
        <domain: "other", opset_import: ["": 17]>
        inner (p) => (q) { q = Exp (p) }"""
    )
    return ZooModel(proto, {"x": noise(2, 4), "c": np.array(True)})


@zoo
def ir3_initializer_inputs() -> ZooModel:
    model = chain_cnn()
    for tensor in model.proto.graph.initializer:
        model.proto.graph.input.append(
            helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
        )
    model.proto.ir_version = 3
    model.proto.opset_import[0].version = 9
    del model.proto.opset_import[1:]
    return model


@zoo
def awkward_names() -> ZooModel:
    """Names that are empty, given twice, differ in one sign, are long, or are not ASCII."""
    model = resnet_toy()
    names = ["", "twice", "twice", "a/b", "a:b", "", "Schicht-β", "n" * 300]
    for node, name in zip(model.proto.graph.node, names, strict=True):
        node.name = name
    return model


@zoo
def dynamic_reshape() -> ZooModel:
    proto = parsed(
        """g (float[N,6] x) => (float[M,3] y) {
        a = Tanh (x)
        s = Shape (a)
        n = Gather (s, zero)
        two = Constant <value = int64[1] {2}> ()
        m = Mul (n, two)
        t = Concat <axis=0> (m, three)
        r = Reshape (a, t)
        y = Relu (r) }""",
        {"zero": np.array([0]), "three": np.array([3])},
    )
    return ZooModel(proto, {"x": noise(2, 6)})


@zoo
def batch_concat() -> ZooModel:
    proto = parsed(
        """g (float[N,4] x) => (float[K,4] y) {
        a = Tanh (x)
        b = Concat <axis=0> (a, x)
        y = MatMul (b, w) }""",
        {"w": noise(4, 4)},
    )
    return ZooModel(proto, {"x": noise(3, 4)})


def _qdq(weight_scale: NDArray[Any], axis: str) -> ZooModel:
    weights = noise(8, 8, 3, 3)
    codes = np.clip(np.rint(weights / weight_scale.reshape(-1, 1, 1, 1)), -127, 127)
    points = np.zeros(weight_scale.shape, np.int8)
    constants: dict[str, NDArray[Any]] = {"s": np.float32(0.05), "z": np.uint8(128)}
    for i in range(2):
        constants |= {f"w{i}": codes.astype(np.int8), f"ws{i}": weight_scale, f"wz{i}": points}
        constants |= {f"cs{i}": np.float32(0.2), f"cz{i}": np.uint8(0)}
    constants |= {"os": np.float32(0.2), "oz": np.uint8(0)}
    proto = parsed(
        f"""qdq (float[1,8,8,8] x) => (float[1,8,8,8] y) {{
        q = QuantizeLinear (x, s, z)
        d = DequantizeLinear (q, s, z)
        k0 = DequantizeLinear {axis} (w0, ws0, wz0)
        c0 = Conv <pads=[1,1,1,1]> (d, k0)
        r0 = Relu (c0)
        q0 = QuantizeLinear (r0, cs0, cz0)
        d0 = DequantizeLinear (q0, cs0, cz0)
        k1 = DequantizeLinear {axis} (w1, ws1, wz1)
        c1 = Conv <pads=[1,1,1,1]> (d0, k1)
        r1 = Relu (c1)
        q1 = QuantizeLinear (r1, cs1, cz1)
        d1 = DequantizeLinear (q1, cs1, cz1)
        a = Add (d1, d0)
        qa = QuantizeLinear (a, os, oz)
        y = DequantizeLinear (qa, os, oz) }}""",
        constants,
    )
    return ZooModel(proto, {"x": noise(1, 8, 8, 8)})


@zoo
def qdq_per_tensor() -> ZooModel:
    return _qdq(np.array(0.02, np.float32), "")


@zoo
def qdq_per_channel() -> ZooModel:
    scale = np.linspace(0.01, 0.03, 8, dtype=np.float32)
    return _qdq(scale, "<axis=0>")


@zoo
def half_precision() -> ZooModel:
    proto = parsed(
        """g (float16[1,4,8,8] x) => (float16[1,4,8,8] y) {
        a = Conv <pads=[1,1,1,1]> (x, w)
        b = Relu (a)
        y = Conv <pads=[1,1,1,1]> (b, w) }""",
        {"w": noise(4, 4, 3, 3).astype(np.float16)},
    )
    return ZooModel(proto, {"x": noise(1, 4, 8, 8).astype(np.float16)})


@zoo
def runtime_operator() -> ZooModel:
    """An operator of the runtime's own domain, which the ONNX checker and inference do not know."""
    proto = parsed(
        """g (float[2,4] x) => (float[2,4] y) {
        a = Tanh (x)
        b = Relu (a)
        y = Neg (b) }"""
    )
    proto.graph.node[1].op_type, proto.graph.node[1].domain = "Gelu", "com.microsoft"
    proto.opset_import.add(domain="com.microsoft", version=1)
    return ZooModel(proto, {"x": noise(2, 4)})


@zoo
def wrong_value_info() -> ZooModel:
    model = resnet_toy()
    model.proto.graph.value_info.append(
        helper.make_tensor_value_info("b", TensorProto.FLOAT, [1, 99, 3])
    )
    return model


@zoo
def zero_size_tensor() -> ZooModel:
    proto = parsed(
        """g (float[4,4] x) => (float[4,4] y) {
        a = Tanh (x)
        e = Slice (a, zero, zero)
        f = Neg (e)
        y = Concat <axis=0> (f, a) }""",
        {"zero": np.array([0])},
    )
    return ZooModel(proto, {"x": noise(4, 4)})


@zoo
def scalar_and_integer_frontier() -> ZooModel:
    proto = parsed(
        """g (float[3,4] x) => (float[3,4] y) {
        m = ReduceMax <keepdims=0> (x)
        i = ArgMax <axis=1, keepdims=1> (x)
        f = Cast <to=1> (i)
        big = Greater (x, m2)
        m2 = Identity (half)
        g = Add (x, f)
        h = Where (big, g, x)
        y = Sub (h, m) }""",
        {"half": np.float32(0.5)},
    )
    nodes = {node.output[0]: node for node in proto.graph.node}
    order = ["m", "i", "f", "m2", "big", "g", "h", "y"]
    ordered = [onnx.NodeProto.FromString(nodes[name].SerializeToString()) for name in order]
    del proto.graph.node[:]
    proto.graph.node.extend(ordered)
    return ZooModel(proto, {"x": noise(3, 4)})


@zoo
def detector() -> ZooModel:
    """How many boxes are kept depends on their scores."""
    proto = parsed(
        """g (float[1,8,6] x) => (float[n,6] y) {
        t = Tanh (x)
        boxes = Slice (t, zero, four, two)
        by_box = Slice (t, four, five, two)
        scores = Transpose <perm=[0,2,1]> (by_box)
        kept = NonMaxSuppression (boxes, scores, most, overlap, least)
        at = Slice (kept, two, three, one)
        flat = Squeeze (at, one)
        rows = Squeeze (t, zero)
        chosen = Gather (rows, flat)
        y = Tanh (chosen) }""",
        {
            "zero": np.array([0]),
            "one": np.array([1]),
            "two": np.array([2]),
            "three": np.array([3]),
            "four": np.array([4]),
            "five": np.array([5]),
            "most": np.array([8]),
            "overlap": np.float32(0.5),
            "least": np.float32(0.0),
        },
    )
    return ZooModel(proto, {"x": noise(1, 8, 6)})


@zoo
def branches_of_two_shapes() -> ZooModel:
    """An If whose outputs differ in shape, a TopK and a Range whose sizes are inputs."""
    proto = parsed(
        """g (float[6] x, bool c, int64[1] k, int64 n) => (float[m] y, float[o] z) {
        t = Tanh (x)
        b = If (c) <then_branch = th () => (float[3] o1) { o1 = Slice (t, zero, three) },
                    else_branch = el () => (float[6] o2) { o2 = Neg (t) }>
        top, at = TopK (t, k)
        numbers = Range (start, n, step)
        f = Cast <to=1> (numbers)
        s = Tanh (f)
        y = Concat <axis=0> (b, top)
        z = Neg (s) }""",
        {"zero": np.array([0]), "three": np.array([3]), "start": np.array(0), "step": np.array(1)},
    )
    feeds = {"x": noise(6), "c": np.array(True), "k": np.array([2]), "n": np.array(4)}
    return ZooModel(proto, feeds)


@zoo
def string_inside() -> ZooModel:
    """A string tensor between two nodes: nothing may cut there."""
    proto = parsed(
        """g (float[2] x) => (float[2] y) {
        a = Tanh (x)
        s = Cast <to=8> (a)
        b = Cast <to=1> (s)
        y = Neg (b) }"""
    )
    return ZooModel(proto, {"x": noise(2)})


@zoo
def sequence_inside() -> ZooModel:
    proto = parsed(
        """g (float[2,4] x) => (float[4,4] y) {
        a = Tanh (x)
        q = SequenceConstruct (a, x)
        y = ConcatFromSequence <axis=0> (q) }"""
    )
    return ZooModel(proto, {"x": noise(2, 4)})


@zoo
def split_with_unnamed_output() -> ZooModel:
    """ONNX Runtime 1.32.0 loads it and crashes the process at the first run."""
    proto = parsed(
        """g (float[2,6] x) => (float[2,3] y) {
        t = Tanh (x)
        a, b = Split <axis=1> (t, sizes)
        y = Relu (b) }""",
        {"sizes": np.array([3, 3])},
    )
    proto.graph.node[1].output[0] = ""
    return ZooModel(proto, {"x": noise(2, 6)})


@zoo
def dead_branches() -> ZooModel:
    proto = parsed(
        """g (float[2,4] x, float[2,4] unused) => (float[2,4] y) {
        dead = Exp (x)
        deader = Add (dead, w2)
        a = Tanh (x)
        y = MatMul (a, w) }""",
        {"w": noise(4, 4), "w2": noise(4)},
    )
    return ZooModel(proto, {"x": noise(2, 4), "unused": noise(2, 4)})


@zoo
def constant_and_passed_outputs() -> ZooModel:
    """Outputs that no computation makes: a weight, a constant, an input."""
    proto = parsed(
        """g (float[2,4] x) => (float[2,4] y, float[4] w, float[2] k) {
        k = Constant <value = float[2] {1.0, 2.0}> ()
        a = Tanh (x)
        y = Add (a, w) }""",
        {"w": noise(4)},
    )
    return ZooModel(proto, {"x": noise(2, 4)})


@zoo
def transformer_block() -> ZooModel:
    proto = parsed(
        """g (float[1,T,16] x) => (float[1,T,16] y) {
        n = LayerNormalization (x, g0, b0)
        q = MatMul (n, wq)
        k = MatMul (n, wk)
        v = MatMul (n, wv)
        kt = Transpose <perm=[0,2,1]> (k)
        s = MatMul (q, kt)
        sc = Mul (s, quarter)
        p = Softmax <axis=-1> (sc)
        o = MatMul (p, v)
        r = Add (o, x)
        n2 = LayerNormalization (r, g0, b0)
        h = MatMul (n2, w1)
        hb = Add (h, b1)
        div = Div (hb, root2)
        e = Erf (div)
        e1 = Add (e, one)
        m = Mul (hb, e1)
        gl = Mul (m, half)
        f = MatMul (gl, w2)
        y = Add (f, r) }""",
        conv_weights(
            "wq wk wv w1 b1 w2 b0", (16, 16), (16, 16), (16, 16), (16, 32), (32,), (32, 16), (16,)
        )
        | {"g0": np.ones(16, np.float32), "quarter": np.float32(0.25)}
        | {"root2": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5)},
    )
    return ZooModel(proto, {"x": noise(1, 5, 16)})
