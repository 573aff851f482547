package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"go.uber.org/goleak"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/internal/pluginrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// This file is a plugin with scripted crimes: the test binary itself, started
// again with a role.

const (
	envRole  = "HERMES_TEST_ROLE"  // plugin, child or host
	envCrime = "HERMES_TEST_CRIME" // what the plugin does wrong
	envKind  = "HERMES_TEST_KIND"
	envMulti = "HERMES_TEST_MULTI"
	envTame  = "HERMES_TEST_TAME" // not empty: it says that it leaves no orphans
)

func TestMain(m *testing.M) {
	switch os.Getenv(envRole) {
	case "plugin":
		playPlugin()
	case "child":
		playChild()
	case "host":
		playHost()
	default:
		goleak.VerifyTestMain(m)
	}
}

func playPlugin() {
	crime := os.Getenv(envCrime)
	switch crime {
	case "exit 3":
		fmt.Fprintln(os.Stderr, "cannot open the pod bay doors")
		os.Exit(3)
	case "exit 0":
		os.Exit(0)
	case "garbage":
		fmt.Println("usage: something [else]")
		select {}
	case "garbage and exit":
		fmt.Println("usage: something [else]")
		os.Exit(2)
	case "hang":
		signal.Ignore(syscall.SIGTERM)
		fmt.Fprintln(os.Stderr, "thinking")
		select {}
	case "version 9":
		fmt.Println("1|9|unix|/nowhere|grpc|")
		select {}
	case "killed after the handshake":
		fmt.Printf("1|%d|unix|/nowhere|grpc|\n", pluginrpc.Version)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "panic":
		fmt.Fprintln(os.Stderr, "some line")
		panic("no good")
	}
	if crime == "stderr" {
		fmt.Fprintln(os.Stderr, `{"@level":3}`)
		fmt.Fprintln(os.Stderr, `{"@message":{},"@level":"info","@timestamp":[]}`)
		fmt.Fprintln(os.Stderr, strings.Repeat("x", 1<<20)+"tail")
	}
	log := hclog.New(&hclog.LoggerOptions{JSONFormat: true, Output: os.Stderr, Level: hclog.LevelFromString(os.Getenv(pluginrpc.EnvLogLevel))})
	log.Info("plugin is up", "lifeline", os.Getenv(pluginrpc.EnvLifeline))
	if crime != "no lifeline" {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
	}
	f := &fake{crime: crime, stop: make(chan struct{})}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  pluginrpc.Handshake,
		VersionedPlugins: pluginrpc.ServePlugins(f),
		GRPCServer:       pluginrpc.NewServer,
		Logger:           log,
	})
}

// playChild is a server below a plugin that does not want to end.
func playChild() {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	fmt.Println("up")
	select {}
}

type fake struct {
	transportpb.UnimplementedTransportServer
	crime string
	stop  chan struct{}
	once  sync.Once
}

func (f *fake) Describe(context.Context, *transportpb.DescribeRequest) (*transportpb.DescribeResponse, error) {
	kind := os.Getenv(envKind)
	if kind == "" {
		kind = "fake"
	}
	if f.crime == "hang in describe" {
		select {}
	}
	var features []string
	if os.Getenv(envTame) != "" {
		features = []string{pluginrpc.FeatureNoOrphans}
	}
	return &transportpb.DescribeResponse{
		Features: features,
		Kind:     kind, Version: "1.2.3", MultiSession: os.Getenv(envMulti) != "",
		Schema: []*transportpb.Attribute{{Name: "target", Type: []byte(`"string"`)}},
	}, nil
}

func (f *fake) Validate(_ context.Context, r *transportpb.ValidateRequest) (*transportpb.ValidateResponse, error) {
	if string(r.GetConfig()) == `{"target":"bad"}` {
		return &transportpb.ValidateResponse{Diagnostics: []*transportpb.Diagnostic{{Summary: "bad target"}}}, nil
	}
	return &transportpb.ValidateResponse{}, nil
}

func (f *fake) Stop(ctx context.Context, _ *transportpb.StopRequest) (*transportpb.StopResponse, error) {
	if f.crime == "hang in stop" {
		signal.Ignore(syscall.SIGTERM)
		<-ctx.Done()
		select {}
	}
	f.once.Do(func() { close(f.stop) })
	return &transportpb.StopResponse{}, nil
}

// script is a session's configuration.
type script struct {
	Init    string // "": at once; "never"; "end": a SessionEnd instead; "exit"
	Learn   string // what init says was learnt; "-" for an empty text
	Version string
	Ping    string // "": answered; "ignore"
	Child   bool   // start one that holds stderr and does not want to end
	Apart   bool   // which makes a session of its own
}

func (f *fake) Open(stream transportpb.Transport_OpenServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	var s script
	if err := json.Unmarshal(first.GetOpen().GetConfig(), &s); err != nil {
		return err
	}
	var mu sync.Mutex
	send := func(frame *transportpb.PluginFrame) {
		mu.Lock()
		defer mu.Unlock()
		_ = stream.Send(frame)
	}
	end := func(class transportpb.SessionEnd_Class, message string, retryable bool) {
		send(&transportpb.PluginFrame{Frame: &transportpb.PluginFrame_End{End: &transportpb.SessionEnd{
			Class: class, Message: message, Retryable: retryable,
			Path: []*transportpb.PathStep{{Step: &transportpb.PathStep_Attribute{Attribute: "target"}}, {Step: &transportpb.PathStep_Index{Index: 2}}},
		}}})
	}
	child := 0
	if s.Child {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envRole+"=child")
		// The real stderr: go-plugin has put a pipe in os.Stderr's place.
		cmd.Stderr = os.NewFile(2, "stderr")
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if _, err := cmd.StdinPipe(); err != nil {
			return err
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: s.Apart}
		if err := cmd.Start(); err != nil {
			return err
		}
		child = cmd.Process.Pid
		if _, err := out.Read(make([]byte, 1)); err != nil { // its "up"
			return err
		}
	}
	switch s.Init {
	case "never":
		<-stream.Context().Done()
		return nil
	case "exit":
		os.Exit(3)
	case "end":
		end(transportpb.SessionEnd_CLASS_CONFIG, "no such target", false)
		return nil
	}
	if s.Version == "" {
		s.Version = "2025-11-25"
	}
	send(&transportpb.PluginFrame{Frame: &transportpb.PluginFrame_Log{Log: &transportpb.Log{Level: transportpb.Log_LEVEL_WARN, Message: "hello", Stderr: true}}})
	init := &transportpb.SessionInit{
		ProtocolVersion: s.Version, Capabilities: []byte(`{"tools":{}}`), Result: []byte(`{"big":9007199254740993}`),
	}
	if s.Learn != "" {
		init.Learnt = []byte(strings.TrimPrefix(s.Learn, "-"))
		init.Advice = strings.TrimPrefix(s.Learn, "-")
	}
	send(&transportpb.PluginFrame{Frame: &transportpb.PluginFrame_Init{Init: init}})
	answers := make(chan *transportpb.Answer, 1)
	frames := make(chan *transportpb.HostFrame)
	go func() {
		defer close(frames)
		for {
			frame, err := stream.Recv()
			if err != nil {
				return
			}
			if a := frame.GetAnswer(); a != nil {
				answers <- a
				continue
			}
			frames <- frame
		}
	}()
	for {
		var frame *transportpb.HostFrame
		select {
		case <-f.stop:
			end(transportpb.SessionEnd_CLASS_CLOSED, "stopped", false)
			return nil
		case frame = <-frames:
		}
		if frame == nil {
			return errors.New("the host is gone")
		}
		respond := func(r *transportpb.Response) {
			r.Id = frame.GetRequest().GetId()
			send(&transportpb.PluginFrame{Frame: &transportpb.PluginFrame_Response{Response: r}})
		}
		result := func(text string) {
			respond(&transportpb.Response{Outcome: &transportpb.Response_Result{Result: []byte(text)}})
		}
		notify := func(method, params string) {
			send(&transportpb.PluginFrame{Frame: &transportpb.PluginFrame_Notification{Notification: &transportpb.Notification{Method: method, Params: []byte(params)}}})
		}
		switch x := frame.GetFrame().(type) {
		case *transportpb.HostFrame_Close:
			switch f.crime {
			case "hang in close":
				continue
			case "freeze in close": // when the first health check has been answered
				time.AfterFunc(300*time.Millisecond, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) })
				continue
			}
			end(transportpb.SessionEnd_CLASS_CLOSED, "closed", false)
			return nil
		case *transportpb.HostFrame_Cancel:
			notify("cancelled", strconv.FormatUint(x.Cancel.GetId(), 10))
		case *transportpb.HostFrame_Notification:
			notify("echo/"+x.Notification.GetMethod(), string(x.Notification.GetParams()))
		case *transportpb.HostFrame_Request:
			switch x.Request.GetMethod() {
			case "echo":
				result(string(x.Request.GetParams()))
			case "open":
				result(fmt.Sprintf(`[%q,%q]`, first.GetOpen().GetLearnt(), first.GetOpen().GetClientVersion()))
			case "patience":
				result(strconv.FormatUint(first.GetOpen().GetPatienceMs(), 10))
			case "pids":
				result(fmt.Sprintf(`[%d,%d]`, os.Getpid(), child))
			case "environ":
				data, _ := json.Marshal(os.Environ())
				result(string(data))
			case "exit":
				os.Exit(3)
			case "panic":
				panic("boom")
			case "freeze":
				_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			case "silent":
			case "many":
				for i := range 100 {
					notify("n", strconv.Itoa(i))
				}
				result(`{}`)
			case "ask":
				send(&transportpb.PluginFrame{Frame: &transportpb.PluginFrame_Request{Request: &transportpb.ServerRequest{Id: []byte(`"q1"`), Method: "roots/list", RelatedRequest: x.Request.GetId()}}})
				a := <-answers
				result(fmt.Sprintf(`{"id":%s,"result":%s}`, a.GetId(), a.GetResult()))
			case "lose":
				end(transportpb.SessionEnd_CLASS_SESSION_LOST, "unknown session", true)
				return nil
			case "break":
				return nil
			case "error":
				respond(&transportpb.Response{Outcome: &transportpb.Response_RpcError{RpcError: &transportpb.RpcError{Code: -32003, Message: "no", Data: []byte(`{"a":1}`)}}})
			case "fail":
				respond(&transportpb.Response{Outcome: &transportpb.Response_TransportError{TransportError: &transportpb.TransportError{
					Message: "502", Reason: transportpb.TransportError_REASON_HTTP_STATUS, Delivered: transportpb.TransportError_DELIVERED_NO}}})
			case "ping":
				if s.Ping != "ignore" {
					result(`{}`)
				}
			case "tools/list", "server/discover":
				if s.Ping == "deaf" {
					continue
				}
				respond(&transportpb.Response{Outcome: &transportpb.Response_RpcError{RpcError: &transportpb.RpcError{Code: -32601, Message: "what?"}}})
			}
		}
	}
}

// playHost is a host that is about to be killed: it opens a session and prints
// the ids of all that runs below it.
func playHost() {
	log := hclog.New(&hclog.LoggerOptions{Level: hclog.Info, Output: os.Stderr})
	l, err := New(Settings{Logger: log, RunDir: os.Getenv("HERMES_TEST_RUNDIR"), Commands: fakeCommand(os.Getenv(envCrime))})
	if err != nil {
		panic(err)
	}
	s, err := l.Transport(Spec{Kind: "fake", Config: []byte(os.Getenv("HERMES_TEST_SCRIPT"))}).Connect(context.Background(), &ear{})
	if err != nil {
		panic(err)
	}
	r, err := s.Call(context.Background(), session.Request{Method: "pids"})
	if err != nil {
		panic(err)
	}
	if os.Getenv("HERMES_TEST_FREEZE") != "" {
		go s.Call(context.Background(), session.Request{Method: "freeze"})
	}
	fmt.Printf("%s\n", r.Result)
	select {}
}

func fakeCommand(crime string, more ...string) map[string]Command {
	env := map[string]string{envRole: "plugin", envCrime: crime}
	for _, kv := range more {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		panic(err)
	}
	return map[string]Command{"fake": {Path: self, Env: env}}
}

// quick are timings for tests: long enough for a busy machine, short enough
// to wait for.
func quick() timing {
	return timing{handshake: 5 * time.Second, stop: 500 * time.Millisecond, term: 200 * time.Millisecond, kill: 2500 * time.Millisecond, idle: 100 * time.Millisecond}
}
