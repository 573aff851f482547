package main

import (
	"context"

	"github.com/hermes-host/hermes-host/internal/httpconn"
	"github.com/hermes-host/hermes-host/internal/sseconn"
	"github.com/hermes-host/hermes-host/shared"
)

// dial opens the stream and waits for the endpoint.
func dial(ctx context.Context, s shared.Session, c config) (shared.Conn, error) {
	client, err := httpconn.New(c.settings())
	if err != nil {
		return nil, err
	}
	conn, err := sseconn.Open(ctx, client, sseconn.Settings{Limit: s.MaxMessageBytes, Log: s.Logger})
	if err != nil {
		return nil, err // and not a *Conn that is nil
	}
	return conn, nil
}
