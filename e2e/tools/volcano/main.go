// Which fields do Volcano's PodGroups and Queues have, and which keys of annotations, labels and resources does its scheduler know?
//
// Prints the list src/api/fields/volcano.txt, from the sources of pinned versions that the Go proxy has:
//
//	cd e2e/tools && go run ./volcano > ../../src/api/fields/volcano.txt
//
// A newer Volcano needs a new version below and this command. The test of src/api/fields then names what is not in its tables.
package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

const (
	// The types of the API, and the keys that are constants.
	apis = "volcano.sh/apis@v1.14.0"
	// The programs, with further keys in their text. Its module has no types of the API, and theirs is not on the proxy in the same version.
	programs = "volcano.sh/volcano@v1.15.0"
)

var key = regexp.MustCompile(`^([a-z.]+\.)?volcano\.sh/[A-Za-z][A-Za-z0-9_.-]*$|^scheduling\.k8s\.io/[a-z-]+$`)

func main() {
	log.SetFlags(0)
	fmt.Printf("# Fields and keys of Volcano, printed by e2e/tools/volcano from %s and %s. Not edited by hand.\n", apis, programs)
	folder := download(apis) + "/pkg/apis/"
	types := structs(parse(folder + "scheduling/v1beta1"))
	for _, name := range []string{"PodGroupSpec", "PodGroupStatus", "QueueSpec", "QueueStatus"} {
		for _, path := range fields(types, name, "") {
			fmt.Println(name, path)
		}
	}
	keys := map[string]bool{}
	for _, of := range []string{"scheduling/v1beta1", "topology/v1alpha1"} {
		constants(parse(folder+of), keys)
	}
	folder = download(programs) + "/pkg/"
	for _, of := range []string{"scheduler", "controllers/podgroup", "controllers/queue"} {
		literals(parse(folder+of), keys)
	}
	sorted := []string{}
	for found := range keys {
		sorted = append(sorted, found)
	}
	sort.Strings(sorted)
	for _, found := range sorted {
		fmt.Println("key", found)
	}
}

// download returns the folder of a module.
func download(module string) string {
	out, err := exec.Command("go", "mod", "download", "-json", module).Output()
	if err != nil {
		log.Fatalf("%s: %v: %s", module, err, out)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(out, &found); err != nil || found.Dir == "" {
		log.Fatalf("%s: %v: %s", module, err, out)
	}
	return found.Dir
}

// parse reads the files of a folder and those below, without tests.
func parse(folder string) []*ast.File {
	files := []*ast.File{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.Contains(path, "_test.go") || strings.Contains(path, "test_utils") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		files = append(files, file)
		return err
	})
	if err != nil || len(files) == 0 {
		log.Fatalf("%s: %d files, %v", folder, len(files), err)
	}
	return files
}

func structs(files []*ast.File) map[string]*ast.StructType {
	found := map[string]*ast.StructType{}
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			if spec, ok := node.(*ast.TypeSpec); ok {
				if of, ok := spec.Type.(*ast.StructType); ok {
					found[spec.Name.Name] = of
				}
			}
			return true
		})
	}
	return found
}

// fields returns the paths of a type's fields: those of types of other packages end there.
func fields(types map[string]*ast.StructType, name, above string) []string {
	of, ok := types[name]
	if !ok {
		log.Fatalf("no type %s", name)
	}
	paths := []string{}
	for _, field := range of.Fields.List {
		tag, err := strconv.Unquote(field.Tag.Value)
		if err != nil {
			log.Fatalf("%s: %v", name, err)
		}
		path := above + strings.Split(reflect.StructTag(tag).Get("json"), ",")[0]
		paths = append(paths, path)
		at := field.Type
		for below := true; below; {
			switch inner := at.(type) {
			case *ast.StarExpr:
				at = inner.X
			case *ast.ArrayType:
				at, path = inner.Elt, path+"[]"
			default:
				below = false
			}
		}
		if inner, ok := at.(*ast.Ident); ok && types[inner.Name] != nil {
			paths = append(paths, fields(types, inner.Name, path+".")...)
		}
	}
	return paths
}

// constants adds the keys among the constants of a package. They may be put together from others.
func constants(files []*ast.File, keys map[string]bool) {
	values := map[string]ast.Expr{}
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			if spec, ok := node.(*ast.ValueSpec); ok {
				for at, value := range spec.Values {
					values[spec.Names[at].Name] = value
				}
			}
			return true
		})
	}
	for _, value := range values {
		if text := text(value, values); key.MatchString(text) {
			keys[text] = true
		}
	}
}

func text(of ast.Expr, values map[string]ast.Expr) string {
	switch of := of.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(of.Value)
		return text
	case *ast.Ident:
		if value, ok := values[of.Name]; ok {
			return text(value, values)
		}
	case *ast.BinaryExpr:
		return text(of.X, values) + text(of.Y, values)
	}
	return ""
}

// literals adds the keys among all texts of the files, but not the packages that they import.
func literals(files []*ast.File, keys map[string]bool) {
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			if _, ok := node.(*ast.ImportSpec); ok {
				return false
			}
			if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if text, err := strconv.Unquote(literal.Value); err == nil && key.MatchString(text) {
					keys[text] = true
				}
			}
			return true
		})
	}
}
