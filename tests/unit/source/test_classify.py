"""What a path says about its file, and what its first bytes add."""

from __future__ import annotations

import pytest
import semble_grammars

from codebase_mcp.model import FileKind
from codebase_mcp.source import names
from codebase_mcp.source.classify import (
    classify,
    is_generated,
    kind_of,
    language_of,
    refine_kind,
)

LANGUAGES = {
    "python": "a.py a.pyi A.PY SConstruct x/y.pyw",
    "javascript": "a.js a.mjs a.cjs a.jsx",
    "typescript": "a.ts a.mts a.d.ts",
    "tsx": "a.tsx",
    "csharp": "a.cs Program.cs",
    "cpp": "a.cc a.cpp a.hpp a.cxx kernel.cu",
    "c": "a.c a.h config.h.in",
    "bash": "a.sh .bashrc a.bats a.zsh PKGBUILD",
    "batch": "a.bat a.cmd",
    "powershell": "a.ps1",
    "go": "a.go",
    "rust": "a.rs",
    "java": "A.java",
    "kotlin": "A.kt build.gradle.kts",
    "groovy": "build.gradle Jenkinsfile Jenkinsfile.release",
    "scala": "A.scala build.sbt",
    "ruby": "a.rb Rakefile Gemfile x.gemspec config.ru Vagrantfile",
    "php": "a.php",
    "perl": "a.pl A.pm t/a.t",
    "lua": "a.lua",
    "haskell": "A.hs",
    "elixir": "a.ex mix.exs",
    "erlang": "a.erl rebar.config",
    "clojure": "a.clj a.cljs",
    "ocaml": "a.ml a.mli",
    "swift": "A.swift",
    "objc": "A.m A.mm",
    "dart": "a.dart",
    "julia": "a.jl",
    "r": "a.R a.r",
    "zig": "a.zig",
    "nix": "a.nix",
    "sql": "a.sql",
    "proto": "a.proto",
    "graphql": "a.graphql a.gql",
    "html": "a.html a.htm",
    "css": "a.css",
    "scss": "a.scss",
    "vue": "A.vue",
    "svelte": "A.svelte",
    "markdown": "README.md a.mdx",
    "rst": "a.rst",
    "asciidoc": "a.adoc",
    "json": "a.json a.ipynb composer.lock",
    "jsonc": "tsconfig.json",
    "yaml": "a.yml a.yaml .clang-format",
    "toml": "a.toml Cargo.lock Pipfile",
    "ini": "a.ini setup.cfg .editorconfig .gitmodules",
    "xml": "a.xml a.csproj pom.xml",
    "make": "Makefile GNUmakefile a.mk Makefile.in Makefile.am Makefile.linux",
    "cmake": "CMakeLists.txt a.cmake",
    "dockerfile": "Dockerfile Dockerfile.dev api.dockerfile",
    "hcl": "main.tf",
    "starlark": "BUILD BUILD.bazel WORKSPACE defs.bzl",
    "vim": "a.vim .vimrc",
    "gitignore": ".gitignore .dockerignore .mcpignore",
    "jinja2": "a.j2",
    "properties": ".env a.properties",
    "text": "LICENSE a.txt a.csv go.mod a.unknown README requirements.txt . a/b. x.y/z",
}

KINDS = {
    FileKind.CODE: "a.py src/contest.py src/latest/a.py src/attest.go Dockerfile Makefile a.css"
    " docs/conf.py testing/a.go a.nim src/PodSpec.java module_spec.py protest/a.rb manifest.js"
    " CMakeLists.txt vendor.py src/greatest.rs Contest.java a.html fastest/a.py vitest/a.ts"
    " backtest.py src/jquery.js bootstrap.js react-hooks.js d3-scale.js vue-3-plugin.ts bundle.js"
    " less/mixins.less designer.cs approved.py",
    FileKind.TEST: "tests/a.py test/a.rb a/__tests__/b.ts test_a.py a_test.go a.spec.ts a.test.jsx"
    " src/test/java/A.java ATest.java OrderIT.java TestA.kt ATests.cs spec/a_spec.rb a_spec.lua"
    " conftest.py tests.py t/a.t a.bats a_unittest.cc test-a.c ASpec.scala AppTests/A.swift"
    " src/commonTest/A.kt Acme.Tests/A.cs unit-tests/a.js tests/data/a.json tests/README.md"
    " testdata/a.txt fixtures/a.yaml a.cy.ts e2e/a.ts Test/a.php",
    FileKind.DOCS: "README.md README LICENSE LICENSE-MIT docs/a.txt docs/a.html docs/notes a.rst"
    " CHANGELOG a.adoc a.org man/a.1 NEWS.txt a.tex doc/a.rst AUTHORS",
    FileKind.CONFIG: "a.yaml a.toml a.ini a.json go.mod requirements.txt requirements-dev.txt .env"
    " .gitignore docs/a.yaml pom.xml CODEOWNERS a.properties a.csv docs/requirements.txt",
    FileKind.GENERATED: "package-lock.json yarn.lock Cargo.lock go.sum poetry.lock uv.lock"
    " a_pb2.py a_pb2_grpc.py a.pb.go a.min.js a.min.css a.g.dart a.Designer.cs a.snap"
    " __snapshots__/a.js a.js.map a.generated.ts zz_generated.deepcopy.go gradlew gradlew.bat"
    " tests/a_pb2.py x.egg-info/PKG-INFO docs/a.min.js pnpm-lock.yaml a/Gemfile.lock"
    " a_pb2_grpc.pyi a_grpc_pb.js a.swagger.json a.pb-c.h a.designer.vb a.feature.cs"
    " main.1f3.chunk.js app.bundle.js tests/a.ambr tests/a.approved.txt Cargo.toml.orig deno.lock",
    FileKind.VENDORED: "vendor/a.go node_modules/a/index.js third_party/a/b.c x/dist-packages/a.py"
    " vendor/tests/a_test.go vendor/README.md node_modules/a/package-lock.json"
    " Pods/A/a.m lib/site-packages/a.py src/3rdparty/a.cpp .venv/lib/a.py js/jquery-3.6.0.js"
    " jquery-ui-1.12.1.js bootstrap-4.6.css d3.v3.js angular-1.8.2.js normalize.css config.guess"
    " static/swagger-ui-bundle.js react-dom-16.13.1.development.js a/ppport.h Carthage/a.swift",
}


@pytest.mark.parametrize(
    ("path", "language"),
    [(path, language) for language, paths in LANGUAGES.items() for path in paths.split()],
)
def test_the_name_says_the_language(path: str, language: str) -> None:
    assert language_of(path) == language
    assert language_of(f"some/folder/{path}") == language


@pytest.mark.parametrize(
    ("path", "kind"), [(path, kind) for kind, paths in KINDS.items() for path in paths.split()]
)
def test_the_path_says_what_the_file_is_for(path: str, kind: FileKind) -> None:
    assert kind_of(path) is kind


def test_every_language_has_a_grammar() -> None:
    tables = (
        names.LANGUAGE_BY_EXTENSION,
        names.LANGUAGE_BY_NAME,
        names.LANGUAGE_BY_INTERPRETER,
    )
    named = {language for table in tables for language in table.values()}
    assert named <= set(semble_grammars.available_languages())


def test_no_extension_is_both_text_and_binary() -> None:
    text = names.LANGUAGE_BY_EXTENSION.keys() | names.CODE_EXTENSIONS_WITHOUT_GRAMMAR
    assert text.isdisjoint(names.BINARY_EXTENSIONS)
    assert names.LANGUAGE_BY_EXTENSION.keys().isdisjoint(names.CODE_EXTENSIONS_WITHOUT_GRAMMAR)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.png", True),
        ("A.PNG", True),
        ("a.tar.gz", True),
        ("lib.so.1.2.3", True),
        ("a.woff2", True),
        ("a.class", True),
        ("png", False),
        (".png.py", False),
        ("a.so.py", False),
    ],
)
def test_the_name_says_that_a_file_is_not_text(path: str, expected: bool) -> None:
    assert classify(path).is_binary is expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.py", True),
        ("a.nim", True),
        ("large.json", True),
        ("Makefile", True),
        ("tests/a.py", True),
        ("a.txt", False),
        ("LICENSE", False),
        ("data.unknown", False),
        ("tests/broken.json", False),
        ("package-lock.json", False),
        ("a.min.js", False),
        ("vendor/a.c", False),
    ],
)
def test_the_name_promises_source_that_somebody_wrote(path: str, expected: bool) -> None:
    assert classify(path).named_as_source is expected


@pytest.mark.parametrize(
    "head",
    [
        b"// Code generated by protoc-gen-go. DO NOT EDIT.\npackage a\n",
        b"# -*- coding: utf-8 -*-\n# Generated by the protocol buffer compiler.  DO NOT EDIT!\n",
        b"/**\n * @generated SignedSource<<abc>>\n */\n",
        b"// <auto-generated>\n//     made by a tool\n",
        b"// <autogenerated />\n",
        b"#! /bin/sh\n# Guess values.\n# Generated by GNU Autoconf 2.71 for a.\n",
        b"<!-- This file is automatically generated -->\n",
        b"/* This file was auto-generated by mkconfig */\n",
        b"-- DO NOT EDIT: this schema is generated from the database\n",
        b'"""Generated code, do not modify."""\n',
        b"GENERATED = 1" * 500,
        b"/**\n * Autogenerated by Thrift Compiler (0.9.3)\n *\n",
        b"#\n# Autogenerated by Thrift Compiler (0.18.1)\n#\n",
        b"/* automatically generated by rust-bindgen 0.69.4 */\n",
        b"# This is an auto-generated Django model module.\n# Auto-generated by inspectdb\n",
        b"# This is an autogenerated file. Do not edit.\n",
        b"/* This is a generated file, made from table.txt */\n",
        b"/* DO NOT EDIT THIS FILE - it is machine generated */\n",
        b"/* The following code was generated by JFlex 1.4.3 */\n",
        b"/* A Bison parser, made by GNU Bison 3.8.2.  */\n",
        b"/* parser generated by jison 0.4.18 */\n",
        b"/* Generated by Cython 3.0.0 */\n",
        b'# coding: utf-8\n\n"""\n    Pets\n\n    Generated by OpenAPI Generator (https://a.b)\n"""\n',
        b"/*\n * Generated by: https://github.com/swagger-api/swagger-codegen.git\n */\n",
        b"// Generated by CoffeeScript 1.9.0\n",
        b"/* AUTO-GENERATED FILE.  DO NOT MODIFY.\n *\n */\n",
        b"<!-- Auto-generated code. -->\n",
    ],
)
def test_a_generated_file_is_known_by_its_beginning(head: bytes) -> None:
    assert is_generated(head)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"def generated():\n    return 1\n",
        b"print('// Code generated by us. DO NOT EDIT.')\n",
        b"# Writes the tables that a user generated.\n",
        b"# Please do not edit this by hand.\n",
        b"x = 1\n" * 1000 + b"# Code generated by us. DO NOT EDIT.\n",
        b"a = [" + b"1, " * 300 + b"]\n" + b"b = 2\n" * 20,
        b"# Handles auto-generated code of other tools.\n",
        b"# Automatically generated ids are never used again.\n",
        b'"""Checks whether a generated file is stale."""\n',
        b"# What is generated by protoc lies elsewhere.\nx = 'Generated by Cython'\n",
        b"// Code that is generated here must not be edited.\n",
    ],
)
def test_a_file_that_people_write_is_not_taken_for_generated(head: bytes) -> None:
    assert not is_generated(head)


LIBRARY = b"/*! jQuery v3.6.0 | (c) OpenJS Foundation and other contributors */\nvar a;\n"


@pytest.mark.parametrize(
    ("path", "head", "tail", "kind"),
    [
        ("static/jquery.js", LIBRARY, b"", FileKind.VENDORED),
        ("a.css", b"/*!\n * Bootstrap v4.6.0 (https://a.b)\n */\n", b"", FileKind.VENDORED),
        ("a.js", b"/*!\n * jQuery JavaScript Library v1.11.1\n */\n", b"", FileKind.VENDORED),
        ("src/jquery.js", b"/*\n * The core of jQuery\n */\n", b"", FileKind.CODE),
        ("a.py", LIBRARY, b"", FileKind.CODE),
        ("test/jquery.js", LIBRARY, b"", FileKind.TEST),
        ("a.js", b"var a;\n", b"b();\n//# sourceMappingURL=a.js.map\n", FileKind.GENERATED),
        ("a.css", b"a {}\n", b"/*# sourceMappingURL=a.css.map */", FileKind.GENERATED),
        ("a.js", b"var a;\n", b"//# sourceMappingURL=a.js.map\nb();\n", FileKind.CODE),
        ("a.ts", b"var a;\n", b"//# sourceMappingURL=a.js.map\n", FileKind.CODE),
    ],
)
def test_a_header_marks_a_file_as_vendored_or_generated(
    path: str, head: bytes, tail: bytes, kind: FileKind
) -> None:
    assert refine_kind(path, kind_of(path), head, tail) is kind
