"""What plan.json and timeline.json are made of, and whether a document is one of them.

Both are files that anybody may have edited. What passes here can be printed and drawn; JSON
Schema says the types, the rest are positions in lists.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from dory_core.errors import UsageError
from dory_core.plan.document import GENERATOR, PLAN_VERSION
from dory_core.quoting import shortened

_DRAFT = "http://json-schema.org/draft-07/schema#"
_AGAIN = "compile the network again"
_Schema = dict[str, Any]
# Each is compiled once, into a function of its own: fastjsonschema writes a message before each
# member that it checks by a definition, from all variables of the function that it is in.
_DEFINITIONS: dict[str, _Schema] = {}


def _named(name: str, schema: _Schema) -> _Schema:
    """Define a schema that others name; return what refers to it."""
    _DEFINITIONS[name] = schema
    return {"$ref": f"#/definitions/{name}"}


_MOST = 1 << 64
_MOST_PARTS = 1 << 20  # of a layer: maps have a column for each
_INTEGER = _named("integer", {"type": "integer", "minimum": -_MOST, "maximum": _MOST})
_COUNT = _named("count", {"type": "integer", "minimum": 0, "maximum": _MOST})
_NUMBER = _named("number", {"type": "number", "minimum": -1e39, "maximum": 1e39})
_AMOUNT = _named("amount", {"type": "number", "minimum": 0, "maximum": 1e30})
_FLAG: _Schema = {"type": "boolean"}
# Half of a surrogate pair is no character: nothing can write it.
_WHOLE = "^[^\ud800-\udfff]*$"
_TEXT = _named("text", {"type": "string", "pattern": _WHOLE})
_SETTING = _named("setting", {"anyOf": [_TEXT, _NUMBER, _FLAG, {"type": "null"}]})


def _record(**members: _Schema) -> _Schema:
    return {"type": "object", "properties": members, "required": list(members)}


def _list(member: _Schema, least: int = 0, most: int | None = None) -> _Schema:
    bound = {} if most is None else {"maxItems": most}
    return {"type": "array", "items": member, "minItems": least, **bound}


def _by_name(member: _Schema) -> _Schema:
    return {"type": "object", "additionalProperties": member, "propertyNames": _TEXT}


def _or_null(schema: _Schema) -> _Schema:
    return {"anyOf": [schema, {"type": "null"}]}


_LAYOUT = {
    **_record(
        name=_TEXT,
        channel_block=_COUNT,
        channel_multiple=_COUNT,
        width_multiple=_COUNT,
        reversed_bytes=_COUNT,
        clean=_FLAG,
    ),
    "additionalProperties": False,
}
_INTERVAL = _named("interval", _list(_INTEGER, 2, 2))
_PLACED = _record(
    name=_TEXT,
    shape=_list(_COUNT, 3, 3),
    type=_TEXT,
    range=_INTERVAL,
    scale=_or_null(_NUMBER),
    channel_scales=_list(_NUMBER),
    zero_point=_INTEGER,
    value_offset=_INTEGER,
    removed=_TEXT,
    level=_COUNT,
    memory=_COUNT,
    offset=_COUNT,
    passing=_FLAG,
    layout=_LAYOUT,
)
_PLACE = _named("place", _PLACED)
_MOVED = _named("moved", _record(**_PLACED["properties"], transfer=_TEXT))
_BORDER = _named(
    "border",
    _record(**_PLACED["properties"], rows=_or_null(_record(count=_COUNT, bytes=_COUNT))),
)
_CONVERSION = _named(
    "conversion", _record(tensor=_TEXT, source=_PLACE, target=_PLACE, cycles=_COUNT)
)
_ESTIMATE = _record(
    cycles=_COUNT,
    compute_cycles=_COUNT,
    dma_cycles=_COUNT,
    stall_cycles=_COUNT,
    l3_stall_cycles=_COUNT,
    conversion_cycles=_COUNT,
    macs_per_cycle=_AMOUNT,
    bound=_TEXT,
    calls=_COUNT,
    transfers=_COUNT,
    transfer_bytes=_COUNT,
)
_REJECTIONS = _named(
    "rejections", _list(_record(kernel=_TEXT, engine=_TEXT, reason=_TEXT, other_kind=_FLAG))
)
_LAYER_MEMBERS = _record(
    index=_COUNT,
    name=_TEXT,
    tensor=_TEXT,
    kind=_TEXT,
    macs=_COUNT,
    engine=_TEXT,
    passed_over=_list(_record(engine=_TEXT, reason=_TEXT)),
    kernel=_TEXT,
    symbol=_TEXT,
    rejections=_REJECTIONS,
    conversions=_list(_CONVERSION),
    inputs=_list(_MOVED),
    output=_MOVED,
    tiles=_record(c_out=_COUNT, h=_COUNT, w=_COUNT, c_in=_COUNT, count=_COUNT),
    order=_list(_TEXT),
    buffering=_record(x=_COUNT, w=_COUNT, y=_COUNT),
    terms=_list(_record(name=_TEXT, weight=_NUMBER, value=_NUMBER, text=_TEXT)),
    proof=_TEXT,
    l3_tiles={"type": "integer", "minimum": 1, "maximum": _MOST_PARTS},
    turns={"type": "integer", "minimum": 1, "maximum": _MOST},
    positions=_list(_COUNT, 1),
    bytes=_record(l1=_COUNT, l1_budget=_COUNT),
    l1_blocks=_list(_record(name=_TEXT, bytes=_COUNT, offsets=_list(_COUNT))),
    kept=_list(_record(name=_TEXT, bytes=_COUNT, offset=_COUNT)),
    ahead=_or_null(_record(step=_COUNT, tile=_COUNT, by_words=_FLAG)),
    loaded_ahead=_FLAG,
    found_inputs=_COUNT,
    copies=_by_name(_record(by=_TEXT, multiple=_COUNT, reason=_TEXT)),
    weights=_or_null(
        _record(
            level=_COUNT, linked=_FLAG, fetched=_TEXT, offset=_COUNT, bytes=_COUNT, chunks=_COUNT
        )
    ),
    requant=_record(bits=_COUNT, acc=_INTERVAL, value=_INTERVAL),
    estimate=_ESTIMATE,
    code=_or_null(_record(layer=_COUNT, row=_COUNT, rows=_COUNT)),
)
_LAYER = _named("layer", _LAYER_MEMBERS)
_BLOCK = _record(
    name=_TEXT, memory=_COUNT, offset=_COUNT, size=_COUNT, first=_INTEGER, last=_INTEGER
)
_LEVEL = _record(
    used=_COUNT,
    budget=_COUNT,
    dominant=_TEXT,
    stack_bytes=_or_null(_COUNT),
    packed_bytes=_or_null(_COUNT),
    blocks=_list(_BLOCK),
)
_TRANSFER = _record(
    name=_TEXT,
    direction={"enum": ["in", "out"]},
    bytes=_COUNT,
    l2_offset=_COUNT,
    l3_offset=_COUNT,
    start=_INTEGER,
    wait=_INTEGER,
)
_POINT = _record(
    name=_TEXT, core_hz=_AMOUNT, io_hz=_AMOUNT, energy_j_per_cycle=_AMOUNT, source=_TEXT
)
PLAN = _record(
    target=_TEXT,
    frontend=_TEXT,
    options=_by_name(_SETTING),
    deployable=_FLAG,
    reason=_TEXT,
    network=_record(
        name=_TEXT,
        reference=_TEXT,
        inputs=_list(_BORDER, 1),
        outputs=_list(_BORDER, 1),
        states=_list(
            _record(
                name=_TEXT,
                bytes=_COUNT,
                place=_PLACE,
                left=_PLACE,
                copied=_FLAG,
                table_bytes=_COUNT,
            )
        ),
        float_io=_FLAG,
        ties_even=_FLAG,
        macs=_COUNT,
        parameters=_COUNT,
    ),
    cores=_COUNT,
    layers=_list(_LAYER, 1),
    memory={**_by_name(_LEVEL), "required": ["L1"]},
    transfers=_list(_TRANSFER),
    final_conversions=_list(_CONVERSION),
    totals=_record(
        cycles=_COUNT,
        macs_per_cycle=_or_null(_AMOUNT),
        latency_ms=_or_null(_AMOUNT),
        energy_mj=_or_null(_AMOUNT),
        operating_point=_or_null(_TEXT),
        conversion_cycles=_COUNT,
        engines=_by_name(_record(layers=_COUNT, macs=_COUNT, cycles=_COUNT)),
    ),
    operating_point=_or_null(_POINT),
    roofline=_record(
        peak_macs_per_cycle=_AMOUNT, links=_by_name(_AMOUNT), engines=_by_name(_AMOUNT)
    ),
    notes=_list(_TEXT),
)
_EVENT: _Schema = {
    "type": "array",
    "items": [_COUNT, _COUNT, {"type": "integer", "minimum": -1}, _COUNT, _AMOUNT, _AMOUNT],
    "minItems": 6,
    "maxItems": 6,
}
TIMELINE = _record(
    cycles=_COUNT, lanes=_list(_TEXT), names=_list(_TEXT), layers=_list(_TEXT), events=_list(_EVENT)
)


def check_plan(path: Path, text: bytes) -> dict[str, Any]:
    """Return the document of plan.json.

    Raises:
        UsageError: When it is none that this dory reads.
    """
    plan = _document(path, text)
    if plan.get("generator") != GENERATOR:
        raise UsageError(f"{path} was not written by dory", "give the directory of an application")
    return _checked(path, plan, _validator("plan"))


def check_timeline(path: Path, text: bytes) -> dict[str, Any]:
    """Return the document of timeline.json; raises UsageError like :func:`check_plan`."""
    timeline = _checked(path, _document(path, text), _validator("timeline"))
    most = [len(timeline[key]) for key in ("lanes", "names", "layers")]
    for event in timeline["events"]:
        if any(place >= length for place, length in zip(event[:3], most, strict=True)):
            raise UsageError(f"{path} is damaged: an event names what there is not", _AGAIN)
    return timeline


def _document(path: Path, text: bytes) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is damaged: it is no JSON ({error})", _AGAIN) from error
    if not isinstance(document, dict):
        raise UsageError(f"{path} is damaged: it is no JSON object", _AGAIN)
    return document


def _checked(
    path: Path, document: dict[str, Any], validate: Callable[[Any], Any]
) -> dict[str, Any]:
    from fastjsonschema import JsonSchemaValueException

    version = document.get("version")
    if version != PLAN_VERSION or isinstance(version, bool):
        raise UsageError(
            f"{path} was made by another version of dory (it has format {shortened(str(version))}, "
            f"this one reads {PLAN_VERSION})",
            _AGAIN,
        )
    try:
        validate(document)
    except JsonSchemaValueException as error:
        rule = shortened(str(error.message).removeprefix("data.").removeprefix("data "))
        raise UsageError(f"{path} is damaged: {rule}", _AGAIN) from error
    return document


@cache
def _validator(name: str) -> Callable[[Any], Any]:
    import fastjsonschema

    schema = {"plan": PLAN, "timeline": TIMELINE}[name]
    schema = {"$schema": _DRAFT, "definitions": _DEFINITIONS, **schema}
    compiled: Callable[[Any], Any] = fastjsonschema.compile(schema, use_default=False)
    return compiled
