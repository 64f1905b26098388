package folder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"garcon/proto/api"
	"garcon/store/registry"
)

type world struct {
	*Service
	t    testing.TB
	path string
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, path: filepath.Join(t.TempDir(), "workspace.db")}
	w.open()
	t.Cleanup(w.close)
	return w
}

func (w *world) open() {
	r, err := registry.Open(context.Background(), w.path, registry.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.Service = Open(r, slog.New(slog.DiscardHandler))
}

func (w *world) close() {
	w.Close()
	if err := w.registry.Close(); err != nil {
		w.t.Error(err)
	}
}

// reopen closes the workspace and opens it again, as a restart does.
func (w *world) reopen() {
	w.close()
	w.open()
}

func (w *world) chat() string {
	c, _, err := w.registry.CreateChat(context.Background(), registry.Chat{Agent: "a", ExecutorID: "local"}, registry.Submission{})
	if err != nil {
		w.t.Fatal(err)
	}
	return c.ID
}

func (w *world) folder(name string) string {
	f, err := w.Create(context.Background(), api.FolderRequest{Name: name})
	if err != nil {
		w.t.Fatal(err)
	}
	return f.ID
}

func (w *world) move(chat, folder string, position int) {
	w.t.Helper()
	req := api.ChatFolderRequest{Position: &position}
	if folder != "" {
		req.FolderID = &folder
	}
	if _, err := w.Move(context.Background(), chat, req); err != nil {
		w.t.Fatal(err)
	}
}

// want compares the folders with "name: chat chat" lines.
func (w *world) want(lines ...string) {
	w.t.Helper()
	var got []string
	for _, f := range w.List().Folders {
		got = append(got, f.Name+": "+strings.Join(f.ChatIDs, " "))
	}
	if diff := cmp.Diff(lines, got); diff != "" {
		w.t.Errorf("folders (-want +got):\n%s", diff)
	}
}

func code(err error) api.Code {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e.Code
	}
	return ""
}

func TestFoldersKeepOrderAndChatsOverARestart(t *testing.T) {
	w := newWorld(t)
	a, b, c := w.chat(), w.chat(), w.chat()
	one, two := w.folder("  One\nfolder "), w.folder("Two")
	w.move(a, one, 0)
	w.move(b, one, 0)
	w.move(c, one, 1)
	w.want("One folder: "+b+" "+c+" "+a, "Two: ")
	w.move(a, two, 9)
	w.move(b, "", 0)
	if _, err := w.Order(t.Context(), []string{two, one}); err != nil {
		t.Fatal(err)
	}
	yes := true
	if f, err := w.Update(t.Context(), one, api.FolderUpdateRequest{Collapsed: &yes}); err != nil || !f.Collapsed || f.Name != "One folder" {
		t.Errorf("%+v, %v", f, err)
	}
	w.want("Two: "+a, "One folder: "+c)
	w.reopen()
	w.want("Two: "+a, "One folder: "+c)
	three := w.folder("Three")
	w.reopen()
	w.want("Two: "+a, "One folder: "+c, "Three: ")
	if got := w.List().Folders; got[2].ID != three || !got[1].Collapsed {
		t.Errorf("folders %+v", got)
	}
}

func TestDeletionsLeaveNothingBehind(t *testing.T) {
	w := newWorld(t)
	a, b := w.chat(), w.chat()
	one, two := w.folder("One"), w.folder("Two")
	w.move(a, one, 0)
	w.move(b, two, 0)
	if err := w.registry.DeleteChat(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	w.want("One: ", "Two: "+b)
	if _, err := w.Delete(t.Context(), two); err != nil {
		t.Fatal(err)
	}
	w.want("One: ")
	if c, _ := w.registry.Chat(b); c.Folder != "" || c.Position != nil {
		t.Errorf("the chat is still in %q", c.Folder)
	}
	w.reopen()
	w.want("One: ")
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	a, one := w.chat(), w.folder("One")
	none := "none"
	name := strings.Repeat("x", maxName+1)
	for what, err := range map[string]error{
		string(api.CodeNotFound) + " update": second(w.Update(t.Context(), none, api.FolderUpdateRequest{})),
		string(api.CodeNotFound) + " delete": second(w.Delete(t.Context(), none)),
		string(api.CodeNotFound) + " move":   second(w.Move(t.Context(), a, api.ChatFolderRequest{FolderID: &none})),
		string(api.CodeChatNotFound) + " of": second(w.Move(t.Context(), "1", api.ChatFolderRequest{FolderID: &one})),
		string(api.CodeChatNotFound) + " to": second(w.Move(t.Context(), "1", api.ChatFolderRequest{})),
		string(api.CodeInvalid) + " empty":   second(w.Create(t.Context(), api.FolderRequest{Name: " \n"})),
		string(api.CodeInvalid) + " long":    second(w.Create(t.Context(), api.FolderRequest{Name: name})),
		string(api.CodeInvalid) + " rename":  second(w.Update(t.Context(), one, api.FolderUpdateRequest{Name: &name})),
		string(api.CodeInvalid) + " missing": second(w.Order(t.Context(), nil)),
		string(api.CodeInvalid) + " twice":   second(w.Order(t.Context(), []string{one, one})),
		string(api.CodeInvalid) + " unknown": second(w.Order(t.Context(), []string{none})),
	} {
		if want, _, _ := strings.Cut(what, " "); string(code(err)) != want {
			t.Errorf("%s: %v", what, err)
		}
	}
	for len(w.List().Folders) < api.MaxFolders {
		w.folder("x")
	}
	if _, err := w.Create(t.Context(), api.FolderRequest{Name: "one more"}); code(err) != api.CodeInvalid {
		t.Errorf("one folder too many: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestMovesAgreeWithASlice moves chats to the front again and again, until the
// numbers between two neighbours run out, and compares with a plain slice.
func TestMovesAgreeWithASlice(t *testing.T) {
	w := newWorld(t)
	one := w.folder("One")
	var want []string
	for range 4 {
		c := w.chat()
		w.move(c, one, len(want))
		want = append(want, c)
	}
	for i := range 200 {
		// The last goes between the first two.
		c := want[3]
		to := 1
		if i%7 == 0 {
			to = 0
		}
		w.move(c, one, to)
		want = slices.Insert(slices.Clone(want[:3]), to, c)
		if got := w.List().Folders[0].ChatIDs; !slices.Equal(got, want) {
			t.Fatalf("move %d: got %v, want %v", i, got, want)
		}
	}
}

func TestStateSaysWhenItChanges(t *testing.T) {
	w := newWorld(t)
	a := w.chat()
	update := func(f func(*registry.Chat)) {
		if _, err := w.registry.UpdateChat(t.Context(), a, func(c *registry.Chat) error { f(c); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	_, changed := w.State()
	update(func(c *registry.Chat) { c.Title = "renamed" })
	select {
	case <-changed:
		t.Error("a new title is no change of the folders")
	default:
	}
	update(func(c *registry.Chat) { c.Archived = true })
	select {
	case <-changed:
	default:
		t.Error("archiving is a change")
	}
	state, changed := w.State()
	if fmt.Sprint(state.Archived) != "["+a+"]" {
		t.Errorf("archived %v", state.Archived)
	}
	if err := w.registry.DeleteChat(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	default:
		t.Error("deleting an archived chat is a change")
	}
	if state, _ := w.State(); len(state.Archived) != 0 {
		t.Errorf("archived %v", state.Archived)
	}
}
