"""Lifetimes of buffers, compared with what a step-by-step run holds."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from profiler.liveness import Buffer, Step, buffers, packed_bytes, peak_bytes

SIZES = {name: size for size, name in enumerate("abcdefgh", start=10)}


def test_a_buffer_lives_from_its_maker_to_its_last_reader() -> None:
    steps = [
        Step("Conv", ("x",), ("a",)),
        Step("Conv", ("a",), ("b",)),
        Step("Concat", ("a", "b"), ("c",)),
    ]
    assert buffers(steps, SIZES, frozenset("c")) == [
        Buffer(10, 0, 2),
        Buffer(11, 1, 2),
        Buffer(12, 2, 3),
    ]


def test_what_nobody_reads_lives_for_its_own_step() -> None:
    steps = [Step("Split", ("x",), ("a", "", "b")), Step("Conv", ("a",), ("c",))]
    assert buffers(steps, SIZES, frozenset("c"))[1] == Buffer(11, 0, 0)


def test_views_share_and_keep_alive_what_they_look_at() -> None:
    steps = [
        Step("Conv", ("x",), ("a",)),
        Step("Reshape", ("a", ""), ("b",)),
        Step("Conv", ("b",), ("c",)),
    ]
    assert buffers(steps, SIZES, frozenset("c")) == [Buffer(10, 0, 2), Buffer(12, 2, 3)]


def test_a_view_of_what_is_fed_takes_nothing_unless_it_is_returned() -> None:
    steps = [Step("Reshape", ("x",), ("a",)), Step("Conv", ("a",), ("b",))]
    assert buffers(steps, SIZES, frozenset("b"))[0].size_bytes == SIZES["b"]
    assert buffers(steps[:1], SIZES, frozenset("a")) == [Buffer(10, 0, 1)]


class TestOverwriting:
    SIZES = dict.fromkeys("abcd", 10) | {"e": 20}

    def test_an_elementwise_kernel_writes_over_what_nobody_needs_any_more(self) -> None:
        steps = [
            Step("Conv", ("x",), ("a",)),
            Step("Relu", ("a",), ("b",)),
            Step("Conv", ("x",), ("c",)),
            Step("Add", ("x", "b"), ("d",)),
            Step("Add", ("d", "c"), ("e",)),
        ]
        assert buffers(steps, self.SIZES, frozenset("e")) == [
            Buffer(10, 0, 4),
            Buffer(10, 2, 4),
            Buffer(20, 4, 5),
        ]

    def test_but_not_over_what_somebody_needs(self) -> None:
        steps = [
            Step("Conv", ("x",), ("a",)),
            Step("Relu", ("a",), ("b",)),
            Step("Concat", ("a", "b"), ("e",)),
        ]
        assert len(buffers(steps, self.SIZES, frozenset("e"))) == 3
        assert len(buffers(steps[:2], self.SIZES, frozenset("ab"))) == 2

    def test_nor_where_the_runtime_knows_no_shapes(self) -> None:
        steps = [Step("Conv", ("x",), ("a",)), Step("Relu", ("a",), ("b",))]
        steps.append(Step("Conv", ("b",), ("c",)))
        assert len(buffers(steps, self.SIZES, frozenset("c"))) == 2
        assert len(buffers(steps, self.SIZES, frozenset("c"), overwriting=False)) == 3

    def test_a_convolution_writes_over_what_it_adds(self) -> None:
        steps = [
            Step("Conv", ("x", "", ""), ("a",)),
            Step("Conv", ("x", "", "", "a"), ("b",)),
            Step("Conv", ("b",), ("c",)),
        ]
        assert buffers(steps, self.SIZES, frozenset("c"))[0] == Buffer(10, 0, 2)


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[Step], dict[str, int], frozenset[str]]:
    """Steps that read any earlier tensors, the first of them what is fed."""
    operators = st.sampled_from(["Conv", "Relu", "Add", "Reshape", "Concat"])
    steps: list[Step] = []
    sizes: dict[str, int] = {}
    for number in range(draw(st.integers(1, 10))):
        known = ["x", *sizes]
        operator = draw(operators)
        inputs = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True))
        output = f"t{number}"
        sizes[output] = draw(st.sampled_from([256, 512, 1024]))
        if operator == "Reshape":
            sizes[output] = sizes.get(inputs[0], 256)
        steps.append(Step(operator, tuple(inputs), (output,)))
    results = draw(st.sets(st.sampled_from(sorted(sizes)), min_size=1))
    return steps, sizes, frozenset(results)


def held_at_most(
    steps: list[Step], sizes: dict[str, int], results: frozenset[str], overwriting: bool
) -> int:
    """Walk through a run with a count of the tensors that still need each piece of memory."""
    memory: dict[str, int] = {}  # tensor -> piece
    size_of: dict[int, int] = {}
    most = 0

    def needed(piece: int, after: int) -> bool:
        return any(
            memory[name] == piece
            and (name in results or any(name in step.inputs for step in steps[after:]))
            for name in memory
        )

    for place, step in enumerate(steps):
        (output,) = step.outputs
        piece = len(size_of)
        views = [name for name in step.inputs[:1] if step.operator == "Reshape"]
        over = {"Relu": step.inputs[:1], "Add": step.inputs[:2]}.get(step.operator, ())
        if output not in results:
            fitting = [
                memory[name]
                for name in over
                if overwriting
                and name in memory
                and size_of[memory[name]] == sizes[output]
                and not needed(memory[name], place + 1)
            ]
            piece = next((memory[name] for name in views if name in memory), piece)
            piece = next(iter(fitting), piece)
        if piece < len(size_of) or output in results or not views:
            size_of.setdefault(piece, sizes[output])
            memory[output] = piece
        alive = {number for number in size_of if needed(number, place)} | {piece} & set(size_of)
        most = max(most, sum(size_of[number] for number in alive))
    return most


@given(runs(), st.booleans())
def test_the_peak_is_that_of_a_step_by_step_run(
    run: tuple[list[Step], dict[str, int], frozenset[str]], overwriting: bool
) -> None:
    steps, sizes, results = run
    taken = buffers(steps, sizes, results, overwriting)
    assert peak_bytes(taken) == held_at_most(steps, sizes, results, overwriting)


@given(
    st.lists(
        st.tuples(st.integers(1, 100), st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=9
    )
)
def test_packing_needs_the_peak_at_least_and_all_at_most(
    drawn: list[tuple[int, int, int]],
) -> None:
    taken = sorted(
        (Buffer(size, first, first + length) for size, first, length in drawn),
        key=lambda buffer: buffer.first,
    )
    moments = [
        sum(buffer.size_bytes for buffer in taken if buffer.first <= place <= buffer.last)
        for place in range(20)
    ]
    assert peak_bytes(taken) == max(moments)
    assert max(moments) <= packed_bytes(taken) <= math.fsum(buffer.size_bytes for buffer in taken)


def test_packing_fills_the_tightest_gap() -> None:
    taken = [
        Buffer(30, 0, 0),  # leaves a gap of 30 at the start
        Buffer(10, 0, 9),
        Buffer(20, 0, 0),  # leaves a gap of 20 behind that
        Buffer(10, 0, 9),
        Buffer(20, 1, 9),
        Buffer(30, 1, 9),
    ]
    assert packed_bytes(taken) == 70
    assert packed_bytes([*taken, Buffer(1, 2, 2)]) == 71
    assert packed_bytes([]) == peak_bytes([]) == 0
