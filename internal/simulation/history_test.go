package simulation

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/breaker"
	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
	"github.com/hermes-host/hermes-host/host/takeover"
)

// The settings of simulated servers. Those that are not here have their
// defaults.
const (
	threshold = 3
	cooldown  = 60 * time.Second
	budget    = 5
	backOff   = 60 * time.Second  // the longest
	revival   = 330 * time.Second // the longest: 5 min and a tenth
	connect   = 30 * time.Second
	listing   = 30 * time.Second
	closing   = 10 * time.Second
	checking  = 5 * time.Second
	callLimit = 20 * time.Second
	callWait  = 2 * time.Second
	linger    = 50 * time.Millisecond
)

// A history is one run of the simulation. Its goroutine plays it; what happens
// elsewhere is told under mu.
type history struct {
	seed    uint64
	rng     *rand.Rand
	start   time.Time
	world   *world
	catalog *catalog.Catalog
	config  configuration
	gate    *supervisor.Gate
	present atomic.Pointer[server] // the present supervisor of the server
	calm    *server                // another, which is well
	callers sync.WaitGroup
	seen    seen

	mu     sync.Mutex
	trace  []line
	steps  int
	faults []string
	acted  map[string]int // how often a server may have acted on a call
	heard  map[int]int    // events of a session that came through
}

// A server is one supervisor's life.
type server struct {
	sup   *supervisor.Supervisor
	stop  context.CancelFunc
	ended chan struct{}
	world *world
	turn  *takeover.Turn

	settled chan struct{} // closed when it has been ready or parked once
	settle  sync.Once

	state   supervisor.State // by its transitions; Run's goroutine writes it
	circuit breaker.State    // by its changes
}

func newHistory(seed uint64) *history {
	h := &history{
		seed: seed, rng: rand.New(rand.NewPCG(seed, 0)),
		acted: map[string]int{}, heard: map[int]int{},
	}
	h.world = newWorld(h)
	return h
}

// server returns the present supervisor of the server that has a hard time.
func (h *history) server() *server { return h.present.Load() }

// play is the whole history, within its bubble.
func (h *history) play() {
	h.start = time.Now()
	h.world.thaw = make(chan struct{}) // of the bubble
	h.catalog, h.gate = catalog.New(), supervisor.NewGate(1)
	h.config = configuration{there: true}
	h.configure()
	h.calm = h.begin("calm", &world{h: newHistory(0), thaw: make(chan struct{})}, nil)
	synctest.Wait()
	if h.rng.IntN(2) == 0 {
		h.world.set(random(h.rng))
	}
	h.present.Store(h.begin("x", h.world, nil))
	h.step("begin; the server, when %s", h.world.now())
	for range 10 + h.rng.IntN(40) {
		h.next()
		if len(h.found()) > 0 {
			break
		}
	}
	if len(h.found()) == 0 {
		switch h.rng.IntN(8) {
		case 0, 1:
			h.step("shutdown in the middle")
		case 2, 3:
			h.mend(true, h.rng.IntN(2) == 0)
		default:
			h.mend(false, h.rng.IntN(2) == 0)
		}
	}
	h.end(h.server())
	h.end(h.calm)
	ended := make(chan struct{})
	go func() { h.callers.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(linger):
		h.fault("calls go on after the end of their server")
		<-ended
	}
	synctest.Wait()
	h.checkCatalog(supervisor.Stopped)
}

// begin starts a supervisor. If it is to take over from another, it comes up
// beside that.
func (h *history) begin(name string, w *world, from *server) *server {
	handle, _ := h.catalog.Handle(name)
	jitter := rand.New(rand.NewPCG(h.seed, h.rng.Uint64()))
	s := &server{ended: make(chan struct{}), settled: make(chan struct{}), world: w, turn: takeover.New(0, handle)}
	if from != nil {
		s.turn.Stage(from.turn)
	}
	watch := name == "x"
	s.sup = supervisor.New(supervisor.Config{
		Name: name, Transport: w, Handler: ears{h, s}, Lister: s.turn, Gate: h.gate, Jitter: jitter.Float64,
		KeepAlive: []time.Duration{0, 20 * time.Second}[h.rng.IntN(2)],
		Timeouts: supervisor.Timeouts{
			Connect: connect, List: listing, Close: closing, Health: checking, Call: callLimit, CallWait: callWait,
		},
		Breaker: breaker.Config{Threshold: threshold, Cooldown: cooldown, OnChange: func(from, to breaker.State) {
			if watch {
				h.circuit(s, from, to)
			}
		}},
		Retry:  supervisor.Retry{Max: backOff, Budget: budget},
		Logger: hclog.New(&hclog.LoggerOptions{Output: bugs{h}, Level: hclog.Error}),
		OnTransition: func(t supervisor.Transition) {
			if watch {
				h.transition(s, t)
			}
		},
	})
	s.turn.Begin(s.sup)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() {
		defer close(s.ended)
		if err := s.sup.Run(ctx); err != nil {
			h.fault("Run: %v", err)
		}
	}()
	return s
}

// end shuts a server down, which takes no longer than closing a session does.
func (h *history) end(s *server) {
	s.stop()
	select {
	case <-s.ended:
	case <-time.After(closing):
		select {
		case <-s.ended:
		case <-time.After(time.Millisecond):
			h.fault("the shutdown takes longer than %s", closing)
			<-s.ended
		}
	}
	if st := s.sup.Status().State; st != supervisor.Stopped {
		h.fault("after the shutdown the state is %s", st)
	}
	if s != h.calm {
		s.world.mu.Lock()
		open := s.world.open
		s.world.mu.Unlock()
		if open != 0 {
			h.fault("%d attempts or sessions are left after the shutdown", open)
		}
	}
}

// after lets time pass, and all that follows from it.
func (h *history) after(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
	synctest.Wait()
}

// configuration is what a reload may change.
type configuration struct {
	there bool // x is configured
	last  bool // it comes after the other server
	hides bool // its last tool is denied
}

// configure gives the configuration to the catalog.
func (h *history) configure() {
	servers := []catalog.Server{{Name: "calm"}}
	if h.config.there {
		x := catalog.Server{Name: "x"}
		if h.config.hides {
			x.Tools.Deny = []string{"t_*_2"}
		}
		if h.config.last {
			servers = append(servers, x)
		} else {
			servers = append([]catalog.Server{x}, servers...)
		}
	}
	if err := h.catalog.SetServers(servers); err != nil {
		h.fault("SetServers: %v", err)
	}
}

// act notes that a server may have acted on a call.
func (h *history) act(req session.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acted[string(req.Params)]++
}

// bugs is where the supervisor logs errors. It says so if it has met something
// impossible.
type bugs struct{ h *history }

func (b bugs) Write(text []byte) (int, error) {
	if strings.Contains(string(text), "bug:") {
		b.h.fault("logged: %s", strings.TrimSpace(string(text)))
	}
	return len(text), nil
}

// errGaveUp is the cause of the contexts of callers who give up.
var errGaveUp = errors.New("the caller gave up")
