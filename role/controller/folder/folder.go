// Package folder keeps the folders of the sidebar: their names, their order,
// and which chats are in them.
//
// A chat's record says which folder it is in and where, so that a move is one
// commit and a deleted chat is in no folder. The order of the folders is one
// record; a folder it does not name is last.
package folder

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/uuid"

	"garcon/proto/api"
	"garcon/proto/row"
	"garcon/store/registry"
)

const (
	// collection and orderSetting are where the registry keeps folders and their
	// order.
	collection   = "folders"
	orderSetting = "folders.order"
	// maxName bounds a folder's name, in bytes: what a sidebar shows, many times
	// over.
	maxName = 256
)

// record is what is stored of a folder.
type record struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Collapsed bool   `json:"collapsed,omitempty"`
}

// place is where a chat is.
type place struct {
	folder   string
	position float64
	archived bool
}

// Service owns the folders of a workspace. It is safe for concurrent use.
type Service struct {
	registry *registry.Store
	records  registry.Collection
	log      *slog.Logger
	unwatch  func()

	// change serialises changes: a position is chosen by what is there.
	change sync.Mutex

	mu      sync.Mutex // guards what follows; taken after change
	folders map[string]record
	order   []string
	chats   map[string]place
	// changed is closed and replaced whenever [Service.State] gives something
	// else.
	changed chan struct{}
}

// State is what there is. It is the caller's.
type State struct {
	// Folders are in their order.
	Folders []api.Folder
	// Archived are the ids of archived chats, in order of id.
	Archived []string
}

// Order returns the ids of the folders in their order.
func (s State) Order() []string {
	out := make([]string, len(s.Folders))
	for i, f := range s.Folders {
		out[i] = f.ID
	}
	return out
}

// Open reads the folders of a workspace and watches its chats. Close it.
func Open(r *registry.Store, log *slog.Logger) *Service {
	s := &Service{
		registry: r, records: r.Collection(collection), log: log,
		folders: map[string]record{}, chats: map[string]place{}, changed: make(chan struct{}),
	}
	for _, raw := range s.records.All() {
		var f record
		if err := json.Unmarshal(raw.Data, &f); err != nil || f.ID != raw.ID {
			log.Error("folder is not readable", "folder", raw.ID, "err", err)
			continue
		}
		s.folders[f.ID] = f
	}
	if raw, ok := r.Setting(orderSetting); ok {
		if err := json.Unmarshal(raw, &s.order); err != nil {
			log.Error("order of the folders is not readable", "err", err)
		}
	}
	s.order = s.complete(s.order)
	s.mu.Lock()
	defer s.mu.Unlock()
	// Changes that come while the chats are read wait for the lock and are made
	// after.
	s.unwatch = r.Watch(s.chatChanged)
	for _, c := range r.Chats() {
		s.chats[c.ID] = placeOf(c)
	}
	return s
}

// Close ends the watch of the chats.
func (s *Service) Close() { s.unwatch() }

// complete returns order without unknown and repeated ids and with those that
// are missing at its end, oldest first: ids are ordered by time.
func (s *Service) complete(order []string) []string {
	out := make([]string, 0, len(s.folders))
	for _, id := range slices.Concat(order, slices.Sorted(maps.Keys(s.folders))) {
		if _, ok := s.folders[id]; ok && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

func placeOf(c registry.Chat) place {
	p := place{folder: c.Folder, archived: c.Archived}
	if c.Position != nil {
		p.position = *c.Position
	}
	return p
}

// chatChanged runs on the registry's writer goroutine.
func (s *Service) chatChanged(c registry.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Removed != "" {
		if p, ok := s.chats[c.Removed]; ok {
			delete(s.chats, c.Removed)
			if p.archived || p.folder != "" {
				s.wakeLocked()
			}
		}
		return
	}
	before, now := s.chats[c.Chat.ID], placeOf(*c.Chat)
	s.chats[c.Chat.ID] = now
	if before != now {
		s.wakeLocked()
	}
}

func (s *Service) wakeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// State returns what there is, and a channel that is closed when that changes.
func (s *Service) State() (State, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := State{Folders: make([]api.Folder, len(s.order)), Archived: []string{}}
	for i, id := range s.order {
		out.Folders[i] = s.folderLocked(id)
	}
	for id, p := range s.chats {
		if p.archived {
			out.Archived = append(out.Archived, id)
		}
	}
	slices.Sort(out.Archived)
	return out, s.changed
}

func (s *Service) folderLocked(id string) api.Folder {
	f := s.folders[id]
	return api.Folder{ID: id, Name: f.Name, Collapsed: f.Collapsed, ChatIDs: s.membersLocked(id)}
}

// membersLocked returns the chats of a folder in order.
func (s *Service) membersLocked(folder string) []string {
	out := []string{}
	for id, p := range s.chats {
		if p.folder == folder {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		return cmp.Or(cmp.Compare(s.chats[a].position, s.chats[b].position), strings.Compare(a, b))
	})
	return out
}

// List returns what there is as a document.
func (s *Service) List() api.FolderList {
	state, _ := s.State()
	return api.FolderList{Folders: state.Folders, Archived: state.Archived}
}

func cleanName(name string) (string, error) {
	name = strings.Join(strings.Fields(row.Text(name)), " ")
	if name == "" || len(name) > maxName || !utf8.ValidString(name) {
		return "", api.NewError(api.CodeInvalid, "the name of a folder is 1 to 256 bytes of one line", "")
	}
	return name, nil
}

func errNoFolder(id string) error {
	return api.NewError(api.CodeNotFound, "there is no folder "+id, "")
}

// Create makes a folder, the last in the order.
func (s *Service) Create(ctx context.Context, req api.FolderRequest) (api.Folder, error) {
	name, err := cleanName(req.Name)
	if err != nil {
		return api.Folder{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return api.Folder{}, err
	}
	s.change.Lock()
	defer s.change.Unlock()
	s.mu.Lock()
	full := len(s.folders) >= api.MaxFolders
	order := append(slices.Clone(s.order), id.String())
	s.mu.Unlock()
	if full {
		return api.Folder{}, api.NewError(api.CodeInvalid, "there are as many folders as there can be", "Delete some.")
	}
	f := record{ID: id.String(), Name: name}
	if err := s.put(ctx, f); err != nil {
		return api.Folder{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.folders[f.ID] = f
	s.order = order
	s.wakeLocked()
	return s.folderLocked(f.ID), nil
}

func (s *Service) put(ctx context.Context, f record) error {
	raw, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return storageError(s.records.Put(ctx, f.ID, raw))
}

// Update changes a folder.
func (s *Service) Update(ctx context.Context, id string, req api.FolderUpdateRequest) (api.Folder, error) {
	s.change.Lock()
	defer s.change.Unlock()
	s.mu.Lock()
	f, ok := s.folders[id]
	s.mu.Unlock()
	if !ok {
		return api.Folder{}, errNoFolder(id)
	}
	if req.Name != nil {
		name, err := cleanName(*req.Name)
		if err != nil {
			return api.Folder{}, err
		}
		f.Name = name
	}
	if req.Collapsed != nil {
		f.Collapsed = *req.Collapsed
	}
	if err := s.put(ctx, f); err != nil {
		return api.Folder{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.folders[id] = f
	s.wakeLocked()
	return s.folderLocked(id), nil
}

// Delete removes a folder. Its chats stay, in none.
func (s *Service) Delete(ctx context.Context, id string) (api.FolderList, error) {
	s.change.Lock()
	defer s.change.Unlock()
	s.mu.Lock()
	_, ok := s.folders[id]
	members := s.membersLocked(id)
	s.mu.Unlock()
	if !ok {
		return api.FolderList{}, errNoFolder(id)
	}
	// The chats first: a crash in between leaves a folder that is emptier, not
	// chats in one that is not there.
	for _, chat := range members {
		if err := s.move(ctx, chat, "", nil); err != nil && !errors.Is(err, registry.ErrNotFound) {
			return api.FolderList{}, storageError(err)
		}
	}
	if err := s.records.Delete(ctx, id); err != nil {
		return api.FolderList{}, storageError(err)
	}
	s.mu.Lock()
	delete(s.folders, id)
	s.order = slices.DeleteFunc(slices.Clone(s.order), func(o string) bool { return o == id })
	s.wakeLocked()
	s.mu.Unlock()
	return s.List(), nil
}

// Order orders the folders; order holds the id of each once.
func (s *Service) Order(ctx context.Context, order []string) (api.FolderList, error) {
	s.change.Lock()
	defer s.change.Unlock()
	s.mu.Lock()
	same := len(order) == len(s.folders) && slices.Equal(order, s.complete(order))
	s.mu.Unlock()
	if !same {
		return api.FolderList{}, api.NewError(api.CodeInvalid, "the order must name every folder once", "Look at the folders again.")
	}
	raw, err := json.Marshal(order)
	if err != nil {
		return api.FolderList{}, err
	}
	if err := s.registry.PutSetting(ctx, orderSetting, raw); err != nil {
		return api.FolderList{}, storageError(err)
	}
	s.mu.Lock()
	s.order = slices.Clone(order)
	s.wakeLocked()
	s.mu.Unlock()
	return s.List(), nil
}

// Move puts a chat into a folder, or into none.
func (s *Service) Move(ctx context.Context, chat string, req api.ChatFolderRequest) (api.FolderList, error) {
	s.change.Lock()
	defer s.change.Unlock()
	target := ""
	s.mu.Lock()
	if req.FolderID != nil {
		target = *req.FolderID
		if _, ok := s.folders[target]; !ok {
			s.mu.Unlock()
			return api.FolderList{}, errNoFolder(target)
		}
	}
	members := slices.DeleteFunc(s.membersLocked(target), func(id string) bool { return id == chat })
	places := make([]float64, len(members))
	for i, id := range members {
		places[i] = s.chats[id].position
	}
	s.mu.Unlock()
	if _, ok := s.registry.Chat(chat); !ok {
		return api.FolderList{}, api.NewError(api.CodeChatNotFound, "there is no chat "+chat, "")
	}
	if target == "" {
		err := s.move(ctx, chat, "", nil)
		return s.List(), storageError(err)
	}
	index := len(members)
	if req.Position != nil && *req.Position >= 0 {
		index = min(*req.Position, len(members))
	}
	at, ok := between(places, index)
	if !ok {
		// No number is left between the neighbours: number them anew.
		for i, id := range members {
			places[i] = float64(i + 1)
			if err := s.move(ctx, id, target, &places[i]); err != nil {
				return api.FolderList{}, storageError(err)
			}
		}
		at, _ = between(places, index)
	}
	if err := s.move(ctx, chat, target, &at); err != nil {
		return api.FolderList{}, storageError(err)
	}
	return s.List(), nil
}

// between returns a position that makes an element the index-th among places,
// which are in order. It is false when there is none.
func between(places []float64, index int) (float64, bool) {
	switch {
	case len(places) == 0:
		return 1, true
	case index == 0:
		return places[0] - 1, places[0]-1 < places[0]
	case index == len(places):
		last := places[len(places)-1]
		return last + 1, last+1 > last
	}
	a, b := places[index-1], places[index]
	mid := a + (b-a)/2
	return mid, a < mid && mid < b
}

func (s *Service) move(ctx context.Context, chat, target string, position *float64) error {
	_, err := s.registry.UpdateChat(ctx, chat, func(c *registry.Chat) error {
		c.Folder, c.Position = target, position
		return nil
	})
	return err
}

// storageError turns a failure of the registry into one of the interface.
func storageError(err error) error {
	switch e, ok := errors.AsType[*registry.StorageError](err); {
	case err == nil:
		return nil
	case errors.Is(err, registry.ErrNotFound):
		return api.NewError(api.CodeChatNotFound, "there is no such chat", "")
	case ok && e.Full:
		return api.NewError(api.CodeStorageFull, "the disk is full: nothing can be saved", "Free some space and try again; no restart is needed.")
	}
	return api.NewError(api.CodeStorage, "the workspace could not be written: "+err.Error(), "See `garcon doctor`.")
}
