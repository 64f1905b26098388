package api

import (
	"net/http"
	"time"
)

// Headers of requests.
const (
	// HeaderInstance carries the server instance a request is meant for.
	HeaderInstance = "X-Garcon-Server-Instance"
	// HeaderOrigin says who authored a submission: "cli" or "browser".
	HeaderOrigin = "X-Garcon-Client"
)

// Base is the path every operation begins with.
const Base = "/api/v1"

// Bounds of the interface.
const (
	// MaxPrompt bounds the text of one message, in bytes: well over what a
	// person pastes and what a context window holds.
	MaxPrompt = 4 << 20
	// MaxRequest bounds a JSON request: a prompt of MaxPrompt in which every
	// second byte is escaped, and room for the rest.
	MaxRequest = 2*MaxPrompt + 1<<20
	// MaxAttachment bounds one uploaded file, in bytes.
	MaxAttachment = 32 << 20
	// MaxWait bounds a long poll: shorter than the idle timeout of common
	// proxies.
	MaxWait = 25 * time.Second
	// MaxTitle bounds a title, in bytes.
	MaxTitle = 4 << 10
	// MaxTags and MaxTag bound the tags of a chat: their number, and each one's
	// length in bytes.
	MaxTags = 64
	MaxTag  = 256
	// MaxQueue bounds the entries of one chat's queue.
	MaxQueue = 256
	// MaxPageMessages bounds one page of a transcript.
	MaxPageMessages = 500
)

// OperationID names an operation.
type OperationID string

// The operations.
const (
	OpRuntime         OperationID = "runtime"
	OpContext         OperationID = "cli.context"
	OpChatsList       OperationID = "chats.list"
	OpChatsStart      OperationID = "chats.start"
	OpChatsShow       OperationID = "chats.show"
	OpChatsUpdate     OperationID = "chats.update"
	OpChatsDelete     OperationID = "chats.delete"
	OpChatsSubmit     OperationID = "chats.submit"
	OpChatsStop       OperationID = "chats.stop"
	OpChatsCompact    OperationID = "chats.compact"
	OpTurnsReceipt    OperationID = "turns.receipt"
	OpChatsControl    OperationID = "chats.control"
	OpChatsPage       OperationID = "chats.page"
	OpChatsBody       OperationID = "chats.body"
	OpChatsChanges    OperationID = "chats.changes"
	OpChatsExport     OperationID = "chats.export"
	OpQueueUpdate     OperationID = "queue.update"
	OpQueueRemove     OperationID = "queue.remove"
	OpQueueOrder      OperationID = "queue.order"
	OpQueuePause      OperationID = "queue.pause"
	OpQueueResume     OperationID = "queue.resume"
	OpQueueSend       OperationID = "queue.send"
	OpDecide          OperationID = "permissions.decide"
	OpAnswer          OperationID = "questions.answer"
	OpAttachmentsPut  OperationID = "attachments.put"
	OpAttachmentsGet  OperationID = "attachments.get"
	OpAgentsList      OperationID = "agents.list"
	OpModelsList      OperationID = "models.list"
	OpCommandsList    OperationID = "commands.list"
	OpProvidersList   OperationID = "providers.list"
	OpProvidersAdd    OperationID = "providers.add"
	OpProvidersUpdate OperationID = "providers.update"
	OpProvidersRemove OperationID = "providers.remove"
	OpProvidersTest   OperationID = "providers.test"
	OpSettingsShow    OperationID = "settings.show"
	OpSettingsUpdate  OperationID = "settings.update"
	OpDoctor          OperationID = "doctor"
)

// Operation describes one operation. The table is the single source of routes:
// the server registers a handler for each, the CLI builds its requests from
// it.
type Operation struct {
	ID     OperationID
	Method string
	// Path is relative to [Base], with wildcards in braces.
	Path string
	// Timeout bounds the handler; zero means that it ends by itself, as an
	// upload or an export of any length does.
	Timeout time.Duration
	// Public operations need no credential.
	Public bool
}

// Mutates reports whether the operation can change anything.
func (o Operation) Mutates() bool { return o.Method != http.MethodGet }

const (
	// quick bounds operations that only touch the controller.
	quick = 30 * time.Second
	// agent bounds operations that ask an agent program something: starting
	// several at once on a small machine takes over 15 s.
	agent = 90 * time.Second
)

// Operations is the table of all operations. It is not to be changed.
var Operations = []Operation{
	{OpRuntime, http.MethodGet, "/runtime", quick, true},
	{OpContext, http.MethodGet, "/cli/context", quick, false},
	{OpChatsList, http.MethodGet, "/chats", quick, false},
	{OpChatsStart, http.MethodPost, "/chats", agent, false},
	{OpChatsShow, http.MethodGet, "/chats/{chat}", quick, false},
	{OpChatsUpdate, http.MethodPatch, "/chats/{chat}", quick, false},
	{OpChatsDelete, http.MethodDelete, "/chats/{chat}", quick, false},
	{OpChatsSubmit, http.MethodPost, "/chats/{chat}/turns", agent, false},
	{OpChatsStop, http.MethodPost, "/chats/{chat}/stop", quick, false},
	{OpChatsCompact, http.MethodPost, "/chats/{chat}/compact", agent, false},
	{OpTurnsReceipt, http.MethodGet, "/chats/{chat}/turns/{turn}", quick + MaxWait, false},
	{OpChatsControl, http.MethodGet, "/chats/{chat}/control", quick, false},
	{OpChatsPage, http.MethodGet, "/chats/{chat}/rows", quick, false},
	{OpChatsBody, http.MethodGet, "/chats/{chat}/rows/{ordinal}/body", quick, false},
	{OpChatsChanges, http.MethodGet, "/chats/{chat}/changes", quick + MaxWait, false},
	{OpChatsExport, http.MethodGet, "/chats/{chat}/export", 0, false},
	{OpQueueUpdate, http.MethodPatch, "/chats/{chat}/queue/{entry}", quick, false},
	{OpQueueRemove, http.MethodDelete, "/chats/{chat}/queue/{entry}", quick, false},
	{OpQueueOrder, http.MethodPut, "/chats/{chat}/queue", quick, false},
	{OpQueuePause, http.MethodPost, "/chats/{chat}/queue/pause", quick, false},
	{OpQueueResume, http.MethodPost, "/chats/{chat}/queue/resume", quick, false},
	{OpQueueSend, http.MethodPost, "/chats/{chat}/queue/{entry}/send", quick, false},
	{OpDecide, http.MethodPost, "/chats/{chat}/permissions/{occurrence}", quick, false},
	{OpAnswer, http.MethodPost, "/chats/{chat}/questions/{occurrence}", quick, false},
	{OpAttachmentsPut, http.MethodPost, "/attachments", 0, false},
	{OpAttachmentsGet, http.MethodGet, "/attachments/{digest}", 0, false},
	{OpAgentsList, http.MethodGet, "/agents", agent, false},
	{OpModelsList, http.MethodGet, "/agents/{agent}/models", agent, false},
	{OpCommandsList, http.MethodGet, "/agents/{agent}/commands", agent, false},
	{OpProvidersList, http.MethodGet, "/providers", quick, false},
	{OpProvidersAdd, http.MethodPost, "/providers", quick, false},
	{OpProvidersUpdate, http.MethodPatch, "/providers/{provider}", quick, false},
	{OpProvidersRemove, http.MethodDelete, "/providers/{provider}", quick, false},
	{OpProvidersTest, http.MethodPost, "/providers/{provider}/test", agent, false},
	{OpSettingsShow, http.MethodGet, "/settings", quick, false},
	{OpSettingsUpdate, http.MethodPatch, "/settings", quick, false},
	{OpDoctor, http.MethodGet, "/doctor", agent, false},
	{OpSession, http.MethodGet, "/session", quick, true},
	{OpLogin, http.MethodPost, "/login", quick, true},
	{OpLogout, http.MethodPost, "/logout", quick, true},
	{OpLoginLink, http.MethodPost, "/login/links", quick, false},
	{OpSessionsList, http.MethodGet, "/sessions", quick, false},
	{OpSessionsRevoke, http.MethodDelete, "/sessions/{session}", quick, false},
	{OpPassword, http.MethodPut, "/password", quick, false},
	{OpEventsAnswer, http.MethodPost, "/events/{event}/answer", quick, false},
	{OpFoldersList, http.MethodGet, "/folders", quick, false},
	{OpFoldersCreate, http.MethodPost, "/folders", quick, false},
	{OpFoldersUpdate, http.MethodPatch, "/folders/{folder}", quick, false},
	{OpFoldersDelete, http.MethodDelete, "/folders/{folder}", quick, false},
	{OpFoldersOrder, http.MethodPut, "/folders/order", quick, false},
	{OpChatsMove, http.MethodPut, "/chats/{chat}/folder", quick, false},
}

// Lookup returns the operation with the id; it panics for an unknown one,
// which is a mistake in the program.
func Lookup(id OperationID) Operation {
	for _, o := range Operations {
		if o.ID == id {
			return o
		}
	}
	panic("api: unknown operation " + string(id))
}
