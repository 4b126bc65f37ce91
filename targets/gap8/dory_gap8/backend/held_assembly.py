"""Assembly of strips of outputs whose inputs stay in registers, for XpulpV2.

A strip is some outputs below each other. Rows of their windows overlap, so all of their inputs fit
into registers: they are loaded once, and then each channel reads its weights word by word and
multiplies each word for all outputs of the strip. Weights and parameters of a channel follow one
another in memory, so that one pointer reads both.

Where a pool of 2x2 follows, a strip has two columns. The first one leaves the larger sums of pairs
of its rows in memory, the second one requantises the largest of four.

Rows of a window are whole words and, where that takes fewer words, bytes that are left over. Those
of rows below each other make words as well: the one of output p begins at row ``stride * p``, and
what a window has below its fourth row is in the word of a later output.

No instruction uses what the one before it loaded. Hardware loop 0 runs over channels; the end of a
hardware loop is its last instruction, and its first one begins a word.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from dory_gap8.backend.held_form import Finish, Form

# What a function may use: all but sp, gp and tp.
REGISTERS = (
    *(f"a{i}" for i in range(8)),
    *(f"t{i}" for i in range(7)),
    *(f"s{i}" for i in range(12)),
    "ra",
)
_SAVED = ("ra", *(f"s{i}" for i in range(12)))
# The frame: the argument, two fields of it, an input without a register, saved registers, where the
# sums of the first column are.
_ARGUMENT, _Y_NEXT, _Y_END, _INPUT = "0(sp)", "4(sp)", "8(sp)", "12(sp)"
_FIRST_SAVED, _FRAME_BYTES, _SUMS = 16, 80, "68(sp)"
# Fields of dory_held_t, words from its beginning on.
FIELDS = (
    *("x", "x_step", "x_row", "weights", "y"),
    *("y_next", "y_end", "y_row", "y_back", "channels", "sums"),
)
_PLACES = {name: f"{4 * i}({{}})" for i, name in enumerate(FIELDS)}
# Sums of a column of a strip at most.
MOST_SUMS = 8


def _spilled(form: Form, finish: Finish, outputs: int, pool: int) -> int:
    """Return the number of inputs of a strip without a register."""
    # To weights and outputs, steps down and back to the next channel, to sums of the first column.
    pointers = 4 + (pool > 1)
    needed = form.inputs(outputs) + outputs + 2 + finish.temporaries + pointers
    return max(0, needed - len(REGISTERS))


def longest_strip(form: Form, finish: Finish, pool: int = 1) -> int:
    """Return the sums of a column of the longest strip with enough registers, 0 for none.

    The first input may be without one: the parameters' registers are free when it is multiplied.
    """
    lengths = range(MOST_SUMS, 0, -pool)
    most = min(1, finish.temporaries, form.words)
    return next((n for n in lengths if _spilled(form, finish, n, pool) <= most), 0)


@dataclass(frozen=True, slots=True)
class Strip:
    """The function for strips of a number of sums in a column.

    text: as the assembler reads it. channel_cycles, strip_cycles, call_cycles: of a channel, of a
    strip without its channels, of a call without its strips; by counting instructions.
    """

    text: str
    channel_cycles: int
    strip_cycles: int
    call_cycles: int


@functools.lru_cache(maxsize=64)
def strip(
    form: Form, finish: Finish, outputs: int, signed: bool, name: str, pool: int = 1
) -> Strip:
    """Return function ``name`` for strips of ``outputs`` sums in a column.

    signed: whether inputs are. pool: 2 where outputs are the largest of 2 x 2 sums, else 1.
    """
    return _Writer(form, finish, outputs, signed, pool).function(name)


class _Writer:
    """Registers of a strip, and the parts of its function as instructions."""

    def __init__(self, form: Form, finish: Finish, outputs: int, signed: bool, pool: int) -> None:
        self.form, self.finish, self.outputs, self.pool = form, finish, outputs, pool
        kind = "sp.b" if signed else "usp.b"
        self.dot, self.add = f"pv.dot{kind}", f"pv.sdot{kind}"
        free = list(REGISTERS)

        def take(count: int) -> list[str]:
            taken, free[:] = free[:count], free[count:]
            return taken

        self.spilled = _spilled(form, finish, outputs, pool)
        # The caller's argument is where the first weights come later.
        self.weights = take(2)
        self.pointer, self.y, self.y_row, self.y_back = take(4)
        self.first_sums = take(pool - 1)
        self.sums, self.temporaries = take(outputs), take(finish.temporaries)
        self.results = self.sums[::pool]
        self.inputs = take(form.inputs(outputs) - self.spilled)
        if self.spilled:
            self.inputs.insert(0, self.temporaries[0])
        # What is free while inputs are loaded.
        self.loading = [
            *(self.weights[1], self.pointer, self.y_row, self.y_back),
            *(*self.sums, *self.temporaries, *free),
        ]

    def function(self, name: str) -> Strip:
        """Return the whole function."""
        saved = [f"{r}, {_FIRST_SAVED + 4 * i}(sp)" for i, r in enumerate(_SAVED)]
        argument, other = self.weights
        place = {field: text.format("a0") for field, text in _PLACES.items()}
        entry = [
            f"addi sp, sp, -{_FRAME_BYTES}",
            *(f"sw {place}" for place in saved),
            *(f"lw a1, {place['y_next']}", f"lw a2, {place['y_end']}"),
            *(f"lw {self.y}, {place['y']}", f"sw a0, {_ARGUMENT}"),
            f"sw a1, {_Y_NEXT}",
        ]
        if self.pool > 1:
            entry += [f"lw a1, {place['sums']}", f"sw a2, {_Y_END}", f"sw a1, {_SUMS}"]
        else:
            entry.append(f"sw a2, {_Y_END}")
        assert (argument, self.y not in ("a1", "a2")) == ("a0", True)
        columns = self._columns()
        again = [
            *(f"lw {other}, {_Y_NEXT}", f"lw {self.pointer}, {_Y_END}"),
            *(f"add {self.y}, {self.y}, {other}", f"lw {argument}, {_ARGUMENT}"),
            f"bne {self.y}, {self.pointer}, 1b",
        ]
        leave = [*(f"lw {place}" for place in saved), f"addi sp, sp, {_FRAME_BYTES}", "ret"]
        body = [n for a, b in columns for n in (*a, *b[:-1], f"2: {b[-1]}")]
        lines = [
            f'.pushsection .text.{name}, "ax", @progbits',
            *(".option push", ".option rvc", ".balign 4"),
            *(f".globl {name}", f".type {name}, @function", f"{name}:"),
            *entry,
            *(f"1: {body[0]}", *body[1:]),
            *(*again, *leave),
            *(f".size {name}, . - {name}", ".option pop", ".popsection"),
        ]
        # A branch that is taken costs two more, a return one; the last branch is not taken.
        call = len(entry) + len(leave) + 1 - 2
        loads, channels = (sum(map(len, parts)) for parts in zip(*columns, strict=True))
        return Strip("\n".join(lines) + "\n", channels, loads + len(again) + 2, call)

    def _columns(self) -> list[tuple[list[str], list[str]]]:
        """Return the loads of each column's inputs, and the instructions of a channel of it."""
        load, channel = self._load(), self._channel()
        if self.pool == 1:
            return [(load, channel)]
        second = [f"lw {self.weights[0]}, {_ARGUMENT}", *load]
        return [(load, self._first_column()), (second, channel)]

    def _load(self) -> list[str]:
        """Load the inputs of a strip, move the pointers on to the next one, enter the channels."""
        form, argument = self.form, self.weights[0]
        x, row, step, q, *ring = self.loading
        place = {name: text.format(argument) for name, text in _PLACES.items()}
        out = [
            *(f"lw {register}, {_SUMS}" for register in self.first_sums),
            *(f"lw {x}, {place['x']}", f"lw {step}, {place['x_step']}"),
            *(f"lw {row}, {place['x_row']}", f"add {step}, {step}, {x}"),
            f"sw {step}, {place['x']}",
        ]
        last: list[str] = []
        for byte in range(form.rest):
            made = self._bytes(byte, q, row, ring)
            loads = 1 + max(i for i, line in enumerate(made) if line.startswith("p.lbu"))
            out += [f"addi {q}, {x}, {4 * form.words + byte}", *last, *made[:loads]]
            last = made[loads:]
        rest = self._load_words(x, row, step)
        count = self.weights[1]
        rest += [f"lw {count}, {place['channels']}", f"lw {self.pointer}, {place['weights']}"]
        if len(self.results) > 1:
            rest += [f"lw {self.y_row}, {place['y_row']}", f"lw {self.y_back}, {place['y_back']}"]
        # What the last byte becomes does not wait for it.
        loop = f".balign 4\nlp.setup x0, {count}, 2f"
        return [*out, rest[0], *last, *rest[1:], loop]

    def _load_words(self, x: str, row: str, step: str) -> list[str]:
        """Load the words of all rows from x on."""
        words = self.form.words
        out = [f"addi {step}, {row}, -{4 * (words - 1)}"] if words > 1 else []
        for r in range(self.form.x_rows(self.outputs)):
            for word in range(words):
                by = 4 if word < words - 1 else step if words > 1 else row
                out.append(f"p.lw {self._word(r, word)}, {by}({x}!)")
                if (r, word) == (1, 0) and self.spilled:
                    out.append(f"sw {self._word(0, 0)}, {_INPUT}")
        return out

    def _bytes(self, byte: int, q: str, row: str, ring: list[str]) -> list[str]:
        """Make words of a byte of all rows, read from q on.

        A word is the one before it, moved by the stride, and two new bytes on top. What is missing
        below the last row is multiplied by zero.
        """
        stride, rows = self.form.stride, self.form.x_rows(self.outputs)
        column = [self._column(byte, n) for n in range(self.outputs + self.form.jump)]
        names = [ring[k % 3] for k in range(rows)]
        out, done = [f"p.lbu {names[0]}, {row}({q}!)"], 0
        for k in range(rows):
            if k + 1 < rows:
                out.append(f"p.lbu {names[k + 1]}, {row}({q}!)")
            if k == 1:
                out.append(f"pv.packlo.b {column[0]}, {names[1]}, {names[0]}")
            if done < len(column) and k >= 2 and (k == done * stride + 3 or k == rows - 1):
                if done:
                    out.append(f"srli {column[done]}, {column[done - 1]}, {8 * stride}")
                below = names[k - 1] if k == done * stride + 3 else names[k]
                out.append(f"pv.packhi.b {column[done]}, {names[k]}, {below}")
                done += 1
        for later in range(done, len(column)):
            if later:
                out.append(f"srli {column[later]}, {column[later - 1]}, {8 * stride}")
        return out

    def _word(self, row: int, word: int) -> str:
        """Return the register of a word of a row."""
        return self.inputs[row * self.form.words + word]

    def _column(self, byte: int, output: int) -> str:
        """Return the register of bytes below each other, from the first row of an output on."""
        first = self.form.x_rows(self.outputs) * self.form.words
        return self.inputs[first + byte * (self.outputs + self.form.jump) + output]

    def _products(self) -> list[list[str]]:
        """Return the inputs of all outputs for each word of weights, in their order."""
        form, outputs = self.form, range(self.outputs)
        words = [
            [self._word(form.stride * p + row, word) for p in outputs]
            for row in range(form.rows)
            for word in range(form.words)
        ]
        for byte in range(form.rest):
            words.append([self._column(byte, p) for p in outputs])
            if form.jump:
                words.append([self._column(byte, p + form.jump) for p in outputs])
        return words

    def _next(self, register: str, words: int = 1) -> str:
        """Load the next word of weights or parameters, and step on."""
        return f"p.lw {register}, {4 * words}({self.pointer}!)"

    def _channel(self) -> list[str]:
        """Sums of a channel, and their way to bytes."""
        words = len(self._products())
        early, late = (self.weights[(words - n) % 2] for n in (2, 1))
        finish = self._long_finish if self.finish.temporaries else self._short_finish
        out, end = self._sums(self._first_parameters(early)), finish(early, late)
        if self.pool == 1:
            return out + end
        # Nothing waits for a sum of the first column.
        [before], others = self.first_sums, self.sums[1::2]
        out += [f"p.lw {s}, 4({before}!)" for s in others]
        pairs = zip(self.results, others, strict=True)
        return [*out, end[0], *(f"p.max {s}, {s}, {other}" for s, other in pairs), *end[1:]]

    def _first_column(self) -> list[str]:
        """Sums of a channel that wait for those of the second column."""
        [place] = self.first_sums
        return self._sums() + [f"p.sw {s}, 4({place}!)" for s in self.results]

    def _sums(self, parameters: Sequence[str] | None = None) -> list[str]:
        """Sums of a channel, of rows of which the pool takes the largest.

        parameters: the loads of parameters before the last word; None: all are left out.
        """
        products = self._products()
        out = [f"lw {self.inputs[0]}, {_INPUT}"] if self.spilled else []
        left_out = self.finish.parameters if parameters is None else 0
        steps = [1] * (len(products) - 1) + [1 + left_out]
        out += [self._next(*pair) for pair in zip(self.weights, steps, strict=False)]
        for i, inputs in enumerate(products):
            word = self.weights[i % 2]
            dot = self.dot if i == 0 else self.add
            out += [f"{dot} {s}, {x}, {word}" for s, x in zip(self.sums, inputs, strict=True)]
            if i + 2 < len(products):
                out.append(self._next(word, steps[i + 2]))
            elif i + 2 == len(products):
                out += parameters or ()
        if self.pool == 1:
            return out
        return out + [
            f"p.max {s}, {s}, {t}" for s, t in zip(self.results, self.sums[1::2], strict=True)
        ]

    def _first_parameters(self, early: str) -> list[str]:
        """Load the parameters for which there are registers before the last word is multiplied."""
        finish = self.finish
        if not finish.temporaries:
            return [self._next(early)]
        names = [self.temporaries[1]] if finish.turned else []
        names += [self.temporaries[0 if finish.turned else 1]] if finish.reach else []
        names += [early, self._high] if finish.limbs else [early]
        return [self._next(name) for name in names]

    @property
    def _high(self) -> str:
        return self.temporaries[2 if self.finish.turned else 0]

    def _clip(self, register: str) -> list[str]:
        finish = self.finish
        return [f"{finish.clip} {register}, {register}, {finish.digits}"] if finish.clip else []

    def _store(self, register: str, output: int) -> str:
        """Store an output, and step on: down, or from the last one to the next channel."""
        last = output == len(self.results) - 1
        by = self.y_row if not last else self.y_back if len(self.results) > 1 else 1
        return f"p.sb {register}, {by}({self.y}!)"

    def _short_finish(self, early: str, late: str) -> list[str]:
        """One multiplication: each step for all outputs."""
        sums, out = self.results, []
        if self.finish.reach:
            out += [self._next(late), *(f"p.clipr {s}, {s}, {early}" for s in sums)]
            early, late = late, early
        out += [self._next(late), *(f"mul {s}, {s}, {early}" for s in sums)]
        out += [f"p.addN {s}, {s}, {late}, {self.finish.shift}" for s in sums]
        out += [line for s in sums for line in self._clip(s)]
        return out + [self._store(s, p) for p, s in enumerate(sums)]

    def _long_finish(self, early: str, late: str) -> list[str]:
        """Two limbs or two addends: each output in the register of the sum before it.

        The end of an output and the beginning of the next one alternate.
        """
        finish, sums, (below, value) = self.finish, self.results, self.temporaries[:2]
        out = [self._next(late)]
        if finish.turned:
            out += [f"add {s}, {s}, {value}" for s in sums]
        if finish.reach:
            bound = below if finish.turned else value
            out += [f"p.clipr {s}, {s}, {bound}" for s in sums]
        if finish.turned:
            out.append(self._next(below))
        ending: list[str] = []
        for p, s in enumerate(sums):
            begin = [f"mul {value}, {s}, {early}"]
            if finish.limbs:
                begin += [f"srai {value}, {value}, {finish.low_bits}"]
                begin += [f"p.mac {value}, {s}, {self._high}"]
            if finish.turned:
                begin += [f"srli {s}, {s}, 31", f"p.mac {value}, {s}, {below}"]
            for n in range(max(len(begin), len(ending))):
                out += [*begin[n : n + 1], *ending[n : n + 1]]
            ending = [f"p.addN {value}, {value}, {late}, {finish.shift}", *self._clip(value)]
            ending.append(self._store(value, p))
            value = s
        return out + ending
