"""Calls of kernels with a struct: what is equal for all tiles is initialised before the loop."""

from __future__ import annotations

from dory_core.codegen.arguments import ArgumentText, call_lines
from dory_core.kernels.call import (
    Argument,
    FunctionCall,
    Items,
    Local,
    Operand,
    Struct,
    Symbol,
    named,
    size,
)

NAMES = {
    "x": ArgumentText("l1 + x_slot * 64", "(l1 + x_slot * 64)", of_tile=True),
    "mul": ArgumentText("l1 + 128", "(l1 + 128)"),
    "y_h": ArgumentText("y_h[t.h]", "y_h[t.h]", of_tile=True),
    "y_w": ArgumentText("5", "5"),
}


def lines(**members: Argument) -> tuple[str, str]:
    call = FunctionCall("kernel", {"arguments": Struct(members, "arguments_t")})
    before, of_tile = call_lines(call, NAMES.__getitem__)
    return "\n".join(before), "\n".join(of_tile)


def test_members_that_name_the_tile_are_set_in_the_loop() -> None:
    before, call = lines(**named("x", "y_h", "y_w"), stride=2)
    assert before == "arguments_t arguments = {\n  .y_w = 5,\n  .stride = 2,\n};"
    assert call == (
        "arguments.x = l1 + x_slot * 64;\narguments.y_h = y_h[t.h];\nkernel(&arguments);"
    )


def test_operators_of_a_call_bind_to_the_whole_address() -> None:
    before, _ = lines(
        table=Operand("mul", "const int32_t *"),
        bytes=Operand("mul", "const int8_t *"),
        number=Operand("mul", "uintptr_t", 8),
        end=Operand("mul", offset=4),
        place=Operand("mul", "int64_t *", size("y_w") * 8),
    )
    assert "  .table = (const void *)(l1 + 128),\n" in before
    assert "  .bytes = (const int8_t *)(l1 + 128),\n" in before
    assert "  .number = (uintptr_t)((l1 + 128) + 8),\n" in before
    assert "  .end = (l1 + 128) + 4,\n" in before
    assert "  .place = (void *)((l1 + 128) + 5 * 8),\n" in before


def test_values_without_an_operator_beside_them_need_no_brackets() -> None:
    before, _ = lines(table=Operand("mul", function="table_of"), other=named("mul")["mul"])
    assert "  .table = table_of(l1 + 128),\n" in before
    assert "  .other = l1 + 128,\n" in before
    inner = Struct(named("mul"), "a_t", literal=True)
    call = FunctionCall("kernel", {"a": inner, "x": Operand("x", "void *")})
    assert call_lines(call, NAMES.__getitem__)[1] == [
        "kernel(&(const a_t){",
        "  .mul = l1 + 128}, (void *)(l1 + x_slot * 64));",
    ]


def test_numbers_have_a_type_that_holds_them() -> None:
    before, _ = lines(least=-(1 << 31), more=1 << 31, least64=-(1 << 63), zero=0, nothing=None)
    assert "  .least = (-2147483647 - 1),\n" in before
    assert "  .more = INT64_C(2147483648),\n" in before
    assert "  .least64 = (-INT64_C(9223372036854775807) - 1),\n" in before
    assert "  .zero = 0,\n  .nothing = NULL,\n" in before


def test_expressions_of_sizes_keep_their_order_and_brackets() -> None:
    h, w = size("y_h"), size("y_w")
    before, each = lines(a=(w + 3) // 4 * 4, b=w - (w - 1), c=(w <= 4) * 2, d=h * (w + 1))
    assert "  .a = (5 + 3) / 4 * 4,\n" in before
    assert "  .b = 5 - (5 - 1),\n" in before
    assert "  .c = (5 <= 4) * 2,\n" in before
    assert "arguments.d = y_h[t.h] * (5 + 1);" in each


def test_arrays_are_literals_where_they_are_pointed_to() -> None:
    before, _ = lines(words=Items((1, size("y_w")), "const int32_t"), place=Items((1, 2)))
    assert "  .words = (const int32_t[]){1, 5},\n" in before
    assert "  .place = {1, 2},\n" in before


def test_a_struct_that_no_tile_changes_is_constant() -> None:
    before, call = lines(**named("mul"))
    assert before == "const arguments_t arguments = {\n  .mul = l1 + 128,\n};"
    assert call == "kernel(&arguments);"


def test_a_struct_that_every_tile_sets_whole_is_defined_in_the_loop() -> None:
    before, call = lines(**named("x", "y_h"))
    assert before == ""
    assert call == (
        "const arguments_t arguments = {\n  .x = l1 + x_slot * 64,\n  .y_h = y_h[t.h],\n};\n"
        "kernel(&arguments);"
    )


def test_members_of_nested_initialisers_are_told_apart() -> None:
    second = Struct({"shift": Symbol("f(1, 2)"), **named("mul")})
    more = {"more[0]": Struct({"shift": 3}), "more[1]": second}
    before, call = lines(step=Struct({**named("x"), **more}))
    assert "  .step.more[0] = {.shift = 3},\n" in before
    assert "  .step.more[1] = {.shift = f(1, 2), .mul = l1 + 128},\n" in before
    assert "arguments.step.x = l1 + x_slot * 64;" in call


def test_struct_that_an_argument_points_to_has_a_variable_of_its_own() -> None:
    before, call = lines(requant=Struct(named("mul", "y_h"), "requant_t"))
    assert before == (
        "requant_t requant = {\n  .mul = l1 + 128,\n};\n"
        "const arguments_t arguments = {\n  .requant = &requant,\n};"
    )
    assert call == "requant.y_h = y_h[t.h];\nkernel(&arguments);"


def test_arguments_that_are_no_structs_stay_in_the_loop() -> None:
    before, call = call_lines(
        FunctionCall("kernel", {"x": Operand("x"), "w": size("y_w")}), NAMES.__getitem__
    )
    assert before == []
    assert call == ["kernel(l1 + x_slot * 64, 5);"]


def test_lines_around_a_call_stand_in_a_block_with_it() -> None:
    local, done = Local("int", "w", size("y_w")), FunctionCall("done")
    call = FunctionCall("kernel", {"w": Symbol("w")}, (local,), (done,))
    assert call_lines(call, NAMES.__getitem__) == (
        [],
        ["{", "  int w = 5;", "  kernel(w);", "  done();", "}"],
    )


def test_several_structs_are_variables_by_the_names_of_their_arguments() -> None:
    structs = {name: Struct({"w": size("y_w")}, f"{name}_t") for name in ("layer", "tile")}
    arguments = {**structs, "x": Operand("x")}
    before, call = call_lines(FunctionCall("kernel", arguments), NAMES.__getitem__)
    assert before == [
        "const layer_t layer = {",
        "  .w = 5,",
        "};",
        "const tile_t tile = {",
        "  .w = 5,",
        "};",
    ]
    assert call == ["kernel(&layer, &tile, l1 + x_slot * 64);"]


def test_literal_is_made_in_the_call_with_a_line_for_each_member() -> None:
    step = Struct({"shift": 3})
    inner = Struct({"mul": Operand("mul"), "step": step})
    struct = Struct({"x": Operand("x"), "requant": inner}, "arguments_t", literal=True)
    before, call = call_lines(FunctionCall("kernel", {"arguments": struct}), NAMES.__getitem__)
    assert before == []
    assert call == [
        "kernel(&(const arguments_t){",
        "  .x = l1 + x_slot * 64,",
        "  .requant = {.mul = l1 + 128, .step = {.shift = 3}}});",
    ]


def test_local_structs_and_tables_have_a_line_for_each_row() -> None:
    tile = Local("const tile_t", "tile", Struct({"w": size("y_w"), "h": 2}))
    rows = Local("static const row_t", "rows[]", Items((Items((1, 2)), Items((3, 4)))))
    call = FunctionCall("kernel", {"tile": Symbol("&tile")}, (rows, tile))
    assert call_lines(call, NAMES.__getitem__)[1] == [
        "{",
        "  static const row_t rows[] = {",
        "    {1, 2},",
        "    {3, 4},",
        "  };",
        "  const tile_t tile = {",
        "    .w = 5,",
        "    .h = 2,",
        "  };",
        "  kernel(&tile);",
        "}",
    ]


def test_reason_against_a_call_names_the_argument() -> None:
    def reason(value: object) -> str | None:
        return FunctionCall("kernel", {"a": Struct({"b": value}, "t")}).reason_against()  # type: ignore[dict-item]

    assert reason(size("y_h") * 2) is reason(Operand("x16")) is reason(None) is None
    assert "argument 'a.b' the size 'h'" in str(reason(Items((size("h"),)))).replace("[0]", "")
    assert "argument 'a.b' the operand 'q'" in str(reason(Operand("q")))
    assert "argument 'a.b' the value 'q'" in str(reason("q"))
