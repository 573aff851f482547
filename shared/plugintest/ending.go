package plugintest

// How sessions and plugins end.

import (
	"testing"
	"time"

	"github.com/hermes-host/hermes-host/shared/transportpb"
)

func closing(t *testing.T, s Suite) {
	p, session := s.open(t)
	session.Tool("echo", `{"value":1}`)
	session.CloseSession()
	end := session.AwaitEnd()
	if end.GetClass() != transportpb.SessionEnd_CLASS_CLOSED || end.GetMessage() == "" {
		t.Errorf("got %v", end)
	}
	// The process is good for another one.
	s.session(t, p, &transportpb.OpenSession{}).Tool("echo", `{"value":1}`)
}

func breaking(t *testing.T, s Suite) {
	p, session := s.open(t)
	session.GoTool("sleep", `{"ms":60000}`)
	session.Break()
	session.AwaitEnd()
	if r := s.session(t, p, &transportpb.OpenSession{}).Tool("echo", `{"value":1}`); r.GetResult() == nil {
		t.Errorf("got %v", r)
	}
}

// crash checks that the death of the server ends the session at once, with a
// reason, and that the calls under way are not answered.
func crash(t *testing.T, s Suite) {
	p, session := s.open(t)
	_, slow := session.GoTool("sleep", `{"ms":60000}`)
	began := time.Now()
	_, crashed := session.GoTool("crash", `{}`)
	select {
	case r := <-crashed:
		if r.GetTransportError() == nil {
			t.Fatalf("the server was to die, and has answered: %v", r)
		}
	case <-session.Ended():
	case <-time.After(patience):
		t.Fatal("the server was to die, and its session lives; what Peer.Crash does must end it (or set Suite.NoCrash)")
	}
	end := session.AwaitEnd()
	if end.GetMessage() == "" || !end.GetRetryable() {
		t.Errorf("got %v", end)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the end took %v", took)
	}
	select {
	case r := <-slow:
		if r.GetTransportError() == nil {
			t.Errorf("got %v", r)
		}
	default:
	}
	if r := s.session(t, p, &transportpb.OpenSession{}).Tool("echo", `{"value":1}`); r.GetResult() == nil {
		t.Errorf("got %v", r)
	}
}

func unreachable(t *testing.T, s Suite) {
	p := s.start(t)
	session := p.Open(t, &transportpb.OpenSession{Config: []byte(s.Unreachable)})
	if session.Init != nil {
		t.Fatal("a session with nobody")
	}
	end := session.AwaitEnd()
	if end.GetMessage() == "" || end.GetClass() == transportpb.SessionEnd_CLASS_CLOSED {
		t.Errorf("got %v", end)
	}
}

// firstFrame checks that a stream that does not begin with OpenSession is
// refused.
func firstFrame(t *testing.T, s Suite) {
	p := s.start(t)
	stream, err := p.TransportClient.Open(within(t, patience))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&transportpb.HostFrame{Frame: &transportpb.HostFrame_Close{Close: &transportpb.CloseSession{}}}); err != nil {
		t.Fatal(err)
	}
	if f, err := stream.Recv(); err == nil && f.GetEnd() == nil {
		t.Errorf("got %v", f)
	}
}

func stop(t *testing.T, s Suite) {
	p, session := s.open(t)
	session.GoTool("sleep", `{"ms":60000}`)
	if _, err := p.Stop(within(t, 10*time.Second), &transportpb.StopRequest{}); err != nil {
		t.Errorf("Stop: %v", err)
	}
	if end := session.AwaitEnd(); end.GetClass() != transportpb.SessionEnd_CLASS_CLOSED {
		t.Errorf("got %v", end)
	}
	select {
	case <-p.Exited():
	case <-time.After(5 * time.Second):
		t.Error("the plugin did not exit after Stop")
	}
}

// lifeline checks that the plugin does not outlive the host.
func lifeline(t *testing.T, s Suite) {
	p, session := s.open(t)
	session.GoTool("sleep", `{"ms":60000}`)
	p.CutLifeline()
	select {
	case <-p.Exited():
	case <-time.After(5 * time.Second):
		t.Error("the plugin lives on without its host")
	}
}
