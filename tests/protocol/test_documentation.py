"""What tests/protocol/README.md says of the conformance suite is what conformance.toml says.

After a change: ``python -m tests.protocol.test_documentation`` from the root.
"""

from __future__ import annotations

from pathlib import Path

from tests.protocol.expectations import REVISIONS, SERVERS, UNMET, scenarios

PAGE = Path(__file__).with_name("README.md")


def written() -> str:
    """The part of the page that is made from the list."""
    asked = [
        f"| {server} | " + " | ".join(str(len(scenarios(server, r))) for r in REVISIONS) + " |"
        for server in SERVERS
    ]
    lines = [
        "Scenarios asked:",
        "",
        "| server | " + " | ".join(REVISIONS) + " |",
        "|---|" + "---|" * len(REVISIONS),
        *asked,
        "",
        "Not met:",
        "",
    ]
    for entry in UNMET:
        where = f"{', '.join(entry.servers)}, {', '.join(entry.revisions)}"
        names = ", ".join(f"`{name}`" for name in entry.scenarios)
        checks = f" ({len(entry.checks)} checks)" if entry.checks else ""
        lines.append(f"- {names}{checks}, {where}: {entry.reason}")
    return "\n".join(lines) + "\n"


def test_the_page_says_what_the_list_says() -> None:
    assert written() in PAGE.read_text(encoding="utf-8")


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    begin, end = text.index(" -->\n") + 5, text.index("<!-- end -->")
    PAGE.write_text(text[:begin] + written() + text[end:], encoding="utf-8")
