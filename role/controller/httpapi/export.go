package httpapi

import (
	"context"
	"net/http"

	"garcon/proto/api"
)

// chatsExport streams a transcript. A failure after the first byte cuts the
// connection, so that half an export never looks whole.
func (s *Server) chatsExport(ctx context.Context, c *call) (any, error) {
	id := c.path("chat")
	if _, err := s.Chats.Show(id); err != nil {
		return nil, err
	}
	export, mediaType := s.Chats.ExportMarkdown, "text/markdown; charset=utf-8"
	switch c.query("format") {
	case "", "markdown":
	case "json":
		export, mediaType = s.Chats.ExportJSON, "application/json"
	default:
		return nil, api.NewError(api.CodeInvalid, "format must be markdown or json", "")
	}
	c.w.Header().Set("Content-Type", mediaType)
	c.w.Header().Set("Content-Disposition", "attachment")
	if err := export(ctx, id, c.w); err != nil {
		s.Log.Warn("export broken off", "chat", id, "err", err)
		panic(http.ErrAbortHandler)
	}
	return nil, nil
}
