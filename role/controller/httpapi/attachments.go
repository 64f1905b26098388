package httpapi

import (
	"context"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"

	"garcon/proto/api"
	"garcon/proto/row"
)

// maxName bounds the name of an attachment, in bytes: that of common file
// systems.
const maxName = 255

func (s *Server) attachmentsPut(ctx context.Context, c *call) (any, error) {
	mediaType, params, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil {
		return nil, api.NewError(api.CodeMediaType, "the upload must carry its media type as Content-Type", "")
	}
	name := row.Prefix(path.Base(strings.ReplaceAll(row.Text(c.query("name")), `\`, "/")), maxName)
	if name == "" || name == "." || name == "/" {
		name = "attachment"
	}
	// One byte over the limit tells a file of exactly that size from a larger.
	body := http.MaxBytesReader(c.w, c.r.Body, api.MaxAttachment+1)
	uploaded, err := s.Chats.Attach(ctx, body, name, mime.FormatMediaType(mediaType, params))
	if err != nil {
		return nil, err
	}
	return uploaded, nil
}

// attachmentsGet sends an attachment as a download: it never renders in the
// interface's origin.
func (s *Server) attachmentsGet(_ context.Context, c *call) (any, error) {
	f, size, err := s.Chats.Attachment(c.path("digest"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := c.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", "attachment")
	h.Set("Content-Length", strconv.FormatInt(size, 10))
	_, _ = io.Copy(c.w, f) // the client has gone
	return nil, nil
}
