// Package project knows the project directories of an executor.
//
// The project base is a hint and a guard for files that a person opens; agents
// and Git are not confined by it.
package project

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"garcon/proto/exec"
)

// Service implements [exec.Project]. It is safe for concurrent use and holds no
// open files between calls.
type Service struct {
	base string // with links resolved; constant
}

var _ exec.Project = (*Service)(nil)

// New returns the service for a project base, which must be a directory. An
// empty base means the home directory.
func New(base string) (*Service, error) {
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, fmt.Errorf("project base: %w", err)
		}
		base = home
	}
	abs, err := filepath.Abs(base)
	if err != nil {
		return nil, fmt.Errorf("project base: %w", err)
	}
	resolved, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return nil, fmt.Errorf("project base: %w", err)
	}
	info, err := os.Stat(resolved)
	if err != nil {
		return nil, fmt.Errorf("project base: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("project base %s is not a directory", base)
	}
	return &Service{resolved}, nil
}

// Base returns the project base with links resolved.
func (s *Service) Base() string { return s.base }

// Inspect implements [exec.Project]. A relative path counts from the base, and
// "~" is the home directory.
func (s *Service) Inspect(ctx context.Context, path string) (exec.ProjectInfo, error) {
	if err := ctx.Err(); err != nil {
		return exec.ProjectInfo{}, exec.AsError(err)
	}
	abs, err := s.absolute(path)
	if err != nil {
		return exec.ProjectInfo{}, err
	}
	info := exec.ProjectInfo{Path: abs, Base: s.base}
	resolved, err := filepath.EvalSymlinks(abs)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return exec.ProjectInfo{}, exec.Errorf(exec.CodeProjectPath, "%s cannot be looked at: permission denied", abs)
		}
		// Missing, a loop of links, or below something that is a file.
		info.InsideBase = within(s.base, resolveParent(abs))
		return info, nil
	}
	st, err := os.Stat(resolved)
	if err != nil {
		return info, nil
	}
	info.Path, info.Exists, info.IsDir = resolved, true, st.IsDir()
	info.InsideBase = within(s.base, resolved)
	return info, nil
}

// resolveParent resolves the links of what exists of a path that does not.
func resolveParent(path string) string {
	rest := ""
	for dir := path; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		rest = filepath.Join(filepath.Base(dir), rest)
		if resolved, err := filepath.EvalSymlinks(filepath.Dir(dir)); err == nil {
			return filepath.Join(resolved, rest)
		}
	}
	return path
}

func (s *Service) absolute(path string) (string, error) {
	if path == "" || strings.ContainsRune(path, 0) {
		return "", exec.Errorf(exec.CodeProjectPath, "a project path must not be empty or hold a NUL")
	}
	if path == "~" || strings.HasPrefix(path, "~/") {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", exec.Errorf(exec.CodeProjectPath, "the home directory is not known: %w", err)
		}
		path = filepath.Join(home, path[1:])
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.base, path)
	}
	return filepath.Clean(path), nil
}

// within reports whether path is base or below it; both are clean and
// absolute.
func within(base, path string) bool {
	rel, err := filepath.Rel(base, path)
	return err == nil && filepath.IsLocal(rel)
}
