// Package ui holds the built web interface. Its sources are in src; dist is
// what `npm run build` makes of them, and is committed, so that building the
// program needs no Node.
package ui

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// Files returns the built interface: index.html and the service worker at the
// root, everything with a hash in its name under assets.
func Files() fs.FS {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // dist is a valid path; the embed directive above has it
	}
	return files
}
