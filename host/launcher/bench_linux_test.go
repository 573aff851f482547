package launcher

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// BenchmarkCall measures the way to a plugin process and back, through a
// session.
func BenchmarkCall(b *testing.B) {
	dir := b.TempDir()
	l, err := New(Settings{RunDir: "/tmp", PluginDirs: []string{dir}, Commands: fakeCommand("")})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close(b.Context())
	s, err := l.Transport(Spec{Kind: "fake", Config: []byte(`{}`)}).Connect(b.Context(), &ear{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close(b.Context())
	b.Run("stream alone", func(b *testing.B) { benchmarkStream(b, s.(*stream).process) })
	for _, size := range []int{64, 64 << 10, 1 << 20} {
		params := []byte(`"` + strings.Repeat("x", size-2) + `"`)
		call := func() {
			if _, err := s.Call(b.Context(), session.Request{Method: "echo", Params: params}); err != nil {
				b.Error(err)
			}
		}
		b.Run(fmt.Sprintf("%d bytes", size), func(b *testing.B) {
			b.SetBytes(int64(2 * size))
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
	b.Run("16 in flight", func(b *testing.B) {
		b.SetParallelism(8)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := s.Call(b.Context(), session.Request{Method: "echo", Params: []byte(`{}`)}); err != nil {
					b.Error(err)
				}
			}
		})
	})
}

// benchmarkStream is what of BenchmarkCall gRPC and the plugin take.
func benchmarkStream(b *testing.B, p *process) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	client, err := p.rpc.Open(ctx)
	if err != nil {
		b.Fatal(err)
	}
	turn := func(frame *transportpb.HostFrame) {
		if err := client.Send(frame); err != nil {
			b.Fatal(err)
		}
		if _, err := client.Recv(); err != nil {
			b.Fatal(err)
		}
	}
	turn(&transportpb.HostFrame{Frame: &transportpb.HostFrame_Open{Open: &transportpb.OpenSession{Config: []byte(`{}`)}}}) // a line of log
	if _, err := client.Recv(); err != nil {                                                                               // the beginning
		b.Fatal(err)
	}
	params := make([]byte, 64)
	b.ReportAllocs()
	for id := uint64(1); b.Loop(); id++ {
		turn(&transportpb.HostFrame{Frame: &transportpb.HostFrame_Request{Request: &transportpb.Request{Id: id, Method: "echo", Params: params}}})
	}
}
