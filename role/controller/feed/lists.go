package feed

import (
	"context"
	"encoding/json"
	"hash/maphash"
	"reflect"
	"slices"
	"time"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/role/controller/chat"
)

// chatList is the source of [api.StreamChats].
func (f *Feed) chatList(ctx context.Context, st *stream, args json.RawMessage) error {
	if err := decodeArgs(args, &struct{}{}); err != nil {
		return err
	}
	sub := f.Chats.Subscribe()
	defer sub.Close()
	all := f.Chats.List(chat.Filter{Archived: true})
	// sent are hashes of the rows the client has: a chat changes more often than
	// its row.
	sent, seed := map[string]uint64{}, maphash.MakeSeed()
	for i := range all {
		row, err := encode(&all[i])
		if err != nil {
			return err
		}
		sent[all[i].ID] = maphash.Bytes(seed, row)
	}
	if err := st.sendItem(ctx, api.ChatsItem{Type: api.ItemSnapshot, Chats: all}); err != nil {
		return err
	}
	all = nil
	for {
		if err := wait(ctx, sub.Wake()); err != nil {
			return err
		}
		for _, id := range sub.Take().Chats {
			item := api.ChatsItem{Type: api.ItemUpsert}
			c, err := f.Chats.Show(id)
			if err != nil {
				if _, known := sent[id]; !known {
					continue
				}
				delete(sent, id)
				item = api.ChatsItem{Type: api.ItemRemove, ChatID: id}
			} else {
				row, err := encode(&c)
				if err != nil {
					return err
				}
				hash := maphash.Bytes(seed, row)
				if before, known := sent[id]; known && before == hash {
					continue
				}
				sent[id], item.Chat = hash, &c
			}
			if err := st.sendItem(ctx, item); err != nil {
				return err
			}
		}
	}
}

// control is the source of [api.StreamControl].
func (f *Feed) control(ctx context.Context, st *stream, args json.RawMessage) error {
	if err := decodeArgs(args, &struct{}{}); err != nil {
		return err
	}
	sub := f.Chats.Subscribe()
	defer sub.Close()
	all := f.Chats.Controls()
	sent := map[string]uint64{} // revisions
	for _, c := range all {
		sent[c.ChatID] = c.Revision
	}
	if err := st.sendItem(ctx, api.ControlItem{Type: api.ItemSnapshot, Chats: all}); err != nil {
		return err
	}
	for {
		if err := wait(ctx, sub.Wake()); err != nil {
			return err
		}
		for _, id := range sub.Take().Chats {
			item := api.ControlItem{Type: api.ItemUpsert}
			c, known := f.Chats.Peek(id)
			before, had := sent[id]
			switch {
			case known == chat.Gone && had:
				delete(sent, id)
				item = api.ControlItem{Type: api.ItemRemove, ChatID: id}
			case known == chat.Touched && (!had || before != c.Revision):
				sent[id], item.Control = c.Revision, &c
			default:
				continue
			}
			if err := st.sendItem(ctx, item); err != nil {
				return err
			}
		}
	}
}

// folders is the source of [api.StreamFolders].
func (f *Feed) folders(ctx context.Context, st *stream, args json.RawMessage) error {
	if err := decodeArgs(args, &struct{}{}); err != nil {
		return err
	}
	sent, changed := f.Folders.State()
	if err := st.sendItem(ctx, api.FoldersItem{
		Type: api.ItemSnapshot, Folders: sent.Folders, Order: sent.Order(), Archived: sent.Archived,
	}); err != nil {
		return err
	}
	for {
		if err := wait(ctx, changed); err != nil {
			return err
		}
		now, next := f.Folders.State()
		changed = next
		var items []api.FoldersItem
		for _, folder := range now.Folders {
			i := slices.IndexFunc(sent.Folders, func(old api.Folder) bool { return old.ID == folder.ID })
			if i < 0 || !reflect.DeepEqual(sent.Folders[i], folder) {
				items = append(items, api.FoldersItem{Type: api.ItemUpsert, Folder: &folder})
			}
		}
		order := now.Order()
		for _, old := range sent.Folders {
			if !slices.Contains(order, old.ID) {
				items = append(items, api.FoldersItem{Type: api.ItemRemove, ID: old.ID})
			}
		}
		if !slices.Equal(order, sent.Order()) {
			items = append(items, api.FoldersItem{Type: api.ItemOrder, Order: order})
		}
		if !slices.Equal(now.Archived, sent.Archived) {
			items = append(items, api.FoldersItem{Type: api.ItemArchived, Archived: now.Archived})
		}
		sent = now
		for _, item := range items {
			if err := st.sendItem(ctx, item); err != nil {
				return err
			}
		}
	}
}

// infoTimeout bounds how long an executor may take to describe itself; one that
// is away is shown without.
const infoTimeout = 2 * time.Second

// executors is the source of [api.StreamExecutors].
func (f *Feed) executors(ctx context.Context, st *stream, args json.RawMessage) error {
	if err := decodeArgs(args, &struct{}{}); err != nil {
		return err
	}
	wake := make(chan struct{}, 1)
	for _, rt := range f.Executors {
		stop := rt.Watch(func(exec.Availability) {
			select {
			case wake <- struct{}{}:
			default:
			}
		})
		defer stop()
	}
	look := func() []api.Executor {
		out := make([]api.Executor, len(f.Executors))
		for i, rt := range f.Executors {
			out[i] = describe(ctx, rt)
		}
		return out
	}
	sent := look()
	if err := st.sendItem(ctx, api.ExecutorsItem{Type: api.ItemSnapshot, Executors: sent}); err != nil {
		return err
	}
	for {
		if err := wait(ctx, wake); err != nil {
			return err
		}
		now := look()
		for i := range now {
			if now[i] == sent[i] {
				continue
			}
			if err := st.sendItem(ctx, api.ExecutorsItem{Type: api.ItemUpsert, Executor: &now[i]}); err != nil {
				return err
			}
		}
		sent = now
	}
}

func describe(ctx context.Context, rt exec.Runtime) api.Executor {
	ctx, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	out := api.Executor{ID: rt.ID(), Label: rt.ID(), Availability: string(rt.Availability())}
	info, err := rt.Info(ctx)
	if err != nil {
		out.LastError = err.Error()
		return out
	}
	out.Version, out.Hostname, out.ProjectBase = info.Version, info.Hostname, info.ProjectBase
	return out
}

// chat is the source of [api.StreamChat].
func (f *Feed) chat(ctx context.Context, st *stream, args json.RawMessage) error {
	var a api.FollowArgs
	if err := decodeArgs(args, &a); err != nil {
		return err
	}
	follow, err := f.Chats.Follow(ctx, a.ChatID, chat.FollowQuery{Child: a.Child, MaxMessages: a.MaxMessages})
	if err != nil {
		return err
	}
	defer follow.Close()
	for {
		item, err := follow.Next(ctx)
		if err != nil {
			return err
		}
		value, err := encodeFollow(item)
		if err != nil {
			return err
		}
		if err := st.send(ctx, value); err != nil {
			return err
		}
	}
}

// wait waits for a wake-up or the end.
func wait(ctx context.Context, wake <-chan struct{}) error {
	select {
	case <-wake:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
