package catalog

import (
	"errors"
	"strings"
	"testing"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// A list that the server refuses does not take the others away, and keeps the
// entries that it had.
func TestRefusedList(t *testing.T) {
	c := with(t, Server{Name: "a"})
	h, _ := c.Handle("a")
	f := tools("x")
	f.pages["resources/list"] = []string{`{"resources":[{"uri":"r:1","name":"n"}]}`}
	feed(t, c, "a", f)

	again := tools("x", "y")
	pages := again.pages["tools/list"]
	again.odd = func(req session.Request) (session.Reply, error) {
		switch req.Method {
		case "tools/list":
			return session.Reply{Result: []byte(pages[0])}, nil
		case "resources/list":
			return session.Reply{Error: jsonrpc.Errorf(jsonrpc.CodeInternalError, "no database")}, nil
		}
		return session.Reply{Error: jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "Method not found")}, nil
	}
	err := h.List(t.Context(), again, supervisor.AllLists)
	partial, ok := errors.AsType[*supervisor.PartialError](err)
	if !ok || partial.Lists != supervisor.Resources || !strings.Contains(partial.Error(), "no database") {
		t.Fatalf("List returned %v", err)
	}
	e, _ := c.Endpoint("a")
	if v := e.View(); v.Len(Tools) != 2 || v.Len(Resources) != 1 {
		t.Errorf("%d tools and %d resources are listed", v.Len(Tools), v.Len(Resources))
	}
	if notes := c.Status()[0].Notes; len(notes) != 1 || !strings.Contains(notes[0], "no database") {
		t.Errorf("notes: %q", notes)
	}

	// A server that refuses all it is asked for has not been listed.
	again.odd = func(session.Request) (session.Reply, error) {
		return session.Reply{Error: jsonrpc.Errorf(jsonrpc.CodeInternalError, "broken")}, nil
	}
	if err := h.List(t.Context(), again, supervisor.AllLists); err == nil {
		t.Error("all lists were refused, and List says that all is well")
	} else if _, ok := errors.AsType[*supervisor.PartialError](err); ok {
		t.Error("all lists were refused, and List says that some were published")
	}
}
