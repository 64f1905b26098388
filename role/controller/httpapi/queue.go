package httpapi

import (
	"context"

	"garcon/proto/api"
	"garcon/role/controller/permission"
)

func (s *Server) queueUpdate(ctx context.Context, c *call) (any, error) {
	var req api.QueueUpdateRequest
	if err := decode(c, &req); err != nil {
		return nil, err
	}
	return s.controlAfter(c, s.Chats.UpdateEntry(ctx, c.path("chat"), c.path("entry"), req))
}

func (s *Server) queueRemove(ctx context.Context, c *call) (any, error) {
	return s.controlAfter(c, s.Chats.RemoveEntry(ctx, c.path("chat"), c.path("entry")))
}

func (s *Server) queueOrder(ctx context.Context, c *call) (any, error) {
	var req api.QueueOrderRequest
	if err := decode(c, &req); err != nil {
		return nil, err
	}
	return s.controlAfter(c, s.Chats.OrderQueue(ctx, c.path("chat"), req.EntryIDs))
}

func (s *Server) queuePause(ctx context.Context, c *call) (any, error) {
	return s.controlAfter(c, s.Chats.PauseQueue(ctx, c.path("chat")))
}

func (s *Server) queueResume(ctx context.Context, c *call) (any, error) {
	return s.controlAfter(c, s.Chats.ResumeQueue(ctx, c.path("chat")))
}

// controlAfter answers a change of the queue with the chat's state after it.
func (s *Server) controlAfter(c *call, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return s.Chats.Control(c.path("chat"))
}

func (s *Server) queueSend(ctx context.Context, c *call) (any, error) {
	var req api.QueueSendRequest
	if err := decode(c, &req); err != nil {
		return nil, err
	}
	if req.How != api.BusySteer && req.How != api.BusyInterrupt {
		return nil, api.NewError(api.CodeInvalid, "how must be steer or interrupt", "")
	}
	return s.Chats.SendEntry(ctx, c.path("chat"), c.path("entry"), req.How)
}

func (s *Server) decide(ctx context.Context, c *call) (any, error) {
	var req api.DecideRequest
	if err := decode(c, &req); err != nil {
		return nil, err
	}
	if (req.OptionID == "") == (req.Decision == "") {
		return nil, api.NewError(api.CodeInvalid, "give either optionId or decision", "")
	}
	return s.Chats.Decide(ctx, c.fence(req.RunID, req.ControlID), req, c.by)
}

func (s *Server) answer(ctx context.Context, c *call) (any, error) {
	var req api.AnswerRequest
	if err := decode(c, &req); err != nil {
		return nil, err
	}
	return s.Chats.Answer(ctx, c.fence(req.RunID, req.ControlID), req, c.by)
}

func (c *call) fence(run, control string) permission.Fence {
	return permission.Fence{Chat: c.path("chat"), Occurrence: c.path("occurrence"), RunID: run, ControlID: control}
}
