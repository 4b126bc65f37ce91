"""Reading goldens in both forms, and comparing element by element."""

import contextlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dory_core.cli.tables.golden import golden_lines
from dory_core.driver.compiler import make_vectors
from dory_core.errors import UsageError, VerificationFailed
from dory_core.golden.layers import Golden, compare, input_of, read_golden, read_goldens
from dory_core.ir import FileForm, Graph, MaxPool, Tensor, Window
from dory_core.ir.ranges import infer_types
from dory_core.ir.reference import run
from dory_core.simulate.result import LayerResult
from tests.nets import net


@pytest.fixture
def graph() -> Graph:
    """One layer that returns its input of (C, H, W) = (2, 1, 3)."""
    layer = MaxPool(
        index=0,
        name="p",
        inputs=("input",),
        output="layer_00",
        window=Window(kernel=(1, 1)),
    )
    source = Tensor("input", 2, 1, 3, 0, 255, 8, False)
    return infer_types("net", (source,), (layer,), ("layer_00",))


def write(folder: Path, **arrays: object) -> Path:
    path = folder / "golden.npz"
    np.savez(path, **{name: np.asarray(values) for name, values in arrays.items()})
    return path


def of_reference(graph: Graph, golden: Golden) -> tuple[LayerResult, ...]:
    return compare(graph, golden, run(graph, {graph.inputs[0]: input_of(graph, golden)}))


def test_values_are_in_hwc_order(graph: Graph, tmp_path: Path) -> None:
    golden = read_golden(write(tmp_path, input=range(6), layer_00=range(6)))
    assert input_of(graph, golden)[:, 0, :].tolist() == [[0, 2, 4], [1, 3, 5]]
    assert all(layer.exact for layer in of_reference(graph, golden))


def test_a_permutation_is_a_mismatch_with_its_first_place(graph: Graph, tmp_path: Path) -> None:
    golden = read_golden(write(tmp_path, input=range(6), layer_00=[0, 1, 2, 5, 4, 3]))
    (layer,) = of_reference(graph, golden)
    assert not layer.exact
    assert (layer.index, layer.name, layer.mismatches) == (0, "p", 2)
    assert layer.first is not None
    first = layer.first
    assert (first.c, first.h, first.w, first.expected, first.got) == (1, 0, 1, 5, 3)


def test_given_outputs_are_compared_instead_of_the_reference(graph: Graph, tmp_path: Path) -> None:
    golden = read_golden(write(tmp_path, input=range(6), layer_00=range(6)))
    outputs = {"layer_00": np.zeros((2, 1, 3), int)}
    assert compare(graph, golden, outputs)[0].mismatches == 5


def test_text_form_with_header_commas_backslash_and_decimals(graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "input.txt").write_text("# input (shape [1, 3, 2]),\n0,\n1,\n2,\n3,\n4,\n5,\n")
    (tmp_path / "out_layer0.txt").write_text(
        "# p (shape [1, 3, 2]), \\\n0.000,\n1.000,\n2\n3,4,\n5.0"
    )
    golden = read_golden(tmp_path)
    assert golden.layers[0].tolist() == [0, 1, 2, 3, 4, 5]
    assert all(layer.exact for layer in of_reference(graph, golden))


@pytest.mark.parametrize(
    ("line", "reason"), [("x,", "out_layer0.txt: line 3: 'x'"), ("1.5,", "value 1 is 1.5")]
)
def test_bad_text_values_name_the_file(line: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "input.txt").write_text("1\n")
    (tmp_path / "out_layer0.txt").write_text(f"# p\n1,\n{line}\n")
    with pytest.raises(UsageError, match=reason):
        read_golden(tmp_path)


def test_missing_layer_in_between_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'layer_01' is missing"):
        read_golden(write(tmp_path, input=[0], layer_00=[0], layer_02=[0]))
    (tmp_path / "input.txt").write_text("1\n")
    (tmp_path / "out_layer1.txt").write_text("1\n")
    with pytest.raises(UsageError, match=r"'out_layer0\.txt' is missing"):
        read_golden(tmp_path)


@pytest.mark.parametrize(
    "arrays",
    [
        {"layer_00": [1]},
        {"input": [0]},
        {"input": [0], "layer_01": [0]},
        {"input": [0], "layer_00": ["a"]},
        {"input": [0], "layer_00": [0.5]},
    ],
)
def test_every_refusal_says_what_to_do(arrays: dict[str, list[object]], tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read_golden(write(tmp_path, **arrays))
    assert caught.value.hint


def test_missing_and_broken_files(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        read_golden(tmp_path / "nothing.npz")
    with pytest.raises(UsageError, match="neither"):
        read_golden(tmp_path)
    broken = tmp_path / "broken.npz"
    broken.write_bytes(b"PK\x03\x04 not a zip")
    with pytest.raises(UsageError, match="not a readable"):
        read_golden(broken)
    with pytest.raises(UsageError, match="'input' is missing"):
        read_golden(write(tmp_path, layer_00=[1]))
    with pytest.raises(UsageError, match="not an integer"):
        read_golden(write(tmp_path, input=[1.0, np.nan], layer_00=[1]))


def test_wrong_sizes_name_file_and_tensor(graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"golden\.npz: 'layer_00' holds 5 values, .* has 6"):
        compare(graph, read_golden(write(tmp_path, input=range(6), layer_00=range(5))), {})
    with pytest.raises(UsageError, match="golden of 2 layers, the network has 1"):
        compare(graph, read_golden(write(tmp_path, input=[0], layer_00=[0], layer_01=[0])), {})


@pytest.mark.parametrize("name", ["nemo_small_cnn", "nemo_Residual_connection_test_1"])
def test_both_forms_of_a_real_golden_agree(name: str) -> None:
    folder = net(name).folder
    binary, text = read_golden(folder / "golden.npz"), read_golden(folder / "txt")
    assert np.array_equal(binary.input, text.input)
    assert len(binary.layers) == len(text.layers)
    for left, right in zip(binary.layers, text.layers, strict=True):
        assert np.array_equal(left, right)


PLACES = (("in", "t0"), ("run", "t7"))


def named(graph: Graph) -> Graph:
    """The network whose tensors have names in the file: t0 and t7."""
    source = replace(graph.tensors["input"], name="t0", scale=0.5, zero_point=10)
    (op,) = graph.ops
    return infer_types("net", (source,), (replace(op, inputs=("t0",), tensor="t7"),), graph.outputs)


def test_every_inference_of_a_golden_with_names_of_tensors(graph: Graph, tmp_path: Path) -> None:
    network = named(graph)
    arrays = {f"{key}{n}__{name}": np.arange(6) + n for n in (0, 1) for key, name in PLACES}
    goldens = read_goldens(write(tmp_path, **arrays, run0__t3=[1]))
    assert len(goldens) == 2
    for number, golden in enumerate(goldens):
        inputs = golden.values_of_inputs(network)
        assert inputs["t0"][:, 0, 0].tolist() == [number, number + 1]
        (layer,) = golden.compare(network, run(network, inputs))
        assert layer.result.exact and layer.result.tensor == "t7" and layer.elements == 6


def test_an_element_of_a_named_tensor_that_differs_is_told(graph: Graph, tmp_path: Path) -> None:
    network = named(graph)
    (golden,) = read_goldens(write(tmp_path, in0__t0=range(6), run0__t7=[0, 1, 2, 3, 9, 5]))
    (found,) = golden.compare(network, run(network, golden.values_of_inputs(network)))
    layer = found.result
    assert layer.first is not None
    assert (layer.first.w, layer.first.c, layer.first.expected, layer.first.got) == (2, 0, 9, 4)


def test_an_input_of_reals_is_quantised_with_ties_away_from_zero(
    graph: Graph, tmp_path: Path
) -> None:
    reals = np.array([0.25, -0.25, 0.0, 200.0, -200.0, 1.0], np.float32)
    (golden,) = read_goldens(write(tmp_path, in0__other=reals, run0__t7=range(6)))
    found = golden.values_of_inputs(named(graph))["t0"]
    assert found.transpose(1, 2, 0).reshape(-1).tolist() == [11, 9, 10, 255, 0, 12]


def test_goldens_hold_values_of_the_file_whatever_is_stored(graph: Graph, tmp_path: Path) -> None:
    network = named(graph)
    output = replace(network.tensors["layer_00"], offset=100, removed=((1, 7),))
    changed = replace(network, tensors={**network.tensors, "layer_00": output})
    arrays = [0, 7, 1, 2, 7, 3, 4, 7, 5]
    (golden,) = read_goldens(write(tmp_path, in0__t0=range(6), run0__t7=arrays))
    computed = run(network, golden.values_of_inputs(network))
    (found,) = golden.compare(changed, computed)
    assert found.result.exact
    arrays[4] = 8
    (golden,) = read_goldens(write(tmp_path, in0__t0=range(6), run0__t7=arrays))
    layer = golden.compare(changed, computed)[0].result
    assert layer.first is not None
    assert (layer.first.w, layer.first.c, layer.first.expected, layer.first.got) == (1, 1, 8, 7)


def test_values_in_the_order_of_the_file(graph: Graph, tmp_path: Path) -> None:
    form = FileForm(order=(0, 1, 2))
    network = replace(named(graph), forms={"t0": form, "layer_00": form})
    (golden,) = read_goldens(write(tmp_path, in0__t0=range(6), run0__t7=range(6)))
    inputs = golden.values_of_inputs(network)
    assert inputs["t0"].reshape(-1).tolist() == list(range(6))
    assert golden.compare(network, run(network, inputs))[0].result.exact


def test_reals_of_the_file_are_found_by_their_names_and_rounded_as_it_says(
    graph: Graph, tmp_path: Path
) -> None:
    reals = np.array([0.25, -0.25, 0.75, 200.0, -200.0, 1.0], np.float32)
    network = replace(named(graph), forms={"t0": FileForm(source="x", ties_even=True)})
    (golden,) = read_goldens(write(tmp_path, in0__x=reals, in0__y=reals, run0__t7=range(6)))
    found = golden.values_of_inputs(network)["t0"]
    assert found.transpose(1, 2, 0).reshape(-1).tolist() == [10, 10, 12, 255, 0, 12]
    with pytest.raises(UsageError, match="no array 'in0__z'"):
        golden.values_of_inputs(replace(network, forms={"t0": FileForm(source="z")}))


def chain(graph: Graph) -> Graph:
    """Three layers that hand on their input; the reference computes the first one in reals."""
    network = named(graph)
    (op,) = network.ops
    ops = [
        replace(op, index=n, inputs=(source,), output=f"layer_{n:02d}", tensor=f"t{7 + n}")
        for n, source in enumerate(("t0", "layer_00", "layer_01"))
    ]
    found = infer_types("net", (network.tensors["t0"],), tuple(ops), ("layer_02",))
    return replace(found, forms={"layer_00": FileForm(apart=1)})


def test_a_layer_in_reals_may_be_a_step_away_and_those_behind_follow_it(
    graph: Graph, tmp_path: Path
) -> None:
    network, own = chain(graph), np.arange(6)
    other = own + np.array([0, 1, 0, -1, 0, 0])
    arrays = {"in0__t0": own, "run0__t7": other, "run0__t8": other, "run0__t9": other}
    vectors, report = make_vectors(network, [write(tmp_path, **arrays)])
    assert report is not None
    assert [(one.elements, one.apart) for one in report.layers] == [(6, 2), (6, 0), (6, 0)]
    assert [one.index for one in report.apart] == [0]
    assert np.array_equal(vectors[0]["layer_02"].transpose(1, 2, 0).reshape(-1), own)


@pytest.mark.parametrize(
    "changed",
    [
        {"run0__t7": [0, 3, 2, 3, 4, 5]},  # two steps
        {"run0__t8": [0, 2, 2, 3, 4, 5]},  # not in reals
        {"run0__t7": [0, 2, 2, 3, 4, 5], "run0__t8": range(6)},  # not what follows
    ],
)
def test_what_is_no_step_of_a_layer_in_reals_is_an_error(
    changed: dict[str, object], graph: Graph, tmp_path: Path
) -> None:
    names = ("in0__t0", "run0__t7", "run0__t8", "run0__t9")
    arrays = dict.fromkeys(names, range(6)) | changed
    with pytest.raises(VerificationFailed, match="differs in 1 values"):
        make_vectors(chain(graph), [write(tmp_path, **arrays)])


def test_goldens_with_names_that_do_not_fit(graph: Graph, tmp_path: Path) -> None:
    network = named(graph)
    (golden,) = read_goldens(write(tmp_path, in0__t1=range(6), run0__t8=range(6)))
    with pytest.raises(UsageError, match="no array 'in0__t0'"):
        golden.values_of_inputs(network)
    with pytest.raises(UsageError, match="none of its arrays"):
        golden.compare(network, {})
    (golden,) = read_goldens(write(tmp_path, in0__t0=range(5), run0__t7=[0.5] * 6))
    with pytest.raises(UsageError, match="'t0' holds 5 values"):
        golden.values_of_inputs(network)
    with pytest.raises(UsageError, match="'t7' holds float64"):
        golden.compare(network, {"layer_00": np.zeros((2, 1, 3), int)})
    with pytest.raises(UsageError, match=r"inferences \[0, 2\]"):
        read_goldens(write(tmp_path, in0__t0=[0], in2__t0=[0]))


@pytest.mark.parametrize("seed", range(40))
def test_damaged_archive_is_wrong_usage(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "golden.npz"
    np.savez_compressed(path, input=np.arange(300), layer_00=np.arange(200) % 7)
    content = bytearray(path.read_bytes())
    random = np.random.default_rng(seed)
    for at in random.integers(0, len(content), 3):
        content[at] ^= int(random.integers(1, 256))
    path.write_bytes(content)
    with contextlib.suppress(UsageError):
        read_golden(path)


def test_reals_that_a_layer_stands_for_are_compared_where_its_integers_are_not_there(
    graph: Graph, tmp_path: Path
) -> None:
    network = named(graph)
    output = replace(network.tensors["layer_00"], scale=0.1, zero_point=2)
    network = replace(
        network,
        tensors={**network.tensors, "layer_00": output},
        forms={"layer_00": FileForm(source="y")},
    )
    reals = ((np.arange(6) - 2) * np.float32(0.1)).astype(np.float32)
    _, report = make_vectors(network, [write(tmp_path, in0__t0=range(6), run0__y=reals)])
    assert report is not None and [one.elements for one in report.layers] == [6]
    for changed, error, reason in (
        (reals + np.float32(0.1), VerificationFailed, "differs in 6 values"),
        (reals + np.float32(0.04), UsageError, "'y' holds real numbers that are no multiples"),
        (reals * np.nan, UsageError, "no multiples of its scale 0.1"),
    ):
        with pytest.raises(error, match=reason):
            make_vectors(network, [write(tmp_path, in0__t0=range(6), run0__y=changed)])
    both = {"run0__y": reals + 5, "run0__t7": range(6)}  # integers come first
    assert make_vectors(network, [write(tmp_path, in0__t0=range(6), **both)])[1] is not None


def test_layers_that_a_golden_does_not_have_are_named() -> None:
    layers = {n: f"layer {n}" for n in range(9)}
    found = [{"index": n, "apart": 0} for n in (1, 4)]
    (line,) = golden_lines({"reference": "x", "inferences": 1, "layers": found}, layers)
    assert line.startswith("golden: 2 of 9 layers are exact; the golden has no values of 7: 00 'l")
    assert line.endswith(", 07 'layer 7' and 1 more")
    (line,) = golden_lines({"reference": "x", "inferences": 1, "layers": found}, {1: "", 4: ""})
    assert line == "golden: all 2 layers are exact"


def test_layers_inside_of_others_count_as_layers_of_the_golden() -> None:
    rows = [{"index": n, "name": f"n{n}", "apart": 0, "elements": 4} for n in range(3)]
    document = {"reference": "nemo", "inferences": 1, "layers": rows}
    assert golden_lines(document, {1: "n1", 2: "n2"}) == ["golden: all 3 layers are exact"]
