package httpapi

import (
	"context"

	"garcon/proto/api"
)

func (s *Server) foldersList(context.Context, *call) (any, error) {
	return s.Folders.List(), nil
}

func (s *Server) foldersCreate(ctx context.Context, c *call) (any, error) {
	var req api.FolderRequest
	if err := decode(c, &req); err != nil {
		return nil, err
	}
	return s.Folders.Create(ctx, req)
}

func (s *Server) foldersUpdate(ctx context.Context, c *call) (any, error) {
	var req api.FolderUpdateRequest
	if err := decode(c, &req); err != nil {
		return nil, err
	}
	return s.Folders.Update(ctx, c.path("folder"), req)
}

func (s *Server) foldersDelete(ctx context.Context, c *call) (any, error) {
	return s.Folders.Delete(ctx, c.path("folder"))
}

func (s *Server) foldersOrder(ctx context.Context, c *call) (any, error) {
	var req api.FolderOrderRequest
	if err := decode(c, &req); err != nil {
		return nil, err
	}
	return s.Folders.Order(ctx, req.Order)
}

func (s *Server) chatsMove(ctx context.Context, c *call) (any, error) {
	var req api.ChatFolderRequest
	if err := decode(c, &req); err != nil {
		return nil, err
	}
	return s.Folders.Move(ctx, c.path("chat"), req)
}
