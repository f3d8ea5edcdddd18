// What Go's own type checker says of every name of a project. JSON in, JSON out; see references.py.
package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

var (
	root    string
	files   = token.NewFileSet()
	modules = map[string]string{} // the path of a module, its directory
	known   = map[string]*types.Package{}
	library = importer.ForCompiler(files, "source", nil)
	answer  = struct {
		Definitions [][]any `json:"definitions"`
		Uses        [][]any `json:"uses"`
	}{[][]any{}, [][]any{}}
	declared = regexp.MustCompile(`(?m)^module\s+"?([^\s"]+)`)
)

type packages struct{}

func (packages) Import(wanted string) (*types.Package, error) {
	if found, ok := known[wanted]; ok {
		return found, nil
	}
	for module, directory := range modules {
		if wanted == module || strings.HasPrefix(wanted, module+"/") {
			sources := parsed(filepath.Join(directory, strings.TrimPrefix(wanted, module)))
			if plain := sources[""]; len(plain) > 0 {
				known[wanted] = nil // an import in a circle
				known[wanted] = checked(wanted, plain, nil)
			}
			return known[wanted], missing(known[wanted], wanted)
		}
	}
	if strings.Contains(strings.Split(wanted, "/")[0], ".") {
		return nil, missing(nil, wanted)
	}
	return library.Import(wanted)
}

func missing(found *types.Package, wanted string) error {
	if found == nil {
		return fmt.Errorf("no package %s", wanted)
	}
	return nil
}

var parsedFiles = map[string]map[string][]*ast.File{}

// The files of a directory that this machine builds: the package, with its own tests ("inside"), and
// the tests that import it ("outside").
func parsed(directory string) map[string][]*ast.File {
	if found, ok := parsedFiles[directory]; ok {
		return found
	}
	groups := map[string][]*ast.File{}
	parsedFiles[directory] = groups
	names, _ := filepath.Glob(filepath.Join(directory, "*.go"))
	for _, name := range names {
		if fits, _ := build.Default.MatchFile(directory, filepath.Base(name)); !fits {
			continue
		}
		file, _ := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		switch {
		case file == nil:
		case strings.HasSuffix(file.Name.Name, "_test"):
			groups["outside"] = append(groups["outside"], file)
		default:
			groups["inside"] = append(groups["inside"], file)
			if !strings.HasSuffix(name, "_test.go") {
				groups[""] = append(groups[""], file)
			}
		}
	}
	return groups
}

func checked(name string, sources []*ast.File, info *types.Info) *types.Package {
	config := types.Config{Importer: packages{}, FakeImportC: true, Error: func(error) {}}
	found, _ := config.Check(name, files, sources, info)
	return found
}

func placeOf(position token.Pos) (string, int) {
	at := files.Position(position)
	name, err := filepath.Rel(root, at.Filename)
	if err != nil || strings.HasPrefix(name, "..") {
		return "", 0
	}
	return filepath.ToSlash(name), at.Line
}

func idOf(object types.Object) string {
	switch one := object.(type) {
	case *types.Func:
		object = one.Origin()
	case *types.Var:
		object = one.Origin()
	}
	if name, _ := placeOf(object.Pos()); name == "" {
		return ""
	}
	return files.Position(object.Pos()).String()
}

func tell(file *ast.File, info *types.Info) {
	behind := map[*ast.Ident]ast.Expr{}
	own := map[types.Object]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		switch one := node.(type) {
		case *ast.SelectorExpr:
			behind[one.Sel] = one.X
		case *ast.FuncDecl:
			if one.Recv != nil {
				for _, name := range one.Recv.List[0].Names {
					own[info.Defs[name]] = true
				}
			}
		}
		return true
	})
	ast.Inspect(file, func(node ast.Node) bool {
		name, ok := node.(*ast.Ident)
		if !ok {
			return true
		}
		where, line := placeOf(name.Pos())
		if object := info.Defs[name]; object != nil {
			switch object.(type) {
			case *types.Func, *types.TypeName, *types.Var, *types.Const:
				definition := []any{where, line, name.Name, idOf(object)}
				answer.Definitions = append(answer.Definitions, definition)
			}
		}
		if object := info.Uses[name]; object != nil {
			use := []any{where, line, name.Name, idOf(object), reach(behind[name], info, own)}
			answer.Uses = append(answer.Uses, use)
		}
		return true
	})
}

func reach(before ast.Expr, info *types.Info, own map[types.Object]bool) string {
	if before == nil {
		return "plain"
	}
	switch one := before.(type) {
	case *ast.Ident:
		switch info.Uses[one].(type) {
		case *types.PkgName, *types.TypeName:
			return "named"
		}
		if own[info.Uses[one]] {
			return "own"
		}
	}
	return "object"
}

func main() {
	var asked struct{ Root string }
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		panic(err)
	}
	root = asked.Root
	directories := map[string]bool{}
	_ = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if entry.Name() == "go.mod" {
			if text, err := os.ReadFile(name); err == nil && declared.Match(text) {
				modules[string(declared.FindSubmatch(text)[1])] = filepath.Dir(name)
			}
		}
		if strings.HasSuffix(name, ".go") {
			directories[filepath.Dir(name)] = true
		}
		return nil
	})
	sorted := make([]string, 0, len(directories))
	for directory := range directories {
		sorted = append(sorted, directory)
	}
	sort.Strings(sorted)
	for _, directory := range sorted {
		for _, group := range []string{"inside", "outside"} {
			info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
			sources := parsed(directory)[group]
			if len(sources) > 0 {
				checked(path.Base(directory), sources, info)
			}
			for _, file := range sources {
				tell(file, info)
			}
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		panic(err)
	}
}
