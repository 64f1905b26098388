package cli

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// Build says what this program was built from.
type Build struct {
	Version string `json:"version"`
	// Commit is the revision, with "+changes" when the tree had changes; empty
	// when the build does not know.
	Commit string `json:"commit,omitempty"`
	Go     string `json:"go"`
	OS     string `json:"os"`
	Arch   string `json:"arch"`
}

// ThisBuild returns the build of this program.
func ThisBuild() Build {
	b := Build{Version: "devel", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = strings.TrimPrefix(v, "v")
	}
	changed := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			changed = s.Value == "true"
		}
	}
	if changed && b.Commit != "" {
		b.Commit += "+changes"
	}
	return b
}

// VersionCmd prints the version.
type VersionCmd struct {
	JSON bool `help:"Print one JSON document on standard output." name:"json"`
}

// Run prints the version.
func (c *VersionCmd) Run(e *Env) error {
	e.json = c.JSON
	b := ThisBuild()
	if c.JSON {
		return e.document(b)
	}
	commit := ""
	if b.Commit != "" {
		commit = " (" + b.Commit + ")"
	}
	return e.printf("garcon %s%s %s %s/%s\n", b.Version, commit, b.Go, b.OS, b.Arch)
}
