"""Calls of kernels with a struct: what is equal for all tiles is initialised before the loop."""

from __future__ import annotations

from dory_core.codegen.arguments import ArgumentText, call_lines
from dory_core.kernels.kernel import FunctionCall, StructValue

NAMES = {
    "x": ArgumentText("l1 + x_slot * 64", "(l1 + x_slot * 64)", of_tile=True),
    "mul": ArgumentText("l1 + 128", "(l1 + 128)"),
    "y_h": ArgumentText("y_h[t.h]", "y_h[t.h]", of_tile=True),
    "y_w": ArgumentText("5", "5"),
}


def lines(*fields: tuple[str, str | StructValue]) -> tuple[str, str]:
    call = FunctionCall("kernel", {"arguments": StructValue(fields, "arguments_t")})
    before, of_tile = call_lines(call, NAMES.__getitem__)
    return "\n".join(before), "\n".join(of_tile)


def test_members_that_name_the_tile_are_set_in_the_loop() -> None:
    before, call = lines(("x", "$x"), ("y_h", "$y_h"), ("y_w", "$y_w"), ("stride", "2"))
    assert before == "arguments_t arguments = {\n  .y_w = 5,\n  .stride = 2,\n};"
    assert call == (
        "arguments.x = l1 + x_slot * 64;\narguments.y_h = y_h[t.h];\nkernel(&arguments);"
    )


def test_operators_of_a_call_bind_to_the_whole_address() -> None:
    before, _ = lines(("table", "(const int32_t *)$mul"), ("end", "$mul + 4"))
    assert "  .table = (const int32_t *)(l1 + 128),\n" in before
    assert "  .end = (l1 + 128) + 4,\n" in before


def test_values_without_an_operator_beside_them_need_no_brackets() -> None:
    before, _ = lines(("table", "table_of($mul, $y_w)"))
    assert "  .table = table_of(l1 + 128, 5),\n" in before
    call = FunctionCall("kernel", {"a": "&(const a_t){.mul = $mul}", "x": "(void *)$x"})
    assert call_lines(call, NAMES.__getitem__)[1] == [
        "kernel(&(const a_t){.mul = l1 + 128}, (void *)(l1 + x_slot * 64));"
    ]


def test_a_struct_that_no_tile_changes_is_constant() -> None:
    before, call = lines(("mul", "$mul"))
    assert before == "const arguments_t arguments = {\n  .mul = l1 + 128,\n};"
    assert call == "kernel(&arguments);"


def test_a_struct_that_every_tile_sets_whole_is_defined_in_the_loop() -> None:
    before, call = lines(("x", "$x"), ("y_h", "$y_h"))
    assert before == ""
    assert call == (
        "const arguments_t arguments = {\n  .x = l1 + x_slot * 64,\n  .y_h = y_h[t.h],\n};\n"
        "kernel(&arguments);"
    )


def test_members_of_nested_initialisers_are_told_apart() -> None:
    before, call = lines(
        (
            "step",
            StructValue(
                (
                    ("x", "$x"),
                    ("more[0]", StructValue((("shift", "3"),))),
                    ("more[1]", StructValue((("shift", "f(1, 2)"), ("mul", "$mul")))),
                )
            ),
        )
    )
    assert "  .step.more[0] = {.shift = 3},\n" in before
    assert "  .step.more[1] = {.shift = f(1, 2), .mul = l1 + 128},\n" in before
    assert "arguments.step.x = l1 + x_slot * 64;" in call


def test_struct_that_an_argument_points_to_has_a_variable_of_its_own() -> None:
    before, call = lines(("requant", StructValue((("mul", "$mul"), ("y_h", "$y_h")), "requant_t")))
    assert before == (
        "requant_t requant = {\n  .mul = l1 + 128,\n};\n"
        "const arguments_t arguments = {\n  .requant = &requant,\n};"
    )
    assert call == "requant.y_h = y_h[t.h];\nkernel(&arguments);"


def test_arguments_that_are_no_structs_stay_in_the_loop() -> None:
    before, call = call_lines(FunctionCall("kernel", {"x": "$x", "w": "$y_w"}), NAMES.__getitem__)
    assert before == []
    assert call == ["kernel(l1 + x_slot * 64, 5);"]


def test_lines_around_a_call_stand_in_a_block_with_it() -> None:
    call = FunctionCall("kernel", {"w": "w"}, ("int w = $y_w;",), ("done();",))
    assert call_lines(call, NAMES.__getitem__) == (
        [],
        ["{", "  int w = 5;", "  kernel(w);", "  done();", "}"],
    )


def test_several_structs_are_variables_by_the_names_of_their_arguments() -> None:
    structs = {name: StructValue((("w", "$y_w"),), f"{name}_t") for name in ("layer", "tile")}
    before, call = call_lines(FunctionCall("kernel", {**structs, "x": "$x"}), NAMES.__getitem__)
    assert before == [
        "const layer_t layer = {",
        "  .w = 5,",
        "};",
        "const tile_t tile = {",
        "  .w = 5,",
        "};",
    ]
    assert call == ["kernel(&layer, &tile, l1 + x_slot * 64);"]


def test_text_of_a_call_is_one_statement() -> None:
    inner = StructValue((("mul", "$mul"), ("step", StructValue((("shift", "3"),)))), "requant_t")
    struct = StructValue((("x", "$x"), ("requant", inner)), "arguments_t")
    assert str(FunctionCall("kernel", {"arguments": struct})) == (
        "kernel(&(const arguments_t){\n  .x = $x,\n"
        "  .requant = &(const requant_t){.mul = $mul, .step = {.shift = 3}}});"
    )
