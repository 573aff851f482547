package launcher

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-host/hermes-host/host/session"
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
