"""What operators must be like: checked before one becomes layers, and listed for users."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dory_qdq.call import Call
from dory_qdq.values import Constant, QuantisedConstant


@dataclass(frozen=True, slots=True)
class Constraint:
    """What an operator must be like.

    Attributes:
        sentence: Sentence for ``dory --list-operators`` and for the refusal.
        holds: Function that returns True when an operator fulfils the constraint.
        hint: What the user can change.
        position: The input that it speaks of.
    """

    sentence: str
    holds: Callable[[Call], bool]
    hint: str = ""
    position: int | None = None


def check(call: Call) -> None:
    """Raise NotSupported with the first constraint of an operator that does not hold."""
    for constraint in CONSTRAINTS.get(call.node.op, ()):
        if not constraint.holds(call):
            at = constraint.position
            which = "" if at is None else f": '{call.node.input(at)}'"
            raise call.error(f"supported only if {constraint.sentence}{which}", constraint.hint)


def _has(name: str, value: float, hint: str) -> Constraint:
    """Return the constraint that an attribute has its default."""
    return Constraint(
        f"{name} is {value:g}", lambda call: call.attribute(name, value) == value, hint
    )


def _ones(name: str) -> Constraint:
    return Constraint(
        f"{name} are 1",
        lambda call: all(n == 1 for n in call.attribute(name, ())),
        "leave them out",
    )


def _is_linear(call: Call) -> bool:
    return call.attribute("mode", "nearest") in ("linear", "bilinear")


def _is_constant(call: Call, position: int) -> bool:
    value = call.inputs[position] if position < len(call.inputs) else None
    return isinstance(value, Constant | QuantisedConstant)


_WEIGHTS = Constraint(
    "the weights are constant",
    lambda call: _is_constant(call, 1),
    "products of two computed tensors are not supported",
    position=1,
)
_COMPUTED = Constraint(
    "an operand is computed",
    lambda call: not (_is_constant(call, 0) and _is_constant(call, 1)),
    "fold the constants before",
)
_GEMM = "export it as a fully connected layer"
_PADDINGS = (
    *("constant", "reflect", "edge", "wrap"),
    *(b"constant", b"reflect", b"edge", b"wrap"),
)
_PAD = Constraint(
    "mode is constant, reflect, edge or wrap",
    lambda call: call.attribute("mode", "constant") in _PADDINGS,
    "pad with a constant, or leave the padding to the application",
)
_RESIZE = (
    Constraint(
        "mode is nearest, linear or bilinear",
        lambda call: call.attribute("mode", "nearest") in ("nearest", "linear", "bilinear"),
        "use the mode 'nearest' or 'linear'",
    ),
    *(
        Constraint(
            f"{name} is 0 where mode is linear",
            lambda call, name=name: not _is_linear(call) or not call.attribute(name, 0),
            "leave it out",
        )
        for name in ("antialias", "exclude_outside")
    ),
)
_DIVISOR = Constraint(
    "a constant divisor is not 0",
    lambda call: not _is_constant(call, 1) or bool((call.constant(1) != 0).all()),
    "multiply by the inverse",
    position=1,
)

_NORM = Constraint(
    "scale and bias are constant",
    lambda call: _is_constant(call, 1) and (not call.has(2) or _is_constant(call, 2)),
    "fold them into the network",
)

#: By operator of reals; the QLinear forms have those of their operator.
CONSTRAINTS: Mapping[str, tuple[Constraint, ...]] = MappingProxyType(
    {
        **dict.fromkeys(("Conv", "ConvTranspose"), (_WEIGHTS,)),
        "Gemm": (
            _WEIGHTS,
            _has("transA", 0, _GEMM),
            _has("alpha", 1, _GEMM),
            _has("beta", 1, _GEMM),
        ),
        "MatMul": (_COMPUTED,),
        "AveragePool": (_ones("dilations"),),
        "Pad": (_PAD,),
        "Div": (_DIVISOR,),
        **dict.fromkeys(
            ("LayerNormalization", "InstanceNormalization"),
            (_NORM,),
        ),
        **dict.fromkeys(("RMSNormalization", "SimplifiedLayerNormalization"), (_NORM,)),
        "LpNormalization": (_has("p", 2, "normalise by the Euclidean norm"),),
        "Resize": _RESIZE,
        "Upsample": _RESIZE,
    }
)
