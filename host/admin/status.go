package admin

import (
	"encoding/json"
	"time"
)

// Info says which host answers.
type Info struct {
	Version string    `json:"version"`
	PID     int       `json:"pid"`
	Config  string    `json:"config"`        // path of the configuration, absolute
	URL     string    `json:"url,omitempty"` // where MCP clients connect; empty: a host of one client
	Started time.Time `json:"started"`
	Socket  string    `json:"socket,omitempty"` // where it answers; a [Client] fills it in
}

// Status is a host at one moment.
type Status struct {
	Host     Info `json:"host"`
	Ready    bool `json:"ready"` // as /readyz says
	Stopping bool `json:"stopping,omitempty"`
	// Clients are the sessions of MCP clients, over HTTP and joined ones.
	Clients int `json:"clients"`
	// Restart lists settings of the configuration that only a restart of the
	// host applies.
	Restart []string `json:"restart,omitempty"`
	// Reload is the outcome of the latest reload, nil before the first.
	Reload *Reloaded `json:"reload,omitempty"`
	// Missing says that there is no configuration file at present; nil: there
	// is, or nobody watches it.
	Missing   *Missing   `json:"missing,omitempty"`
	Servers   []Server   `json:"servers"`             // in the order of the configuration
	Endpoints []Endpoint `json:"endpoints,omitempty"` // likewise
}

// Missing is a configuration file that can't be read. The host goes on with what
// it has.
type Missing struct {
	Since time.Time `json:"since"`
	Why   string    `json:"why"` // for people
	Error string    `json:"error"`
}

// Endpoint is a selection of what the servers offer.
type Endpoint struct {
	Name      string      `json:"name"`
	Place     string      `json:"place,omitempty"`  // of its block, as file:line:column
	Advice    string      `json:"advice,omitempty"` // what to change in its configuration, though it works
	Unmatched []Unmatched `json:"unmatched,omitempty"`
}

// Unmatched is a pattern or a name in the configuration that applies to nothing
// that there is.
type Unmatched struct {
	List    string `json:"list"`    // tools, resources or prompts
	Setting string `json:"setting"` // allow, deny, rename or describe
	Pattern string `json:"pattern"`
}

// Reloaded is the outcome of a reload.
type Reloaded struct {
	At    time.Time `json:"at"`
	By    string    `json:"by"`
	Error string    `json:"error,omitempty"` // why it was refused; empty: it was applied
}

// Server is one server at one moment.
type Server struct {
	Name      string          `json:"name"`
	Transport string          `json:"transport"`
	Settings  json.RawMessage `json:"settings,omitempty"` // of the transport, secrets replaced
	Place     string          `json:"place,omitempty"`    // of its block, as file:line:column

	State string `json:"state"`
	// Since is when the server came into this state. A parked one has been out of
	// service since then, whatever attempts to revive it there were.
	Since   time.Time `json:"since"`
	Changed time.Time `json:"changed"` // when the state changed last, for such an attempt, too
	Reason  string    `json:"reason"`
	Trouble *Trouble  `json:"trouble,omitempty"` // what is wrong although there is a session

	Generation  uint64     `json:"generation"` // of the latest session or attempt
	Sessions    int        `json:"sessions"`   // that are up now, with those of clients
	Starts      int64      `json:"starts"`     // sessions that came up so far, with those of clients
	Failed      int        `json:"failed"`     // attempts in a row
	Left        int        `json:"left"`       // attempts before it parks
	NextAttempt *time.Time `json:"nextAttempt,omitempty"`
	Waits       string     `json:"waits,omitempty"`     // what a parked server waits for
	Authorize   bool       `json:"authorize,omitempty"` // calls are refused, or it is parked, for want of an authorization

	Breaker Breaker `json:"breaker"`

	Advice      string     `json:"advice,omitempty"` // what to change in its configuration, though it works
	LastError   string     `json:"lastError,omitempty"`
	LastErrorAt *time.Time `json:"lastErrorAt,omitempty"`

	Calls   Calls   `json:"calls"`
	Peer    *Peer   `json:"peer,omitempty"` // nil: there is no session
	Catalog Catalog `json:"catalog"`

	// Next is what is about to take over, since the configuration has changed;
	// nil: nothing is.
	Next *Next `json:"next,omitempty"`

	// Clients counts the sessions that clients have for themselves, up or not;
	// ClientSessions describes them, up to 50, those that are not ready first.
	Clients        int             `json:"clients,omitempty"`
	ClientSessions []ClientSession `json:"clientSessions,omitempty"`
}

// Next is a changed configuration of a server that waits for its new session.
// The session that there is serves until then.
type Next struct {
	Since     time.Time `json:"since"`
	Settings  []string  `json:"settings"` // that are different
	State     string    `json:"state"`
	Failed    int       `json:"failed"` // attempts in a row
	LastError string    `json:"lastError,omitempty"`
}

// A ClientSession is a session that a client has for itself with a server.
type ClientSession struct {
	ID         string    `json:"id"`     // as the host's log names it; no secret
	Client     string    `json:"client"` // what the client calls itself
	State      string    `json:"state"`
	Since      time.Time `json:"since"`
	Reason     string    `json:"reason,omitempty"` // why it is not ready
	Generation uint64    `json:"generation"`
	Calls      Calls     `json:"calls"`
	PID        int       `json:"pid,omitempty"`
	Plugin     int       `json:"pluginPid,omitempty"`
}

// Trouble is what is wrong with a session that lives. The next answer ends it.
type Trouble struct {
	Kind  string    `json:"kind"` // mute, authorization or not MCP
	Since time.Time `json:"since"`
	Text  string    `json:"text"`  // what it means
	Error string    `json:"error"` // what was seen last
	Cure  string    `json:"cure"`  // what a person can do
}

// Breaker is the state of a circuit breaker.
type Breaker struct {
	State      string  `json:"state"` // closed, open or half-open
	Failures   int     `json:"failures"`
	RetryAfter float64 `json:"retryAfterSeconds,omitempty"` // until a probe may pass
}

// Calls counts calls since the host or the server's configuration is new, of all
// sessions.
type Calls struct {
	Total    int64 `json:"total"`
	Failed   int64 `json:"failed"` // got no answer, for other reasons than the caller's
	InFlight int64 `json:"inFlight"`
	Replayed int64 `json:"replayed"`
}

// Peer is the other end of the session: what the server said of itself, and the
// processes.
type Peer struct {
	Protocol string          `json:"protocolVersion"`
	Info     json.RawMessage `json:"serverInfo,omitempty"`
	PID      int             `json:"pid,omitempty"` // of the server, where its plugin has started it
	Plugin   int             `json:"pluginPid,omitempty"`
}

// Catalog is what a server offers.
type Catalog struct {
	Live      bool `json:"live"` // its entries are in the lists
	Tools     int  `json:"tools"`
	Resources int  `json:"resources"`
	Templates int  `json:"resourceTemplates"`
	Prompts   int  `json:"prompts"`
	Filtered  int  `json:"filtered,omitempty"`

	Quarantined []Problem `json:"quarantined,omitempty"` // clients would choke on them
	Shadowed    []Problem `json:"shadowed,omitempty"`    // not at /mcp: another server comes first with the same
	Renamed     []Renamed `json:"renamed,omitempty"`
	Notes       []string  `json:"notes,omitempty"`

	Unmatched []Unmatched `json:"unmatched,omitempty"` // by anything that the server lists
}

// A Problem is an entry that is not served, or not at /mcp.
type Problem struct {
	List   string `json:"list"` // tools, resources, resourceTemplates or prompts
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Renamed is an entry that is not served under its plain name.
type Renamed struct {
	List  string `json:"list"`
	Name  string `json:"name"`
	Outer string `json:"outer"`
}

// An Event is one change of state, of a server, of another of its sessions if
// Session is not nil, or of the host if Server is empty; or what left the state
// as it is: an attempt that failed for a new reason, or the beginning or end of a
// Trouble.
type Event struct {
	Seq        uint64     `json:"seq"`
	At         time.Time  `json:"at"`
	Server     string     `json:"server,omitempty"`
	From       string     `json:"from,omitempty"`
	To         string     `json:"to,omitempty"`
	Reason     string     `json:"reason"`
	Error      string     `json:"error,omitempty"`
	Generation uint64     `json:"generation,omitempty"`
	Attempt    int        `json:"attempt,omitempty"` // failed ones in a row
	Next       *time.Time `json:"next,omitempty"`
	// Repeated counts failures since the server's last event that were as those
	// told before.
	Repeated int `json:"repeated,omitempty"`
	// Session is the one that the event is about, if its state is not the
	// server's: From and To are empty then.
	Session *Aside `json:"session,omitempty"`
}

// An Aside is a session of a server besides the one whose state is the server's.
type Aside struct {
	// Kind is "new session" for one that is about to take over, since the
	// configuration has changed, and "earlier session" for one of a configuration
	// that is no longer the server's; "client's session" for one that a client
	// has for itself, which ID and Client name as ClientSession does.
	Kind   string `json:"kind"`
	ID     string `json:"id,omitempty"`
	Client string `json:"client,omitempty"`
	From   string `json:"from"`
	To     string `json:"to"`
}

// A Line is one line of the host's log.
type Line struct {
	Seq     uint64    `json:"seq"`
	At      time.Time `json:"at"`
	Level   string    `json:"level"`
	Logger  string    `json:"logger,omitempty"`
	Server  string    `json:"server,omitempty"`
	Message string    `json:"message"`
	Fields  []Field   `json:"fields,omitempty"` // in the order of the log
}

// A Field is a key and a value of a Line.
type Field struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}
