"""Names in text: what reads the text sees the name, and nothing that the name commands."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from dory_core import quoting
from dory_core.simulate.compiler import find_compiler
from tests.evil_names import EVIL_NAMES


@pytest.mark.parametrize("name", EVIL_NAMES)
def test_visible_text_is_one_line_without_commands(name: str) -> None:
    shown = quoting.visible(name)
    assert shown.isprintable()
    assert len(shown.splitlines()) == 1
    assert quoting.visible(shown) == shown


def test_what_a_terminal_shows_of_several_lines() -> None:
    text = quoting.lines("one\n\ttwo\x1b[2J\ndory: hint: do it")
    assert text == "one\n  \ttwo<U+001B>[2J\n  dory: hint: do it"


def test_documents_are_visible_at_every_depth() -> None:
    document = {"a\n": ["\x1b", {"b": ("\u202e", 1, None)}]}
    assert quoting.visible_document(document) == {
        "a<U+000A>": ["<U+001B>", {"b": ["<U+202E>", 1, None]}]
    }


def test_c_takes_names_as_comments_and_strings(tmp_path: Path) -> None:
    comments = "\n".join(f"/* {quoting.c_comment(name)} */" for name in EVIL_NAMES)
    strings = "\n".join(f"  puts({quoting.c_string(name)});" for name in EVIL_NAMES)
    source = tmp_path / "names.c"
    source.write_text(f"{comments}\n#include <stdio.h>\nint main(void) {{\n{strings}\n}}\n")
    compiler = find_compiler()
    flags = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
    program = tmp_path / "names"
    subprocess.run([*compiler.command, *flags, str(source), "-o", str(program)], check=True)
    printed = subprocess.run([program], capture_output=True, check=True).stdout.decode("ascii")
    for name, line in zip(EVIL_NAMES, printed.splitlines(), strict=True):
        assert line.isprintable() and len(line) <= 2 * quoting.LONGEST
        if name.isascii() and name.isprintable() and len(name) <= quoting.LONGEST:
            assert line == name


def test_make_runs_nothing_of_a_name(tmp_path: Path) -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    texts = [f"# {quoting.makefile(name)}" for name in EVIL_NAMES]
    texts += [f"V{n} = {quoting.makefile(name)}" for n, name in enumerate(EVIL_NAMES)]
    names = " ".join(f"V{n}" for n in range(len(EVIL_NAMES)))
    texts.append(f"$(foreach v,{names},$(info $v=$($v)))\nall:\n\t@echo built")
    (tmp_path / "Makefile").write_text("\n".join(texts) + "\n", encoding="utf-8")
    inside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    made = subprocess.run(
        ["make"], cwd=tmp_path, env=inside, capture_output=True, text=True, check=True
    )
    assert made.stdout.endswith("built\n")
    assert "V1=$(shell touch hacked) ${HOME} `touch hacked`" in made.stdout
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize("name", EVIL_NAMES)
def test_markdown_shows_a_name_as_text(name: str) -> None:
    page = f"# {quoting.markdown(name)} for x\n\n- Note: {quoting.markdown(name)}\n\n"
    page += f"| a | b |\n| --- | --- |\n| {quoting.markdown(name)} | x |\n\nMade by "
    page += f"{quoting.markdown_code(name)}.\n"
    parser = MarkdownIt("commonmark").enable("table")
    shown = " ".join(quoting.visible(name).split())
    texts = []
    for token in parser.parse(page):
        kinds = {child.type for child in token.children or ()}
        assert kinds <= {"text", "text_special", "code_inline", "softbreak"}, token.content
        if token.type == "inline":
            texts.append(" ".join("".join(c.content for c in token.children or ()).split()))
    assert texts[0] == f"{shown} for x"
    assert texts[1] == f"Note: {shown}"
    assert texts[4] == shown
    assert texts[-1] == f"Made by {shown}."


class _Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [value for _, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.parametrize("name", EVIL_NAMES)
def test_html_and_scripts_hold_a_name(name: str) -> None:
    script = quoting.script({name: name})
    quoted = quoting.html(name)
    parser = _Texts()
    parser.feed(f'<p title="{quoted}">{quoted}</p><script>{script}</script><b></b>')
    parser.close()
    assert parser.tags == ["p", "script", "b"]
    assert parser.attributes == [quoting.visible(name)]
    assert parser.texts == [quoting.visible(name), script]
    assert "<" not in script
    assert json.loads(script) == {name: name}


def test_shells_hand_names_on_as_they_are(tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    words = [*EVIL_NAMES, "not utf-8 \udcff", "plain"]
    command = quoting.shell(*words)
    assert command.isprintable()
    run = ["bash", "-c", f"printf '%s\\0' {command}"]
    environment = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    output = subprocess.run(run, capture_output=True, check=True, env=environment, cwd=tmp_path)
    assert output.stdout.decode(errors="surrogateescape").split("\0")[:-1] == words
    assert quoting.path("-x") == "./-x"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (-(2**63), "-9223372036854775808"),
        (2**80 - 1, str(2**80 - 1)),
        (2**80, "2^80"),
        (-(2**80), "-2^80"),
        (3 << 20_000, "2^20001"),
    ],
    ids=range(6),
)
def test_long_numbers_are_shown_by_their_size(value: int, shown: str) -> None:
    assert quoting.number(value) == shown
