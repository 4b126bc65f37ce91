"""How the inputs of a strip of outputs make words, and how its sums become bytes."""

from __future__ import annotations

from dataclasses import dataclass

# Rows of a window at most whose bytes below each other make words.
_MOST_ROWS = 8


@dataclass(frozen=True, slots=True)
class Form:
    """The window of an output, and how its inputs make words.

    rows: of the window. stride: rows from output to output. words: of a row of the window; the last
    one may have fewer than four bytes. rest: bytes of a row beyond its words.
    """

    rows: int
    stride: int
    words: int
    rest: int

    @property
    def jump(self) -> int:
        """How many outputs later the word with the rows beyond four begins; 0: there are none."""
        return -(-(self.rows - 4) // self.stride) if self.rest and self.rows > 4 else 0

    @property
    def weight_words(self) -> int:
        """Words of the weights of a channel."""
        return self.rows * self.words + self.rest * (2 if self.jump else 1)

    def x_rows(self, outputs: int) -> int:
        """Return the rows of inputs of a strip."""
        return (outputs - 1) * self.stride + self.rows

    def inputs(self, outputs: int) -> int:
        """Return the words of the inputs of a strip."""
        return self.x_rows(outputs) * self.words + self.rest * (outputs + self.jump)


def form_of(rows: int, row_bytes: int, stride: int) -> Form:
    """Return the form with the fewest words of weights; without a rest where forms tie."""
    whole, rest = divmod(row_bytes, 4)
    forms = [Form(rows, stride, -(-row_bytes // 4), 0)]
    if rest and stride <= 2 and rows <= _MOST_ROWS:
        forms.append(Form(rows, stride, whole, rest))
    return min(forms, key=lambda form: form.weight_words)


@dataclass(frozen=True, slots=True)
class Finish:
    """From a sum to a byte; the parameters of a channel are those of ``dory_gap8_block_impl.h``.

    low_bits: of the low limb, 0 where there is none. reach: whether sums are clamped first. turned:
    whether an offset is added before, and another addend to the product of what is negative then.
    clip: instruction with which the result is clipped, or nothing. digits: its operand.
    """

    shift: int
    low_bits: int
    reach: bool
    turned: bool
    clip: str
    digits: int

    @property
    def limbs(self) -> bool:
        """Whether there are two limbs."""
        return self.low_bits > 0

    @property
    def parameters(self) -> int:
        """Words of the parameters of a channel."""
        return 2 + self.limbs + self.reach + 2 * self.turned

    @property
    def temporaries(self) -> int:
        """Registers that parameters need in addition to those of weights."""
        return 2 * (self.limbs or self.turned) + (self.limbs and self.turned)
