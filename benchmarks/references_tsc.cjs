// What the language service of TypeScript says of the references of some definitions.
// JSON in, JSON out; see references.py.
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const ts = require("typescript");

const asked = JSON.parse(fs.readFileSync(0, "utf8"));
const SOURCE = /\.(ts|tsx|mts|js|jsx|mjs)$/;
const REACHES = ["plain", "own", "named", "object"];

const files = fs
  .readdirSync(asked.root, { recursive: true })
  .filter((file) => SOURCE.test(file) && !file.includes("node_modules"))
  .map((file) => path.join(asked.root, file));
const options = {
  allowJs: true,
  noEmit: true,
  jsx: ts.JsxEmit.Preserve,
  target: ts.ScriptTarget.ESNext,
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
};
const texts = new Map();
const read = (file) => {
  if (!texts.has(file)) texts.set(file, ts.sys.readFile(file));
  return texts.get(file);
};
const service = ts.createLanguageService({
  getCompilationSettings: () => options,
  getScriptFileNames: () => files,
  getScriptVersion: () => "1",
  getScriptSnapshot: (file) =>
    read(file) === undefined ? undefined : ts.ScriptSnapshot.fromString(read(file)),
  getCurrentDirectory: () => asked.root,
  getDefaultLibFileName: (wanted) => ts.getDefaultLibFilePath(wanted),
  fileExists: ts.sys.fileExists,
  readFile: read,
  readDirectory: ts.sys.readDirectory,
  directoryExists: ts.sys.directoryExists,
  getDirectories: ts.sys.getDirectories,
});
const program = service.getProgram();
const checker = program.getTypeChecker();

function nodeAt(source, position) {
  const inner = (node) =>
    ts.forEachChild(node, (child) =>
      child.getStart(source) <= position && position < child.end ? inner(child) : undefined,
    ) || node;
  return inner(source);
}

function placeOf(file, position) {
  const source = program.getSourceFile(file);
  const line = source.getLineAndCharacterOfPosition(position).line + 1;
  return [path.relative(asked.root, file), line];
}

function isDeclared(node) {
  const parent = node.parent;
  const isImport =
    ts.isImportSpecifier(parent) || ts.isExportSpecifier(parent) || ts.isImportClause(parent);
  return parent.name === node && !isImport && ts.isDeclaration(parent) &&
    !ts.isPropertyAccessExpression(parent) && !ts.isShorthandPropertyAssignment(parent);
}

// What stands before a name: nothing, the own object, a module or type, or an object.
function reachOf(node, kind) {
  const parent = node.parent;
  const isMember = kind === "method" || kind === "field";
  if (isMember && ts.isShorthandPropertyAssignment(parent)) return "object";
  let receiver;
  if (ts.isPropertyAccessExpression(parent) && parent.name === node) receiver = parent.expression;
  else if (ts.isQualifiedName(parent) && parent.right === node) receiver = parent.left;
  else return ts.isBindingElement(parent) || ts.isPropertyAssignment(parent) ? "object" : "plain";
  if ([ts.SyntaxKind.ThisKeyword, ts.SyntaxKind.SuperKeyword].includes(receiver.kind)) return "own";
  let symbol = checker.getSymbolAtLocation(receiver);
  if (symbol && symbol.flags & ts.SymbolFlags.Alias) symbol = checker.getAliasedSymbol(symbol);
  const named = ts.SymbolFlags.Module | ts.SymbolFlags.Class | ts.SymbolFlags.Enum;
  return symbol && symbol.flags & named ? "named" : "object";
}

function startOf(one, [first, last], source) {
  const name = new RegExp(`(?<![\\w$])${one.name.replace(/\$/g, "\\$")}(?![\\w$])`, "g");
  const end = last < source.getLineStarts().length
    ? source.getLineStarts()[last] : source.text.length;
  name.lastIndex = source.getLineStarts()[first - 1];
  for (let found; (found = name.exec(source.text)) && found.index < end; ) {
    const node = nodeAt(source, found.index);
    if (node.getStart(source) === found.index && node.parent && isDeclared(node)) return found.index;
  }
  return -1;
}

// "module.exports = { name }" hands on what the name means there.
function handedOn(file, start) {
  const { parent } = nodeAt(program.getSourceFile(file), start);
  if (!parent || !ts.isShorthandPropertyAssignment(parent)) return [file, start];
  const declared = checker.getShorthandAssignmentValueSymbol(parent)?.valueDeclaration;
  return declared?.name ? [declared.getSourceFile().fileName, declared.name.getStart()] : [file, start];
}

// A comment, or in a constructor the parameter that a field is declared by.
function isElsewise(node, { textSpan }, one) {
  if (!ts.isStringLiteralLike(node) && node.getStart() !== textSpan.start) return true;
  const meant = one.kind === "field" && checker.getSymbolAtLocation(node);
  return meant && ts.isIdentifier(node) && !ts.isShorthandPropertyAssignment(node.parent) &&
    Boolean(meant.flags & ts.SymbolFlags.FunctionScopedVariable) &&
    !(meant.flags & ts.SymbolFlags.Property);
}

function verdict(one, targets, [file, line]) {
  const source = program.getSourceFile(path.join(asked.root, file));
  if (!source) return "undecided";
  const starts = source.getLineStarts();
  const text = source.text.slice(starts[line - 1], starts[line] ?? source.text.length);
  let isElsewhere = false;
  for (const found of text.matchAll(/[\w$]+/g)) {
    if (found[0] !== one.name) continue;
    const meant = service.getDefinitionAtPosition(source.fileName, starts[line - 1] + found.index);
    for (const definition of meant ?? []) {
      const place = placeOf(...handedOn(definition.fileName, definition.textSpan.start));
      if (targets.has(place.join(":"))) return "right";
      isElsewhere = true;
    }
  }
  return isElsewhere ? "wrong" : "undecided";
}

function truthOf(one) {
  const file = path.join(asked.root, one.path);
  const source = program.getSourceFile(file);
  const starts = source ? one.heads.map((head) => startOf(one, head, source)) : [];
  const found = starts.filter((start) => start >= 0);
  if (!found.length) return null;
  const targets = new Set(found.map((start) => placeOf(file, start).join(":")));
  const isTarget = (definition) =>
    targets.has(placeOf(definition.fileName, definition.textSpan.start).join(":"));
  const places = new Map();
  for (const group of found.flatMap((start) => service.findReferences(file, start) ?? [])) {
    // A member's uses are listed with those of all that it overrides, or that override it.
    if (["method", "field"].includes(one.kind) && !isTarget(group.definition)) continue;
    for (const reference of group.references) {
      const other = program.getSourceFile(reference.fileName);
      const node = nodeAt(other, reference.textSpan.start);
      if (!node.parent || isDeclared(node) || isElsewise(node, reference, one)) continue;
      const place = placeOf(reference.fileName, reference.textSpan.start);
      const known = places.get(place.join(":"));
      const reach = reachOf(node, one.kind);
      if (!known || REACHES.indexOf(reach) < REACHES.indexOf(known[2]))
        places.set(place.join(":"), [...place, reach]);
    }
  }
  const claims = one.claims.map((claim) => [
    ...claim,
    places.has(claim.join(":")) ? "right" : verdict(one, targets, claim),
  ]);
  return { places: [...places.values()], claims };
}

process.stdout.write(JSON.stringify(asked.definitions.map(truthOf)));
