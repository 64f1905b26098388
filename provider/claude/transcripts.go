package claude

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf16"

	"garcon/proto/exec"
	"garcon/provider"
)

// transcripts is the directory in which the CLI keeps its sessions, one
// directory for each project.
type transcripts struct{ root string }

func (a *adapter) transcripts() transcripts {
	config := provider.Getenv(a.host.Env, envConfig)
	if config == "" {
		config = filepath.Join(provider.Getenv(a.host.Env, "HOME"), ".claude")
	}
	return transcripts{filepath.Join(config, "projects")}
}

const transcriptExt = ".jsonl"

// project is the directory of a project's sessions.
func (t transcripts) project(path string) string {
	return filepath.Join(t.root, projectName(canonical(path)))
}

// canonical resolves links as the CLI does. A path that is gone stays as it is.
func canonical(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return filepath.Clean(path)
}

// maxProjectName is the length from which the CLI shortens names, in
// characters.
const maxProjectName = 200

// projectName is the CLI's name for the directory of a project. It cannot be
// turned back: different paths can have the same.
func projectName(path string) string {
	var name strings.Builder
	var hash int32
	for _, unit := range utf16.Encode([]rune(path)) {
		hash = hash*31 + int32(unit)
		if unit >= 'a' && unit <= 'z' || unit >= 'A' && unit <= 'Z' || unit >= '0' && unit <= '9' {
			name.WriteByte(byte(unit))
		} else {
			name.WriteByte('-')
		}
	}
	if name.Len() <= maxProjectName {
		return name.String()
	}
	size := int64(hash)
	if size < 0 {
		size = -size
	}
	return name.String()[:maxProjectName] + "-" + strconv.FormatInt(size, 36)
}

// find returns the file of a session: the project's own, or the only one there
// is, since a session goes on in its old place when the project moves.
func (t transcripts) find(project, session string) (string, error) {
	if !isUUID(session) {
		return "", exec.Errorf(exec.CodeSessionMissing, "%q is not a session of Claude Code", session)
	}
	if project != "" {
		path := filepath.Join(t.project(project), session+transcriptExt)
		if regular(path) {
			return path, nil
		}
	}
	matches := t.all(session)
	switch len(matches) {
	case 0:
		return "", exec.Errorf(exec.CodeSessionMissing, "Claude Code has no session %s", session)
	case 1:
		return matches[0], nil
	}
	return "", exec.Errorf(exec.CodeSessionMissing, "Claude Code has session %s in %d projects, and none of them is this one", session, len(matches))
}

// hasIn reports whether a session is on disk where one of the project begins.
func (t transcripts) hasIn(project, session string) bool {
	return isUUID(session) && regular(filepath.Join(t.project(project), session+transcriptExt))
}

// has reports whether a session is on disk.
func (t transcripts) has(session string) bool { return len(t.all(session)) > 0 }

func (t transcripts) all(session string) []string {
	dirs, err := os.ReadDir(t.root)
	if err != nil {
		// No directory, no sessions.
		return nil
	}
	var found []string
	for _, d := range dirs {
		path := filepath.Join(t.root, d.Name(), session+transcriptExt)
		if d.IsDir() && regular(path) {
			found = append(found, path)
		}
	}
	return found
}

func regular(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}
