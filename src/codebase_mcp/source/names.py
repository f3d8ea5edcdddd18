"""Tables of file names and extensions, by which ``classify.py`` decides on languages and kinds."""

from __future__ import annotations

# Each row is a language with its extensions, whole file names and interpreters (without their
# version numbers), in lower case; whole names take precedence over extensions.
_LANGUAGES = """
asciidoc: adoc asciidoc
astro: astro
bash: sh bash zsh ksh bats ebuild eclass | .bashrc .bash_profile .bash_aliases .bash_logout
 .profile .zshrc .zshenv .zprofile .envrc pkgbuild apkbuild gradlew mvnw | sh bash zsh dash ash
 ksh mksh bats busybox
batch: bat cmd
c: c h
clojure: clj cljs cljc edn bb | | bb clojure
cmake: cmake | cmakelists.txt
cpp: cc cpp cxx c++ hh hpp hxx h++ ipp inl tpp txx ixx cppm mpp cu cuh ino
csharp: cs csx cake
css: css less
dart: dart
dockerfile: dockerfile containerfile | dockerfile containerfile
dtd: dtd
elixir: ex exs | | elixir
embedded_template: erb ejs eex
erlang: erl hrl escript | rebar.config sys.config | escript
fortran: f f77 f90 f95 f03 f08 for ftn fpp
gitignore: | .gitignore .dockerignore .npmignore .eslintignore .prettierignore .mcpignore .ignore
 .rgignore .hgignore .helmignore .gcloudignore .vercelignore .stylelintignore
go: go
gotmpl: gotmpl gohtml tmpl
graphql: graphql gql graphqls
groovy: groovy gradle gvy | jenkinsfile | groovy
haskell: hs hsc
hcl: hcl tf tfvars nomad
heex: heex leex
html: html htm xhtml
ini: ini cfg service desktop | .editorconfig .gitconfig .gitmodules .flake8 .pylintrc .coveragerc
 .pypirc
java: java
javascript: js mjs cjs jsx es6 | | node nodejs bun
jinja2: jinja jinja2 j2
json: json jsonl ndjson geojson topojson webmanifest har ipynb avsc | .babelrc .jshintrc
 .prettierrc .swcrc composer.lock pipfile.lock flake.lock deno.lock package.resolved
json5: json5
jsonc: jsonc code-workspace | tsconfig.json jsconfig.json .eslintrc .eslintrc.json
 devcontainer.json bun.lock
jsonnet: jsonnet libsonnet
julia: jl | | julia
just: just | justfile .justfile | just
kdl: kdl
kotlin: kt kts | | kotlin kotlinc
latex: tex sty ltx
lua: lua luau rockspec | | lua luajit
make: mk mak make | makefile gnumakefile bsdmakefile kbuild makefile.am | make gmake
markdown: md markdown mdx mkd mdown rmd qmd
nix: nix
objc: m mm
ocaml: ml mli | | ocaml
org: org
perl: pl pm t psgi pod | cpanfile makefile.pl | perl
php: php phtml php3 php4 php5 phps | | php
powershell: ps1 psm1 psd1 | | pwsh
properties: properties env | .env .env.example .env.sample .env.template .env.dist .env.local
 .env.test
proto: proto
python: py pyi pyw pyx pxd | sconstruct sconscript wscript snakefile | python pypy uv
r: r | .rprofile | rscript
racket: rkt | | racket
rst: rst rest
ruby: rb rake gemspec ru podspec | rakefile gemfile guardfile podfile vagrantfile brewfile capfile
 fastfile appfile dangerfile berksfile thorfile .irbrc .pryrc | ruby jruby
rust: rs
scala: scala sc sbt | | scala scala-cli
scheme: scm ss sld | | guile
scss: scss
solidity: sol
sql: sql psql pgsql
starlark: bzl star bazel | build workspace buck tiltfile
svelte: svelte
swift: swift | | swift
toml: toml | pipfile cargo.lock poetry.lock uv.lock pdm.lock gopkg.lock
tsx: tsx
typescript: ts mts cts | | deno ts-node tsx
typst: typ
vim: vim | .vimrc .gvimrc .ideavimrc vimrc
vue: vue
wat: wat wast
xml: xml xsd xsl xslt wsdl csproj vbproj fsproj vcxproj props targets nuspec resx xaml axaml
 storyboard xib plist
yaml: yaml yml cff | .clang-format .clang-tidy .clangd .gemrc pubspec.lock yarn.lock podfile.lock
zig: zig zon
"""

LANGUAGE_BY_EXTENSION: dict[str, str] = {}
LANGUAGE_BY_NAME: dict[str, str] = {}
LANGUAGE_BY_INTERPRETER: dict[str, str] = {}
for _row in _LANGUAGES.strip().replace("\n ", " ").split("\n"):
    _language, _, _keys = _row.partition(":")
    _tables = (LANGUAGE_BY_EXTENSION, LANGUAGE_BY_NAME, LANGUAGE_BY_INTERPRETER)
    for _table, _words in zip(_tables, _keys.split("|"), strict=False):
        _table |= dict.fromkeys(_words.split(), _language)

# Extensions of templates; the rest of the name is that of the file made from them.
TEMPLATE_EXTENSIONS = frozenset("in tmpl template dist example sample default".split())

# Code, though without a grammar its language is called text.
CODE_EXTENSIONS_WITHOUT_GRAMMAR = frozenset(
    (
        "ada adb ads agda ahk apex applescript asm asp aspx ascx au3 awk bas bicep bison capnp cbl"
        " cob coffee cpy cr cshtml cue d dfy dhall dpr el elm fbs fish flex frag fs fsi fsx ftl g4"
        " gd gdscript geom glsl gn gni haml handlebars hbs hlsl hx idr jade jsp jspx l lark lds"
        " lean lhs liquid lisp litcoffee ll lsp m4 metal mlir mojo moon mustache nasm nim nims"
        " ninja njk nu odin p6 pas peg pest pp prolog pug purs qml raku rakumod razor rego res s"
        " sass sed shader slim smithy sml st styl sv svh tcl td thrift trigger tsp tt twig v vala"
        " vb vert vhd vhdl vm vy wgsl y yul"
    ).split()
)

# Never text, or (svg) never written to be read.
BINARY_EXTENSIONS = frozenset(
    (
        # images and drawings
        "png jpg jpeg jpe gif bmp ico icns webp tif tiff psd xcf heic heif avif svg svgz"
        " raw cr2 nef ai eps tga dds ktx exr hdr blend fbx glb 3ds max skp dwg dxf sketch fig"
        # archives and packages
        " zip tar gz tgz bz2 tbz2 xz txz zst lz4 lzma 7z rar jar war ear aar whl egg gem nupkg"
        " snupkg deb rpm apk aab ipa dmg iso img cab msi msix crate br z vsix crx xpi asar"
        # programs and compiled code
        " exe dll so dylib a lib o obj ko class pyc pyo pyd elc beam wasm bin node pdb hi rlib"
        " rmeta nib mo gmo swf pch gch dex odex cmi cmo cmx cma cmxa ilk exp"
        # fonts, sound, film
        " ttf otf ttc woff woff2 eot pfb mp3 mp4 wav ogg oga ogv opus flac aac m4a m4v avi mov mkv"
        " webm wmv flv mpg mpeg mid midi aif aiff"
        # documents
        " pdf doc docx xls xlsx xlsm ppt pptx odt ods odp epub mobi pages numbers djvu dvi"
        # databases, data and models
        " db sqlite sqlite3 db3 mdb accdb rdb ldb mdf frm ibd parquet feather arrow npy npz pkl"
        " pickle h5 hdf5 onnx pt pth ckpt safetensors gguf tflite joblib mat rds rdata avro orc"
        " idx pack mmdb"
        # keys and temporary files
        " jks p12 pfx keystore gpg der swp swo tsbuildinfo"
    ).split()
)
