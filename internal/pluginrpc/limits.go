package pluginrpc

import (
	"google.golang.org/grpc"
)

// MaxPayload is the largest MCP message that crosses between host and plugin,
// in bytes. Plugins cap the limit of a session at it.
const MaxPayload = 64 << 20

// MaxMessage is the largest gRPC message: a payload and what is around it.
const MaxMessage = MaxPayload + 1<<20

// One stream carries a whole session, so the default HTTP/2 window of 64 KiB
// would stall every result larger than that for a round trip per window.
// Windows cost memory only while a receiver lags behind.
const (
	streamWindow = 8 << 20
	connWindow   = 16 << 20
)

// The buffers between gRPC and the socket, one pair per connection. They save
// system calls on large results.
const socketBuffer = 128 << 10

// DialOptions returns the options of the host's connection to a plugin.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
		grpc.WithInitialWindowSize(streamWindow),
		grpc.WithInitialConnWindowSize(connWindow),
		grpc.WithReadBufferSize(socketBuffer),
		grpc.WithWriteBufferSize(socketBuffer),
	}
}

// NewServer makes a plugin's gRPC server; go-plugin passes the options for
// TLS. It must not wait for handlers when it stops: go-plugin's Shutdown stops
// the server from within a handler.
func NewServer(opts []grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append(opts,
		grpc.MaxRecvMsgSize(MaxMessage),
		grpc.MaxSendMsgSize(MaxMessage),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(connWindow),
		grpc.ReadBufferSize(socketBuffer),
		grpc.WriteBufferSize(socketBuffer),
	)...)
}
