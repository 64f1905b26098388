// Package fleet keeps the executors of a controller: the runtimes that chats
// run on.
//
// The only executor so far is the one inside the controller's process.
package fleet

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"garcon/proto/api"
	"garcon/proto/exec"
)

// Fleet finds runtimes by executor id. It is immutable and safe for concurrent
// use.
type Fleet struct {
	runtimes map[string]exec.Runtime
	// chosen is the executor that --executor named, empty for none.
	chosen string
}

// New returns a fleet of the given runtimes. chosen is the id of the executor
// for requests that name none; empty leaves the choice to the setting.
func New(chosen string, runtimes ...exec.Runtime) *Fleet {
	f := &Fleet{runtimes: map[string]exec.Runtime{}, chosen: chosen}
	for _, r := range runtimes {
		f.runtimes[r.ID()] = r
	}
	return f
}

// Runtime returns the executor with the id. Nothing stands in for one that is
// missing.
func (f *Fleet) Runtime(id string) (exec.Runtime, error) {
	if r, ok := f.runtimes[id]; ok {
		return r, nil
	}
	return nil, api.NewError(api.Code(exec.CodeUnavailable), "there is no executor "+strconv.Quote(id)+" here",
		"Executors: "+f.names()+".")
}

// Default returns the executor for a request that names none: the chosen one,
// else the setting, else the local one.
func (f *Fleet) Default(setting string) string {
	switch {
	case f.chosen != "":
		return f.chosen
	case setting != "":
		return setting
	}
	return exec.LocalID
}

func (f *Fleet) names() string {
	return strings.Join(slices.Sorted(maps.Keys(f.runtimes)), ", ")
}
