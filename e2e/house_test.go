package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// layers says what the packages below a path may import of this module. The
// first path that matches counts; a name that ends in /... stands for the
// packages below it, too.
var layers = []struct {
	path    string
	imports []string
}{
	{"garcon", []string{"garcon/role", "garcon/role/cli", "garcon/provider"}},
	{"garcon/role", []string{"garcon/role/...", "garcon/store/...", "garcon/provider/...", "garcon/ui/...", "garcon/proto/..."}},
	{"garcon/role/controller/...", []string{"garcon/role/controller/...", "garcon/store/...", "garcon/provider/direct", "garcon/ui/...", "garcon/proto/..."}},
	{"garcon/role/executor/...", []string{"garcon/role/executor/...", "garcon/store/runtimefile", "garcon/provider", "garcon/proto/..."}},
	{"garcon/role/cli/...", []string{"garcon/store/runtimefile", "garcon/proto/..."}},
	{"garcon/role/connurl/...", []string{"garcon/store/runtimefile", "garcon/proto/..."}},
	{"garcon/store/...", []string{"garcon/store/...", "garcon/proto/..."}},
	{"garcon/ui/...", nil},
	{"garcon/provider/conformance", []string{"garcon/provider", "garcon/proto/..."}},
	{"garcon/provider/...", []string{"garcon/provider", "garcon/proto/..."}},
	{"garcon/proto/...", []string{"garcon/proto/..."}},
	{"garcon/e2e/model/...", nil},
	{"garcon/e2e/...", []string{"garcon/..."}},
}

// listed is a package as go list knows it.
type listed struct {
	ImportPath string
	Dir        string
	Imports    []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports", "./...")
	cmd.Dir = Source(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var all []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func matches(pattern, path string) bool {
	if below, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == below || strings.HasPrefix(path, below+"/")
	}
	return path == pattern
}

func TestImportsPointOneWay(t *testing.T) {
	for _, p := range packages(t) {
		n := slices.IndexFunc(layers, func(l struct {
			path    string
			imports []string
		},
		) bool {
			return matches(l.path, p.ImportPath)
		})
		if n < 0 {
			t.Errorf("%s has no place in the layers: add it to this test and to the README", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			if imported != "garcon" && !strings.HasPrefix(imported, "garcon/") {
				continue
			}
			if !slices.ContainsFunc(layers[n].imports, func(allowed string) bool { return matches(allowed, imported) }) {
				t.Errorf("%s must not import %s", p.ImportPath, imported)
			}
		}
	}
}

func TestPackagesAreDocumented(t *testing.T) {
	for _, p := range packages(t) {
		files, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		var docs []string
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				t.Fatal(err)
			}
			if text := docText(parsed.Doc); text != "" {
				docs = append(docs, text)
			}
		}
		name := p.ImportPath[strings.LastIndexByte(p.ImportPath, '/')+1:]
		want := "Package " + name + " "
		if p.ImportPath == "garcon" {
			want = "Command garcon "
		}
		if len(docs) != 1 || !strings.HasPrefix(docs[0], want) {
			t.Errorf("%s has the package comments %q, want one that begins with %q", p.ImportPath, docs, want)
		}
	}
}

func docText(doc *ast.CommentGroup) string {
	if doc == nil {
		return ""
	}
	return doc.Text()
}

// mapLine is a row of the package map in the README.
var mapLine = regexp.MustCompile("^\\| `([a-z0-9/]+)` \\| [^|]+ \\|$")

func TestReadmeHasThePackageMap(t *testing.T) {
	root := Source(t)
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	mapped := map[string]bool{}
	for lines := bufio.NewScanner(bytes.NewReader(readme)); lines.Scan(); {
		m := mapLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		mapped[m[1]] = true
		if info, err := os.Stat(filepath.Join(root, m[1])); err != nil || !info.IsDir() {
			t.Errorf("the README describes %s, which is not there", m[1])
		}
	}
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, "garcon/")
		// What is internal to a package is no part of the map.
		if p.ImportPath == "garcon" || strings.Contains(path, "internal") {
			continue
		}
		if !mapped[path] {
			t.Errorf("the README's package map lacks %s", path)
		}
	}
}

func TestSourceIsFormatted(t *testing.T) {
	root := Source(t)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && path != root):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		formatted, err := format.Source(source)
		if err != nil {
			return err
		}
		if !bytes.Equal(source, formatted) {
			t.Errorf("%s is not formatted; run `just fmt`", strings.TrimPrefix(path, root+"/"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// words that do not belong into a source tree: notes that were never carried
// out.
var leftovers = regexp.MustCompile(`\b(` + strings.Join([]string{"TO" + "DO", "FIX" + "ME", "X" + "XX"}, "|") + `)\b`)

func TestNothingIsLeftForLater(t *testing.T) {
	root := Source(t)
	out, err := exec.Command("git", "-C", root, "ls-files", "-z", "*.go", "*.md", "justfile").Output()
	if err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	files := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(files) < 10 {
		t.Fatalf("only %d files are tracked", len(files))
	}
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed, not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		if lines := bytes.Count(data, []byte{'\n'}); strings.HasSuffix(name, ".go") && lines > maxFileLines {
			t.Errorf("%s has %d lines; split it", name, lines)
		}
		for n, line := range strings.Split(string(data), "\n") {
			if leftovers.MatchString(line) {
				t.Errorf("%s:%d: %s", name, n+1, strings.TrimSpace(line))
			}
		}
	}
}

// maxFileLines is where a file is no longer about one topic.
const maxFileLines = 700
