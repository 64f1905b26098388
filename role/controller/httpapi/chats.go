package httpapi

import (
	"context"
	"encoding/hex"
	"strconv"

	"garcon/proto/api"
	"garcon/proto/row"
	"garcon/role/controller/chat"
	"garcon/store/runtimefile"
)

// challengeBytes is the length of a proof's challenge.
const challengeBytes = 32

func (s *Server) runtime(_ context.Context, c *call) (any, error) {
	challenge, err := hex.DecodeString(c.query("challenge"))
	if err != nil || len(challenge) != challengeBytes {
		return nil, api.NewError(api.CodeInvalid, "challenge must be 32 bytes in hexadecimal", "")
	}
	d := s.Descriptor
	return api.RuntimeProof{
		Schema: d.Schema, Role: d.Role, InstanceID: d.InstanceID, URL: d.URL,
		Proof: runtimefile.Proof(d.Capability, d.Role, d.InstanceID, d.URL, challenge),
	}, nil
}

func (s *Server) context(context.Context, *call) (any, error) {
	return api.Context{
		ServerInstanceID: s.Descriptor.InstanceID, DefaultExecutorID: s.Chats.DefaultExecutor(),
		WorkspaceName: &s.Workspace, Version: s.Version,
	}, nil
}

func (s *Server) chatsList(_ context.Context, c *call) (any, error) {
	return api.ChatList{Chats: s.Chats.List(chat.Filter{
		Archived: c.query("archived") == "true", OnlyArchived: c.query("only") == "archived",
		Tag: c.query("tag"), Project: c.query("project"), Agent: c.query("agent"),
	})}, nil
}

func (s *Server) chatsStart(ctx context.Context, c *call) (any, error) {
	var req api.StartRequest
	if err := decode(c, &req); err != nil {
		return nil, err
	}
	return s.Chats.Start(ctx, req, c.by)
}

func (s *Server) chatsShow(_ context.Context, c *call) (any, error) {
	return s.Chats.Show(c.path("chat"))
}

func (s *Server) chatsUpdate(ctx context.Context, c *call) (any, error) {
	var req api.UpdateRequest
	if err := decode(c, &req); err != nil {
		return nil, err
	}
	return s.Chats.Update(ctx, c.path("chat"), req)
}

func (s *Server) chatsDelete(ctx context.Context, c *call) (any, error) {
	id := c.path("chat")
	return api.Deleted{ChatID: id}, s.Chats.Delete(ctx, id)
}

func (s *Server) chatsSubmit(ctx context.Context, c *call) (any, error) {
	var req api.SubmitRequest
	if err := decode(c, &req); err != nil {
		return nil, err
	}
	return s.Chats.Submit(ctx, c.path("chat"), req, c.by)
}

func (s *Server) chatsStop(ctx context.Context, c *call) (any, error) {
	var req api.StopRequest
	if err := decode(c, &req); err != nil {
		return nil, err
	}
	return s.Chats.Stop(ctx, c.path("chat"), req.TurnID)
}

func (s *Server) chatsCompact(ctx context.Context, c *call) (any, error) {
	var req api.CompactRequest
	if err := decode(c, &req); err != nil {
		return nil, err
	}
	return s.Chats.Compact(ctx, c.path("chat"), req)
}

func (s *Server) turnsReceipt(ctx context.Context, c *call) (any, error) {
	ctx, cancel, err := c.waiting(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	return s.Chats.Receipt(ctx, c.path("chat"), c.path("turn"))
}

func (s *Server) chatsControl(_ context.Context, c *call) (any, error) {
	return s.Chats.Control(c.path("chat"))
}

func (s *Server) chatsPage(ctx context.Context, c *call) (any, error) {
	through, err := c.number("through", -1)
	if err != nil {
		return nil, err
	}
	before, err := c.number("before", -1)
	if err != nil {
		return nil, err
	}
	most, err := c.number("max", 0)
	if err != nil {
		return nil, err
	}
	return s.Chats.Page(ctx, c.path("chat"), chat.PageQuery{
		Through: through, Before: before, Max: int(min(most, api.MaxPageMessages)), Child: c.query("child"),
		// A browser draws rows and asks for the rest of a large one; a program
		// wants them whole.
		Heads: c.by.Origin == row.OriginBrowser,
	})
}

func (s *Server) chatsBody(ctx context.Context, c *call) (any, error) {
	ordinal, err := strconv.ParseInt(c.path("ordinal"), 10, 64)
	if err != nil || ordinal < 0 {
		return nil, api.NewError(api.CodeInvalid, "the ordinal must be a whole number", "")
	}
	return s.Chats.Body(ctx, c.path("chat"), c.query("child"), ordinal)
}

func (s *Server) chatsChanges(ctx context.Context, c *call) (any, error) {
	seen := chat.Seen{NoLive: c.query("live") == "off"}
	var err error
	if seen.After, err = c.number("after", -1); err != nil {
		return nil, err
	}
	control, err := c.number("control", 0)
	if err != nil {
		return nil, err
	}
	seen.Control = uint64(control)
	if !seen.NoLive {
		live, err := c.number("live", 0)
		if err != nil {
			return nil, err
		}
		seen.Live = uint64(live)
	}
	// The document says so when the wait is over and nothing came: reading must
	// not end with it.
	wait, cancel, err := c.waiting(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	return s.Chats.Changes(ctx, wait, c.path("chat"), seen)
}
