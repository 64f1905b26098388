package claude

import (
	"encoding/json"
	"slices"

	"garcon/proto/row"
)

// maxTodos bounds the items that are followed, far above what a list for
// people has.
const maxTodos = 500

// todoList follows the agent's todo list. TodoWrite brings the whole list, the
// tools that replaced it bring one change each, which only the list so far makes
// a list.
type todoList struct {
	items []todoItem
}

type todoItem struct {
	// id is the agent's, empty until the call that made the item has ended.
	id     string
	callID string
	row.Todo
}

type todoArgs struct {
	Todos []struct {
		Content string `json:"content"`
		Status  string `json:"status"`
	} `json:"todos"`
	Subject string `json:"subject"`
	TaskID  string `json:"taskId"`
	Status  string `json:"status"`
}

// apply returns the whole list as it is after the call.
func (l *todoList) apply(callID, name string, input json.RawMessage) []row.Todo {
	var a todoArgs
	// What could not be read leaves the list as it is; the row shows the input.
	_ = decode(input, &a)
	switch name {
	case "TodoWrite":
		l.items = l.items[:0]
		for _, t := range a.Todos {
			l.add(todoItem{Todo: row.Todo{Text: t.Content, Status: todoStatus(t.Status)}})
		}
	case "TaskCreate":
		l.add(todoItem{callID: callID, Todo: row.Todo{Text: a.Subject, Status: todoStatus("")}})
	case "TaskUpdate":
		l.update(a)
	}
	return l.list()
}

func (l *todoList) add(item todoItem) {
	if len(l.items) < maxTodos {
		l.items = append(l.items, item)
	}
}

func (l *todoList) update(a todoArgs) {
	i := slices.IndexFunc(l.items, func(t todoItem) bool { return t.id != "" && t.id == a.TaskID })
	if i < 0 {
		// Made before this process watched.
		l.add(todoItem{id: a.TaskID, Todo: row.Todo{Text: first(a.Subject, "#"+a.TaskID), Status: todoStatus(a.Status)}})
		return
	}
	if a.Status == "deleted" {
		l.items = slices.Delete(l.items, i, i+1)
		return
	}
	if a.Status != "" {
		l.items[i].Status = todoStatus(a.Status)
	}
	if a.Subject != "" {
		l.items[i].Text = a.Subject
	}
}

// created gives the item of a TaskCreate call the id that its result brought.
// A call that failed takes its item back.
func (l *todoList) created(callID, id string, failed bool) {
	i := slices.IndexFunc(l.items, func(t todoItem) bool { return t.callID == callID && t.id == "" })
	switch {
	case i < 0:
	case failed:
		l.items = slices.Delete(l.items, i, i+1)
	default:
		l.items[i].id = id
	}
}

func (l *todoList) list() []row.Todo {
	out := make([]row.Todo, len(l.items))
	for i, t := range l.items {
		out[i] = t.Todo
	}
	return out
}

func todoStatus(native string) string {
	switch native {
	case "in_progress":
		return "in-progress"
	case "completed", "cancelled":
		return native
	}
	return "pending"
}
