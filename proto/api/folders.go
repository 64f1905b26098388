package api

// The operations of folders. A chat is in one folder or in none.
const (
	// OpFoldersList is GET /folders.
	OpFoldersList OperationID = "folders.list"
	// OpFoldersCreate is POST /folders; it answers with a [Folder], which is
	// the last in the order.
	OpFoldersCreate OperationID = "folders.create"
	// OpFoldersUpdate is PATCH /folders/{folder}; it answers with a [Folder].
	OpFoldersUpdate OperationID = "folders.update"
	// OpFoldersDelete is DELETE /folders/{folder}; its chats stay, in no
	// folder. It answers with a [FolderList].
	OpFoldersDelete OperationID = "folders.delete"
	// OpFoldersOrder is PUT /folders/order; it answers with a [FolderList].
	OpFoldersOrder OperationID = "folders.order"
	// OpChatsMove is PUT /chats/{chat}/folder; it answers with a [FolderList].
	OpChatsMove OperationID = "chats.move"
)

// MaxFolders bounds the folders of a workspace: what a sidebar can still show.
const MaxFolders = 256

// FolderList answers [OpFoldersList] and those that change several folders.
type FolderList struct {
	// Folders are in their order.
	Folders []Folder `json:"folders"`
	// Archived are the ids of the archived chats.
	Archived []string `json:"archived"`
}

// FolderRequest makes a folder.
type FolderRequest struct {
	Name string `json:"name"`
}

// FolderUpdateRequest changes a folder. Absent members stay as they are.
type FolderUpdateRequest struct {
	Name      *string `json:"name,omitempty"`
	Collapsed *bool   `json:"collapsed,omitempty"`
}

// FolderOrderRequest orders the folders. Order holds the id of each once.
type FolderOrderRequest struct {
	Order []string `json:"order"`
}

// ChatFolderRequest moves a chat.
type ChatFolderRequest struct {
	// FolderID is null for no folder.
	FolderID *string `json:"folderId"`
	// Position is the index in the folder, counted without the chat itself;
	// absent or too large means its end.
	Position *int `json:"position,omitempty"`
}

// ItemArchived is the type of a folders item that carries the whole set of
// archived chats.
const ItemArchived = "archived"
