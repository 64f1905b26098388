package httpapi

import (
	"context"
	"net/http"

	"garcon/proto/api"
	"garcon/role/controller/auth"
)

func (s *Server) session(_ context.Context, c *call) (any, error) {
	by, err := s.Guard.Authenticate(c.r)
	if err == nil && by.Renewed != nil {
		http.SetCookie(c.w, by.Renewed)
	}
	return s.sessionOf(err == nil, by.Session), nil
}

func (s *Server) sessionOf(signedIn bool, id string) api.Session {
	return api.Session{
		SignedIn: signedIn, PasswordSet: s.Guard.Sessions.PasswordSet(), NoAuth: s.Guard.NoAuth, SessionID: id,
	}
}

func (s *Server) login(ctx context.Context, c *call) (any, error) {
	var req api.LoginRequest
	if err := decode(c, &req); err != nil {
		return nil, err
	}
	cookie, id, err := s.Guard.Login(ctx, c.r, req)
	if err != nil {
		return nil, err
	}
	http.SetCookie(c.w, cookie)
	return s.sessionOf(true, id), nil
}

func (s *Server) logout(ctx context.Context, c *call) (any, error) {
	cookie, err := s.Guard.Logout(ctx, c.r)
	if err != nil {
		return nil, err
	}
	http.SetCookie(c.w, cookie)
	return s.sessionOf(s.Guard.NoAuth, ""), nil
}

// loginLink serves programs alone: a session must not be able to make another
// that outlives its revocation.
func (s *Server) loginLink(_ context.Context, c *call) (any, error) {
	if c.identity.Kind != auth.Program {
		return nil, api.NewError(api.CodeForbidden, "a browser cannot make a link to sign in", "Run `garcon login` on the controller's machine.")
	}
	return s.Guard.Sessions.Link(s.Home), nil
}

func (s *Server) sessionsList(_ context.Context, c *call) (any, error) {
	return api.BrowserSessionList{Sessions: s.Guard.Sessions.List(c.identity.Session)}, nil
}

func (s *Server) sessionsRevoke(ctx context.Context, c *call) (any, error) {
	if err := s.Guard.Sessions.Revoke(ctx, c.path("session")); err != nil {
		return nil, err
	}
	return api.BrowserSessionList{Sessions: s.Guard.Sessions.List(c.identity.Session)}, nil
}

func (s *Server) password(ctx context.Context, c *call) (any, error) {
	var req api.PasswordRequest
	if err := decode(c, &req); err != nil {
		return nil, err
	}
	if err := s.Guard.SetPassword(ctx, c.r, c.identity, req); err != nil {
		return nil, err
	}
	return s.sessionOf(true, c.identity.Session), nil
}

func (s *Server) eventsAnswer(ctx context.Context, c *call) (any, error) {
	var req api.EventAnswerRequest
	if err := decode(c, &req); err != nil {
		return nil, err
	}
	return s.Answers.Answer(ctx, c.path("event"), req, c.by)
}
