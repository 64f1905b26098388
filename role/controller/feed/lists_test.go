package feed

import (
	"encoding/json"
	"testing"

	"garcon/proto/api"
	"garcon/proto/exec"
)

func unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

func TestChatsListIsASnapshotAndThenChanges(t *testing.T) {
	w := newWorld(t)
	a, r := w.start("one")
	b, _ := w.ready()
	n := b.open(api.StreamChats, "")
	var item api.ChatsItem
	b.item(n, &item)
	if item.Type != api.ItemSnapshot || len(item.Chats) != 1 || item.Chats[0].ID != a.ChatID {
		t.Fatalf("begins with %+v", item)
	}
	other, r2 := w.start("two")
	next := func(ok func() bool) {
		t.Helper()
		for {
			item = api.ChatsItem{}
			b.item(n, &item)
			if item.Type == api.ItemSnapshot {
				t.Fatal("a second snapshot")
			}
			if ok() {
				return
			}
		}
	}
	next(func() bool {
		return item.Chat != nil && item.Chat.ID == other.ChatID && item.Chat.State.Phase == api.PhaseRunning
	})
	r.end()
	next(func() bool {
		return item.Chat != nil && item.Chat.ID == a.ChatID && item.Chat.State.Phase == api.PhaseIdle
	})
	yes := true
	_, err := w.Chats.Update(t.Context(), a.ChatID, api.UpdateRequest{Archived: &yes})
	must(t, err)
	next(func() bool { return item.Chat != nil && item.Chat.Archived })
	must(t, w.Chats.Delete(t.Context(), a.ChatID))
	next(func() bool { return item.Type == api.ItemRemove && item.ChatID == a.ChatID })
	r2.end()
	w.idle(other.ChatID)
	late, _ := w.ready()
	m := late.open(api.StreamChats, "")
	item = api.ChatsItem{}
	late.item(m, &item)
	if len(item.Chats) != 1 || item.Chats[0].ID != other.ChatID {
		t.Errorf("a later snapshot has %+v", item.Chats)
	}
}

func TestControlFollowShowsWhatIsNotIdle(t *testing.T) {
	w := newWorld(t)
	quiet, r := w.start("one")
	r.end()
	w.idle(quiet.ChatID)
	busy, r := w.start("two")
	b, _ := w.ready()
	n := b.open(api.StreamControl, "")
	var item api.ControlItem
	b.item(n, &item)
	if item.Type != api.ItemSnapshot || len(item.Chats) != 1 || item.Chats[0].ChatID != busy.ChatID {
		t.Fatalf("begins with %+v", item)
	}
	var revision uint64
	next := func(ok func(api.Control) bool) {
		t.Helper()
		for {
			item = api.ControlItem{}
			b.item(n, &item)
			if item.Control == nil {
				t.Fatalf("got %+v", item)
			}
			if item.Control.Revision <= revision {
				t.Fatalf("revision %d after %d", item.Control.Revision, revision)
			}
			revision = item.Control.Revision
			if ok(*item.Control) {
				return
			}
		}
	}
	r.ask("o")
	next(func(c api.Control) bool { return len(c.Pending) == 1 && c.Phase == api.PhaseWaiting })
	_, err := w.Chats.Submit(t.Context(), busy.ChatID, api.SubmitRequest{RequestID: "q", Prompt: "later"}, someone)
	must(t, err)
	next(func(c api.Control) bool { return len(c.Queue.Entries) == 1 })
	r.publish(exec.Event{Jobs: &exec.Jobs{Jobs: []exec.Job{{ID: "j", Title: "server"}}}})
	next(func(c api.Control) bool { return len(c.Jobs) == 1 })
	must(t, w.Chats.Delete(t.Context(), busy.ChatID))
	for item.Type != api.ItemRemove {
		item = api.ControlItem{}
		b.item(n, &item)
	}
	if item.ChatID != busy.ChatID {
		t.Errorf("removed %s", item.ChatID)
	}
}

func TestFoldersFollowHasTheOrder(t *testing.T) {
	w := newWorld(t)
	one, err := w.Folders.Create(t.Context(), api.FolderRequest{Name: "One"})
	must(t, err)
	b, _ := w.ready()
	n := b.open(api.StreamFolders, "")
	next := func(kind string) api.FoldersItem {
		t.Helper()
		var item api.FoldersItem
		b.item(n, &item)
		if item.Type != kind {
			t.Fatalf("got %+v, want %s", item, kind)
		}
		return item
	}
	if item := next(api.ItemSnapshot); len(item.Folders) != 1 || len(item.Order) != 1 || item.Order[0] != one.ID {
		t.Errorf("snapshot %+v", item)
	}
	two, err := w.Folders.Create(t.Context(), api.FolderRequest{Name: "Two"})
	must(t, err)
	if item := next(api.ItemUpsert); item.Folder.ID != two.ID {
		t.Errorf("upsert %+v", item)
	}
	if item := next(api.ItemOrder); len(item.Order) != 2 {
		t.Errorf("order %+v", item)
	}
	_, err = w.Folders.Order(t.Context(), []string{two.ID, one.ID})
	must(t, err)
	if item := next(api.ItemOrder); item.Order[0] != two.ID {
		t.Errorf("order %+v", item)
	}
	a, r := w.start("chat")
	r.end()
	w.idle(a.ChatID)
	_, err = w.Folders.Move(t.Context(), a.ChatID, api.ChatFolderRequest{FolderID: &one.ID})
	must(t, err)
	if item := next(api.ItemUpsert); item.Folder.ID != one.ID || len(item.Folder.ChatIDs) != 1 {
		t.Errorf("upsert %+v", item)
	}
	yes := true
	_, err = w.Chats.Update(t.Context(), a.ChatID, api.UpdateRequest{Archived: &yes})
	must(t, err)
	if item := next(api.ItemArchived); len(item.Archived) != 1 {
		t.Errorf("archived %+v", item)
	}
	_, err = w.Folders.Delete(t.Context(), one.ID)
	must(t, err)
	for {
		var item api.FoldersItem
		b.item(n, &item)
		if item.Type == api.ItemOrder {
			if len(item.Order) != 1 || item.Order[0] != two.ID {
				t.Errorf("order %+v", item)
			}
			return
		}
	}
}

func TestExecutorsFollowShowsTheirAbsence(t *testing.T) {
	w := newWorld(t)
	b, _ := w.ready()
	n := b.open(api.StreamExecutors, "")
	var item api.ExecutorsItem
	b.item(n, &item)
	if len(item.Executors) != 1 || item.Executors[0].Availability != "ready" || item.Executors[0].Hostname != "box" {
		t.Errorf("snapshot %+v", item)
	}
	w.agent.leave()
	item = api.ExecutorsItem{}
	b.item(n, &item)
	if item.Type != api.ItemUpsert || item.Executor.Availability != "offline" || item.Executor.LastError == "" {
		t.Errorf("got %+v", item)
	}
}

func TestChatFollowGoesThroughTheSocket(t *testing.T) {
	w := newWorld(t)
	a, r := w.start("hello")
	b, _ := w.ready()
	n := b.open(api.StreamChat, `{"chatId":"`+a.ChatID+`","maxMessages":5}`)
	var item api.FollowItem
	b.item(n, &item)
	if item.Type != api.ItemSnapshot || item.View == "" || item.Header == nil || item.Header.ID != a.ChatID {
		t.Fatalf("begins with %+v", item)
	}
	r.live("p", 0, "par")
	for item.Type != api.ItemLive {
		item = api.FollowItem{}
		b.item(n, &item)
	}
	if item.Live[0].Text != "par" {
		t.Errorf("live %+v", item.Live)
	}
	r.end()
	must(t, w.Chats.Delete(t.Context(), a.ChatID))
	if e := b.finished(n); e == nil || e.Code != api.CodeChatNotFound {
		t.Errorf("ended with %v", e)
	}
}
