"""Somebody else's configuration is edited where it lies: whatever is not ours stays as it was."""

from __future__ import annotations

import json
import tomllib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codebase_mcp.cli.setup.edit import BEGIN, END, Block, Refused, SkillFile, TomlEntry
from codebase_mcp.cli.setup.json_edit import JsonEntry, load

VALUE = {"command": "/usr/bin/codebase-mcp", "args": ["serve"], "env": {"A": 'b"\\\x7f'}}
JSON = JsonEntry((("mcpServers",),), "codebase", VALUE)
OPENCODE = JsonEntry((("mcp", "servers"), ("mcp",)), "codebase", VALUE)
TOML = TomlEntry("mcp_servers", "codebase", VALUE)
BLOCK = Block("Search first.")
SKILL = SkillFile("How to search.", "---\nname: codebase-mcp\n---\n")

JSON_TEXTS = [
    '{"mcpServers": {"other": {"command": "x"}}}',
    '{"mcpServers": {"other": {}}, "theme": "dark"}\n',
    '{\n  "mcpServers": {\n    "other": {\n      "command": "x"\n    }\n  },\n  "z": 1\n}\n',
    '{\n\t"mcpServers": {\n\t\t"other": {} // the other one\n\t} /* end */\n}',
    '{\r\n    "mcpServers": {\r\n        "other": {},\r\n    },\r\n}\r\n',
    '\ufeff// a\n{\n  // servers\n  "mcpServers": {\n    "other": {}, // kept\n    // more\n  }\n}',
    '{ "mcpServers": { "other": {} } }',
    '{\n  "mcpServers": { "other": [1, {"a": null}] },\n  "é\\u00e9": "\\"}"\n}\n',
    '{"mcpServers": {}, "a": [true, false, null, -1.5e+3]}',
    '{\n  "mcpServers": {},\n  "a": "//"\n}\n',
]


@pytest.mark.parametrize("text", JSON_TEXTS)
def test_adding_and_removing_an_entry_restores_the_file(text: str) -> None:
    with_ours = JSON.add(text).text
    wanted = load(text)
    wanted["mcpServers"]["codebase"] = VALUE
    assert load(with_ours) == wanted
    assert JSON.find(with_ours) == VALUE
    assert JSON.add(with_ours).text == with_ours
    assert JSON.remove(with_ours, ()) == text
    assert JSON.remove(text, ()) == text


def test_an_entry_is_written_in_the_style_of_the_file() -> None:
    text = '{\r\n\t"mcpServers": { // all\r\n\t\t"other": {} // c\r\n\t}\r\n}\r\n'
    assert JSON.add(text).text == (
        '{\r\n\t"mcpServers": {\r\n\t\t"codebase": {\r\n'
        '\t\t\t"command": "/usr/bin/codebase-mcp",\r\n'
        '\t\t\t"args": [\r\n\t\t\t\t"serve"\r\n\t\t\t],\r\n'
        '\t\t\t"env": {\r\n\t\t\t\t"A": "b\\"\\\\\x7f"\r\n\t\t\t}\r\n\t\t}, // all\r\n'
        '\t\t"other": {} // c\r\n\t}\r\n}\r\n'
    )


@pytest.mark.parametrize("text", ["", "\n", "{}", "{}\n", "{\n}\n", '{\n  "a": 1\n}\n', '{"a": 1}'])
def test_a_missing_section_is_created_and_removed_with_the_last_entry(text: str) -> None:
    added = JSON.add(text)
    assert added.created == (("mcpServers",),)
    assert JSON.find(added.text) == VALUE
    left = JSON.remove(added.text, added.created)
    assert load(left) == (json.loads(text) if text.strip() else {})
    assert JSON.is_bare(left) == ("a" not in text)


def test_an_existing_section_stays_when_it_becomes_empty() -> None:
    added = JSON.add('{"mcpServers": {}}')
    assert added.created == ()
    assert JSON.remove(added.text, added.created) == '{"mcpServers": {}}'


def test_a_section_that_we_created_stays_if_it_has_other_entries() -> None:
    added = JSON.add('{\n  "a": 1\n}')
    by_others = added.text.replace('"mcpServers": {', '"mcpServers": {\n    "other": {},')
    left = JSON.remove(by_others, added.created)
    assert load(left) == {"a": 1, "mcpServers": {"other": {}}}


def test_an_older_entry_is_replaced_in_its_place() -> None:
    text = '{\n  "mcpServers": {\n    "codebase": {"command": "old"}, // c\n    "other": {}\n  }\n}'
    new = JSON.add(text).text
    assert list(load(new)["mcpServers"]) == ["codebase", "other"]
    assert JSON.find(new) == VALUE
    assert "// c" in new
    assert JSON.remove(new, ()) == '{\n  "mcpServers": { // c\n    "other": {}\n  }\n}'


def test_a_duplicate_name_is_removed_twice() -> None:
    text = '{"mcpServers": {"codebase": {}, "o": 1, "codebase": {"command": "b"}}}'
    assert load(JSON.remove(text, ())) == {"mcpServers": {"o": 1}}


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ('{\n  "a": 1\n  "b": 2\n}', "line 3, column 3", "',' delimiter"),
        ('{"a": }', "line 1, column 7", "Expecting value"),
        ('{"a": 1,, "b": 2}', "line 1, column 9", "double quotes"),
        ('{"a": [,]}', "line 1, column 8", "Expecting value"),
        ('{"a" 1}', "line 1, column 6", "':' delimiter"),
        ("{'a': 1}", "line 1, column 2", "double quotes"),
        ('{"a": "\\x"}', "line 1, column 8", "Invalid \\escape"),
        ('{"a": 1', "line 1, column 8", "',' delimiter"),
        ("{} {}", "line 1, column 4", "Extra data"),
        ("{/* open", "line 1, column 2", "double quotes"),
        ('{"a": 01}', "line 1, column 8", "',' delimiter"),
        ("[" * 100_000, "the file", "nested too deeply"),
        ("[1]", "line 1", "not contain a JSON object"),
        ('{"mcpServers": []}', "mcpServers", "is not a JSON object"),
    ],
)
def test_invalid_json_is_refused_with_line_and_column(text: str, place: str, reason: str) -> None:
    with pytest.raises(Refused) as caught:
        JSON.add(text)
    assert place in str(caught.value)
    assert reason in str(caught.value)


def test_opencode_gets_entries_in_its_own_format() -> None:
    assert load(OPENCODE.add("{}").text) == {"mcp": {"codebase": VALUE}}
    newer = '{"mcp": {"servers": {"x": {"type": "local"}}}}'
    assert list(load(OPENCODE.add(newer).text)["mcp"]["servers"]) == ["codebase", "x"]
    named_so = '{"mcp": {"servers": {"type": "local"}}}'
    assert list(load(OPENCODE.add(named_so).text)["mcp"]) == ["codebase", "servers"]


TOML_TEXTS = [
    "",
    "\n",
    'model = "x"',
    'model = "x"\n',
    '[mcp_servers.other]\ncommand = "x"\n\n\n',
    '# only a comment\r\n[mcp_servers.other]\r\ncommand = "x"\r\n',
    'a = """\n[mcp_servers.codebase]\n"""\nb = [\n  ["x"]\n]\n',
    "a = '''\n[mcp_servers.codebase]'''\n[[list]]\nb = 1\n[mcp_servers]\n",
    '[mcp_servers."odd name"]\nx = { a = [1, 2], "]" = "[" } # [mcp_servers.codebase]\n',
]


@pytest.mark.parametrize("text", TOML_TEXTS)
def test_adding_and_removing_a_table_restores_the_file(text: str) -> None:
    with_ours = TOML.add(text).text
    wanted = tomllib.loads(text)
    wanted.setdefault("mcp_servers", {})["codebase"] = VALUE
    assert tomllib.loads(with_ours) == wanted
    assert TOML.add(with_ours).text == with_ours
    assert TOML.remove(with_ours, ()) == text
    assert TOML.remove(text, ()) == text


def test_text_of_others_after_our_table_stays() -> None:
    text = TOML.add('model = "x"\n').text + "\n# about the next\n[tui]\ntheme = 1\n"
    assert TOML.remove(text, ()) == 'model = "x"\n\n# about the next\n[tui]\ntheme = 1\n'


def test_a_table_with_subtables_is_replaced_and_removed_completely() -> None:
    text = (
        'a = 1\n\n[mcp_servers.codebase]\ncommand = "old"\n\n[mcp_servers.codebase.env]\nA = "1"\n'
        "[mcp_servers.codebase.tools.x]\nb = 1\n# kept\n\n[z]\n"
    )
    new = TOML.add(text).text
    assert tomllib.loads(new) == {"a": 1, "mcp_servers": {"codebase": VALUE}, "z": {}}
    assert "# kept" in new
    assert TOML.remove(text, ()) == "a = 1\n# kept\n\n[z]\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a = \n", "line 1"),
        ("mcp_servers = { other = {} }\n", "add this manually:\n[mcp_servers.codebase]"),
        ("mcp_servers = 3\n", "mcp_servers is not a table"),
        ("[mcp_servers]\ncodebase.command = 'x'\n", "add this manually"),
    ],
)
def test_toml_to_which_no_table_can_be_added_is_refused(text: str, reason: str) -> None:
    with pytest.raises(Refused) as caught:
        TOML.add(text)
    assert reason in str(caught.value)


def test_a_table_that_cannot_be_removed_safely_is_left_to_its_author() -> None:
    with pytest.raises(Refused, match="remove it manually"):
        TOML.remove("[mcp_servers]\ncodebase.command = 'x'\n", ())


@pytest.mark.parametrize(
    "text", ["", "\n", "# Rules", "# Rules\n", "a\r\nb\r\n", "a\n\n\n", "\ufeffa"]
)
def test_adding_and_removing_instructions_restores_the_file(text: str) -> None:
    with_ours = BLOCK.add(text).text
    assert "Search first." in with_ours
    assert BLOCK.add(with_ours).text == with_ours
    assert BLOCK.remove(with_ours, ()) == text
    assert with_ours.count("\r\n") == (with_ours.count("\n") if "\r" in text else 0)


def test_instructions_are_updated_in_place() -> None:
    old = BLOCK.add("before\n").text + "after\n"
    assert Block("Newer.").add(old).text == f"before\n\n{BEGIN}\nNewer.\n{END}\nafter\n"


def test_a_block_without_its_end_marker_is_refused_with_its_line() -> None:
    with pytest.raises(Refused, match="line 2, column 1"):
        BLOCK.add(f"x\n{BEGIN}\nand so on")


def test_a_skill_begins_with_its_front_matter_and_is_removed_completely() -> None:
    made = SKILL.add("").text
    assert made == f"{SKILL.header}{BEGIN}\nHow to search.\n{END}\n"
    assert SKILL.add(made).text == made
    assert SKILL.remove(made, ()) == ""


def test_a_skill_is_updated_with_its_front_matter_and_text_below_it_stays() -> None:
    older = SkillFile("Older.", "---\nname: older\n---\n").add("").text.replace("\n", "\r\n")
    newer = SKILL.add(older + "My own words.\r\n").text
    assert newer.replace("\r\n", "\n") == SKILL.add("").text + "My own words.\n"
    assert "\n" not in newer.replace("\r\n", "")
    assert SKILL.remove(newer, ()) == "My own words.\r\n"


def test_another_skill_of_that_name_is_not_changed() -> None:
    text = "---\nname: codebase-mcp\n---\nMine.\n"
    assert SKILL.add(text).text == text
    assert SKILL.remove(text, ()) == text
    assert SKILL.find(text) is None


_names = st.text('abc é/*"\\,{}#', min_size=1, max_size=4)
_leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text("a\"\\/*{}[],:'\n", max_size=5)
)
_values = st.recursive(
    _leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_names, inner)),
    max_leaves=8,
)


@st.composite
def _jsonc(draw: st.DrawFn) -> str:
    """A JSON object with an object of servers in it, in any style that JSONC allows."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    gaps = st.sampled_from(["", " ", newline, f"{newline}\t ", f" // {{,{newline}", "/* }, */"])

    def shown(value: object) -> str:
        if isinstance(value, dict | list):
            is_dict = isinstance(value, dict)
            keys = [f"{json.dumps(k)}{draw(gaps)}:{draw(gaps)}" for k in value] if is_dict else ()
            inner = list(value.values()) if is_dict else value
            parts = [
                key + shown(v) for key, v in zip(keys or [""] * len(inner), inner, strict=True)
            ]
            inside = ",".join(f"{draw(gaps)}{part}{draw(gaps)}" for part in parts)
            if parts and draw(st.booleans()):
                inside += "," + draw(gaps)
            inside = inside or draw(gaps)
            return f"{{{inside}}}" if is_dict else f"[{inside}]"
        return json.dumps(value, ensure_ascii=draw(st.booleans()))

    content = draw(st.dictionaries(_names, _values, max_size=3))
    content["mcpServers"] = draw(st.dictionaries(_names, _values, min_size=1, max_size=3))
    return draw(gaps) + shown(content) + draw(gaps)


@given(_jsonc())
def test_any_json_with_comments_is_the_same_after_add_and_remove(text: str) -> None:
    with_ours = JSON.add(text).text
    content = load(text)
    assert load(with_ours) == content | {"mcpServers": content["mcpServers"] | {"codebase": VALUE}}
    assert JSON.remove(with_ours, ()) == text


@given(st.text("a=\"'#[]\\\n\r {}.,1", max_size=60))
@example("\r\n\n")
def test_any_toml_is_the_same_after_add_and_remove(text: str) -> None:
    try:
        with_ours = TOML.add(text).text
    except Refused:
        return
    assert TOML.remove(with_ours, ()) == text
