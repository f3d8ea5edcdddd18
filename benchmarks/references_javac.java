// What javac says of every name of a project. JSON in, JSON out; see references.py. No class path is
// given: what other libraries define is unknown.

import com.sun.source.tree.*;
import com.sun.source.util.*;
import com.sun.tools.javac.code.Symbol;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.regex.*;
import java.util.stream.*;
import javax.lang.model.element.*;
import javax.lang.model.type.TypeKind;
import javax.tools.*;

class References extends TreePathScanner<Void, Void> {
  static final List<String> definitions = new ArrayList<>();
  static final List<String> uses = new ArrayList<>();
  static Path root;
  final Trees trees;
  final SourcePositions positions;
  String written;

  References(Trees trees) {
    this.trees = trees;
    this.positions = trees.getSourcePositions();
  }

  static String text(Object... parts) {
    return Stream.of(parts)
        .map(one -> one instanceof Number ? one.toString()
            : '"' + one.toString().replace("\\", "\\\\").replace("\"", "\\\"") + '"')
        .collect(Collectors.joining(",", "[", "]"));
  }

  String path() {
    return root.relativize(Path.of(getCurrentPath().getCompilationUnit().getSourceFile().toUri()))
        .toString();
  }

  CompilationUnitTree unit() {
    return getCurrentPath().getCompilationUnit();
  }

  // Empty where it is not of the project.
  static String id(Element one) {
    for (Symbol around = (Symbol) one; around != null; around = around.owner)
      if (around instanceof Symbol.ClassSymbol type && type.sourcefile != null
          && type.sourcefile.getName().startsWith(root.toString()))
        return ((Symbol) one).owner + "#" + one + "#" + one.getKind();
    return "";
  }

  // What has a name of its own: where it first stands after a part of the definition.
  void define(Tree node, Tree after, String name) {
    Element meant = trees.getElement(getCurrentPath());
    long end = positions.getEndPosition(unit(), node);
    long start = after == null ? -1 : positions.getEndPosition(unit(), after);
    if (start < 0) start = positions.getStartPosition(unit(), node);
    if (meant == null || name.isEmpty() || name.equals("<init>") || start < 0 || end < start) return;
    Matcher found = Pattern.compile("(?<![\\w$])" + Pattern.quote(name) + "(?![\\w$])")
        .matcher(written).region((int) start, (int) end);
    if (found.find())
      definitions.add(text(path(), unit().getLineMap().getLineNumber(found.start()), name, id(meant)));
  }

  // The name is the last part of what uses it.
  void use(Tree node, String name, String reach) {
    Element meant = trees.getElement(getCurrentPath());
    long end = positions.getEndPosition(unit(), node);
    if (meant == null || end < 0 || meant.getKind() == ElementKind.PACKAGE) return;
    if (meant.asType() != null && meant.asType().getKind() == TypeKind.ERROR) return;
    long line = unit().getLineMap().getLineNumber(end - name.length());
    uses.add(text(path(), line, name, id(meant), reach));
  }

  String reachOf(ExpressionTree before) {
    if (before instanceof IdentifierTree name
        && (name.getName().contentEquals("this") || name.getName().contentEquals("super")))
      return "own";
    if (!(before instanceof IdentifierTree) && !(before instanceof MemberSelectTree))
      return "object";
    Element meant = trees.getElement(new TreePath(getCurrentPath(), before));
    if (meant == null) return "object";
    return meant instanceof TypeElement || meant instanceof PackageElement ? "named" : "object";
  }

  @Override public Void visitClass(ClassTree node, Void none) {
    define(node, node.getModifiers().getAnnotations().isEmpty() ? null : node.getModifiers(),
        node.getSimpleName().toString());
    return super.visitClass(node, none);
  }

  @Override public Void visitMethod(MethodTree node, Void none) {
    define(node, node.getReturnType(), node.getName().toString());
    return super.visitMethod(node, none);
  }

  @Override public Void visitVariable(VariableTree node, Void none) {
    if (getCurrentPath().getParentPath().getLeaf() instanceof ClassTree)
      define(node, node.getType(), node.getName().toString());
    return super.visitVariable(node, none);
  }

  @Override public Void visitIdentifier(IdentifierTree node, Void none) {
    use(node, node.getName().toString(), "plain");
    return super.visitIdentifier(node, none);
  }

  @Override public Void visitMemberSelect(MemberSelectTree node, Void none) {
    boolean isImport = getCurrentPath().getParentPath().getLeaf() instanceof ImportTree;
    String reach = isImport ? "plain" : reachOf(node.getExpression());
    use(node, node.getIdentifier().toString(), reach);
    return super.visitMemberSelect(node, none);
  }

  @Override public Void visitMemberReference(MemberReferenceTree node, Void none) {
    use(node, node.getName().toString(), reachOf(node.getQualifierExpression()));
    return super.visitMemberReference(node, none);
  }

  public static void main(String[] arguments) throws IOException {
    String asked = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
    Matcher found = Pattern.compile("\"root\":\\s*\"([^\"]+)\"").matcher(asked);
    found.find();
    root = Path.of(found.group(1));
    List<Path> files;
    try (Stream<Path> all = Files.walk(root)) {
      files = all.filter(one -> one.toString().endsWith(".java"))
          .filter(one -> !one.getFileName().toString().matches("(module|package)-info.java"))
          .sorted().toList();
    }
    JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
    var manager = compiler.getStandardFileManager(null, null, StandardCharsets.UTF_8);
    JavacTask task = (JavacTask) compiler.getTask(Writer.nullWriter(), manager, one -> {},
        List.of("-proc:none", "-XDshould-stop.ifError=FLOW"), null,
        manager.getJavaFileObjectsFromPaths(files));
    List<CompilationUnitTree> units = new ArrayList<>();
    task.parse().forEach(units::add);
    task.analyze();
    References scanner = new References(Trees.instance(task));
    for (CompilationUnitTree unit : units) {
      scanner.written = unit.getSourceFile().getCharContent(true).toString();
      scanner.scan(unit, null);
    }
    System.out.println("{\"definitions\": [" + String.join(",", definitions) + "], \"uses\": ["
        + String.join(",", uses) + "]}");
  }
}
