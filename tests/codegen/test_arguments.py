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

DEFINED = "arguments_t arguments;"
NAMES = {
    "x": ArgumentText("l1 + x_slot * 64", "(l1 + x_slot * 64)", of_tile=True),
    "mul": ArgumentText("l1 + 128", "(l1 + 128)"),
    "y_h": ArgumentText("y_h[t.h]", "y_h[t.h]", of_tile=True),
    "y_w": ArgumentText("5", "5"),
}


def lines(**members: Argument) -> tuple[str, str]:
    call = FunctionCall("kernel", {"arguments": Struct(members, "arguments_t")})
    before, of_tile, statement = call_lines(call, NAMES.__getitem__)
    return "\n".join(before), "\n".join((*of_tile, *statement))


def test_members_that_name_the_tile_are_set_in_the_loop() -> None:
    before, call = lines(**named("x", "y_h", "y_w"), stride=2)
    assert before == DEFINED + "\narguments.y_w = 5;\narguments.stride = 2;"
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
    assert "arguments.table = (const void *)(l1 + 128);" in before
    assert "arguments.bytes = (const int8_t *)(l1 + 128);" in before
    assert "arguments.number = (uintptr_t)((l1 + 128) + 8);" in before
    assert "arguments.end = (l1 + 128) + 4;" in before
    assert "arguments.place = (void *)((l1 + 128) + 5 * 8);" in before


def test_values_without_an_operator_beside_them_need_no_brackets() -> None:
    before, _ = lines(table=Operand("mul", function="table_of"), other=named("mul")["mul"])
    assert "arguments.table = table_of(l1 + 128);" in before
    assert "arguments.other = l1 + 128;" in before
    inner = Struct(named("mul"), "a_t", literal=True)
    call = FunctionCall("kernel", {"a": inner, "x": Operand("x", "void *")})
    assert call_lines(call, NAMES.__getitem__)[2] == [
        "kernel(&(const a_t){",
        "  .mul = l1 + 128}, (void *)(l1 + x_slot * 64));",
    ]


def test_numbers_have_a_type_that_holds_them() -> None:
    before, _ = lines(least=-(1 << 31), more=1 << 31, least64=-(1 << 63), zero=0, nothing=None)
    assert "arguments.least = (-2147483647 - 1);" in before
    assert "arguments.more = INT64_C(2147483648);" in before
    assert "arguments.least64 = (-INT64_C(9223372036854775807) - 1);" in before
    assert "arguments.zero = 0;\narguments.nothing = NULL;" in before


def test_expressions_of_sizes_keep_their_order_and_brackets() -> None:
    h, w = size("y_h"), size("y_w")
    before, each = lines(a=(w + 3) // 4 * 4, b=w - (w - 1), c=(w <= 4) * 2, d=h * (w + 1))
    assert "arguments.a = (5 + 3) / 4 * 4;" in before
    assert "arguments.b = 5 - (5 - 1);" in before
    assert "arguments.c = (5 <= 4) * 2;" in before
    assert "arguments.d = y_h[t.h] * (5 + 1);" in each


def test_arrays_are_literals_where_they_are_pointed_to() -> None:
    before, _ = lines(words=Items((1, size("y_w")), "const int32_t"), place=Items((1, 2)))
    assert "arguments.words = (const int32_t[]){1, 5};" in before
    assert "arguments.place[0] = 1;\narguments.place[1] = 2;" in before


def test_members_that_a_call_does_not_give_are_not_cleared() -> None:
    """An initialiser clears them; on the host they hold a pattern."""
    before, call = lines(**named("x", "y_h"))
    assert before == DEFINED
    assert call == (
        "arguments.x = l1 + x_slot * 64;\narguments.y_h = y_h[t.h];\nkernel(&arguments);"
    )


def test_members_of_a_shape_are_one_statement() -> None:
    before, call = lines(x_h=1, x_w=2, x_c=3, **named("y_h", "y_w"), pad_top=0, pad_left=1)
    assert "DORY_HWC(arguments.x, 1, 2, 3);\n" in before
    assert "DORY_TOP_LEFT(arguments.pad, 0, 1);" in before
    assert "arguments.y_h = y_h[t.h];" in call


def test_members_of_nested_structs_are_told_apart() -> None:
    second = Struct({"shift": Symbol("f(1, 2)"), **named("mul")})
    more = {"more[0]": Struct({"shift": 3}), "more[1]": second}
    before, call = lines(step=Struct({**named("x"), **more}))
    assert "arguments.step.more[0].shift = 3;\n" in before
    assert "arguments.step.more[1].shift = f(1, 2);\n" in before
    assert "arguments.step.more[1].mul = l1 + 128;" in before
    assert "arguments.step.x = l1 + x_slot * 64;" in call


def test_struct_that_an_argument_points_to_has_a_variable_of_its_own() -> None:
    before, call = lines(requant=Struct(named("mul", "y_h"), "requant_t"))
    assert before == (
        DEFINED.replace("arguments", "requant")
        + "\nrequant.mul = l1 + 128;\n"
        + DEFINED
        + "\narguments.requant = &requant;"
    )
    assert call == "requant.y_h = y_h[t.h];\nkernel(&arguments);"


def test_arguments_that_are_no_structs_stay_in_the_loop() -> None:
    before, of_tile, call = call_lines(
        FunctionCall("kernel", {"x": Operand("x"), "w": size("y_w")}), NAMES.__getitem__
    )
    assert before == of_tile == []
    assert call == ["kernel(l1 + x_slot * 64, 5);"]


def test_lines_around_a_call_stand_in_a_block_with_it() -> None:
    local, done = Local("int", "w", size("y_w")), FunctionCall("done")
    call = FunctionCall("kernel", {"w": Symbol("w")}, (local,), (done,))
    assert call_lines(call, NAMES.__getitem__) == (
        [],
        [],
        ["{", "  int w = 5;", "  kernel(w);", "  done();", "}"],
    )


def test_several_structs_are_variables_by_the_names_of_their_arguments() -> None:
    structs = {name: Struct({"w": size("y_w")}, f"{name}_t") for name in ("layer", "tile")}
    arguments = {**structs, "x": Operand("x")}
    before, of_tile, call = call_lines(FunctionCall("kernel", arguments), NAMES.__getitem__)
    assert [line for line in before if "SIM" not in line] == [
        "layer_t layer;",
        "layer.w = 5;",
        "tile_t tile;",
        "tile.w = 5;",
    ]
    assert of_tile == []
    assert call == ["kernel(&layer, &tile, l1 + x_slot * 64);"]


def test_literal_is_made_in_the_call_with_a_line_for_each_member() -> None:
    step = Struct({"shift": 3})
    inner = Struct({"mul": Operand("mul"), "step": step})
    struct = Struct({"x": Operand("x"), "requant": inner}, "arguments_t", literal=True)
    before, of_tile, call = call_lines(
        FunctionCall("kernel", {"arguments": struct}), NAMES.__getitem__
    )
    assert before == of_tile == []
    assert call == [
        "kernel(&(const arguments_t){",
        "  .x = l1 + x_slot * 64,",
        "  .requant = {.mul = l1 + 128, .step = {.shift = 3}}});",
    ]


def test_local_structs_and_tables_have_a_line_for_each_row() -> None:
    tile = Local("const tile_t", "tile", Struct({"w": size("y_w"), "h": 2}))
    rows = Local("static const row_t", "rows[]", Items((Items((1, 2)), Items((3, 4)))))
    call = FunctionCall("kernel", {"tile": Symbol("&tile")}, (rows, tile))
    assert call_lines(call, NAMES.__getitem__)[2] == [
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
