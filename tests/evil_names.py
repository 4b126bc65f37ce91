"""Names that files, nodes and tensors may have and that texts must survive."""

from __future__ import annotations

EVIL_NAMES = (
    "line\n$(shell touch hacked)\nend",
    "$(shell touch hacked) ${HOME} `touch hacked`",
    "backslash at its end\\",
    "comment */ int hacked; /* or //",
    "nested /*/ **/ /\\*",
    "trigraph ??/ ??> *??/",
    "escape \x1b[31mred\x1b[0m \x1b]0;title\x07",
    "bidi \u202egpj.exe\u202c \u2066isolate \u200bzero",
    "</script><script>alert(1)</script> <!--<script>",
    "`code` **bold** [link](http://x) | cell | <img src=x>",
    "-rf --help",
    "- list\r# heading\x0b\x0c\x85\u2028\u2029",
    "spaces  and\ttabs",
    "quotes ' \" ''' \"\"\" %s {0} {{x}} ${x}",
    "日本/語 größe 😀",
    "__init__ _x_ # hash & amp; ~ !",
    "../../etc/passwd",
    "long " * 1000 + "end",
)
