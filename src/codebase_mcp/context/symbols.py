"""What is the function of a frame called in the code? Without arguments, closures and packages."""

from __future__ import annotations

import re

_NOISE = re.compile(
    r"""\[as\ [^\]]*\]|<[^<>]*>|\{+[^{}]*\}+|::h[0-9a-f]{16}\b|\bblock\ (?:\([^)]*\)\ )?in\b
      |\banonymous\ fn/\d+\ in\b|\b(?:async|new|rescue\ in|ensure\ in|static)\ |/\d+$|/<$
      |~\[[^\]]*\]|\bd__\d+|\[[^\]]*\]|\blocal\ function\b|\bclosure\ \#\d+\b.*\ in\b|@[\w.]+$""",
    re.VERBOSE,
)
# The generated method of a C# iterator or lambda holds the name of the method that was written:
# `<ReadAsync>d__12.MoveNext`, `<>c.<Run>b__0_1`. So does the class of Ruby, `<class:Retry>`.
_WRITTEN = re.compile(r"<(?:class:|module:)?(\w{2,})>(?:d__|b__|g__|$)")
_GO_RECEIVER = re.compile(r"\(\*?(\w+)(?:\[[^\]]*\])?\)")
# The path of a package of Go.
_IN_GO = re.compile(r"[\w.-]+(?:/[\w.~-]+)+\.\w")
_LAMBDA = re.compile(r"\blambda\$(\w+)\$\d+|\b_lambda_(\w+)_\d+")
_ARGUMENTS = re.compile(r"\(.*$", re.DOTALL)
_PARTS = re.compile(r"[\w$]+[?!]?")

# Parts of a qualified name that the runtime adds.
_GENERATED = frozenset(
    """anonymous closure lambda MoveNext invokeSuspend Object Module Function Array Promise exports
    global process undefined Proxy Companion clinit fn null functools Suspense __main__ prototype
    module lambda_method""".split()
)
_NUMBERED = re.compile(r"\$?(?:func|fn|lambda|closure|anonfun|__)?\$?\d+(?:_\d+)*")


def symbol_of(written: str) -> str | None:
    """The name of a frame's function, with its type where the trace names one: `Retry.wait`."""
    text = written.strip().strip("`'\"\u2019\u2018")[:300]
    if not text:
        return None
    prefix = ""
    has_receiver = ".(" in text
    if match := _LAMBDA.search(text):
        prefix, text = text[: match.start()], match[1] or match[2]
    elif match := _WRITTEN.search(text):
        prefix, text = text[: match.start()], match[1]
    else:
        if has_receiver:
            text = _GO_RECEIVER.sub(r"\1", text)
        if _IN_GO.match(text):
            text = text.rpartition("/")[2]
        text = _ARGUMENTS.sub("", _NOISE.sub(" ", text))
    parts = [part.rstrip("$") for part in _PARTS.findall(prefix + "." + text)]
    parts = [part for part in parts if not _is_generated(part)]
    if not parts:
        return None
    name = re.sub(r"(?<=\w)\$(?:\d+|\w+\$\d+)$", "", parts[-1])
    owner = parts[-2].rpartition("$")[2] if len(parts) > 1 else ""
    is_type = owner[:1].isupper() or (has_receiver and owner)
    return f"{owner}.{name}" if is_type and owner != name else name


def _is_generated(part: str) -> bool:
    return part in _GENERATED or part.isdigit() or _NUMBERED.fullmatch(part) is not None
