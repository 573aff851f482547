package catalog

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"unicode/utf8"

	"github.com/hermes-host/hermes-host/internal/rawjson"
)

// A Kind is one of the lists of MCP.
type Kind int

const (
	Tools Kind = iota
	Resources
	Templates
	Prompts
	kinds
)

// Kinds is how many kinds there are.
const Kinds = int(kinds)

var kindFacts = [kinds]struct{ method, member, capability, key string }{
	Tools:     {"tools/list", "tools", "tools", "name"},
	Resources: {"resources/list", "resources", "resources", "uri"},
	Templates: {"resources/templates/list", "resourceTemplates", "resources", "uriTemplate"},
	Prompts:   {"prompts/list", "prompts", "prompts", "name"},
}

func (k Kind) member() string { return kindFacts[k].member }

// maxEntry bounds the JSON of one entry. Real ones reach 300 KB.
const maxEntry = 4 << 20

// maxDepth bounds the nesting of one entry. Go's SDK refuses a whole list that
// is nested deeper than 1,000 levels, Python's parser one of about as much.
const maxDepth = 500

// item is an entry as a server sent it, found fit for clients.
type item struct {
	name       string // the tool's or prompt's name, the URI, the URI template
	raw        json.RawMessage
	sum        uint64   // of raw
	nulls      []string // optional members that are null
	idempotent bool     // a tool that says readOnlyHint or idempotentHint
	template   *template
	schema     json.RawMessage // a tool's inputSchema
}

// An Entry is one thing that a server offers, filtered and renamed. It is
// immutable.
type Entry struct {
	Server string
	Name   string // as the server knows it: a name, a URI or a URI template
	// Idempotent is set for tools whose annotations say readOnlyHint or
	// idempotentHint.
	Idempotent bool

	*item
	base   string // Name after a rename
	says   string // replaces the description; "": nothing does
	plain  string // the plain name in the aggregate
	usable bool   // whether plain may be used, as far as one server can tell
}

// A Quarantined entry was left out since clients would choke on it.
type Quarantined struct {
	Name   string `json:"name"` // may be empty
	Reason string `json:"reason"`
}

// configure makes the offer's entries from what was heard.
func (o *offer) configure(cfg *config) {
	o.cfg = cfg
	for kind := range kinds {
		o.entries[kind] = nil
		f := cfg.filters[kind]
		for _, it := range o.heard[kind].items {
			if !f.admits(it.name) {
				continue
			}
			e := &Entry{Server: cfg.Name, Name: it.name, Idempotent: it.idempotent, item: it, base: it.name}
			if kind == Tools || kind == Prompts {
				e.base = f.outer(it.name)
				if kind == Tools {
					e.says = f.Describe[it.name]
				}
				e.plain, e.usable = cfg.plain(e.base)
			}
			o.entries[kind] = append(o.entries[kind], e)
		}
	}
	o.unmatched = o.unmatchedBy(&cfg.filters)
}

// render returns the entry's JSON under an outer name.
func (e *Entry) render(outer string, naming Naming) json.RawMessage {
	raw := e.raw
	if naming == Prefixed {
		// Some clients refuse a whole list for one null where the
		// specification wants the member absent.
		for _, member := range e.nulls {
			raw = rawjson.Delete(raw, member)
		}
	}
	if e.says != "" {
		if described, err := rawjson.Set(raw, rawjson.Quote(e.says), "description"); err == nil {
			raw = described
		}
	}
	if outer != e.Name {
		if named, err := rawjson.Set(raw, rawjson.Quote(outer), "name"); err == nil {
			raw = named
		}
	}
	return raw
}

var sumSeed = maphash.MakeSeed()

// members lists what an entry may have besides its key, by the first byte of
// the JSON value: " string, { object, [ array. Clients that validate (the
// TypeScript SDK among them) refuse a list in which one of these is anything
// else.
var members = [kinds]map[string]byte{
	Tools:     {"title": '"', "description": '"', "inputSchema": '{', "outputSchema": '{', "annotations": '{', "icons": '[', "execution": '{', "_meta": '{'},
	Resources: {"name": '"', "title": '"', "description": '"', "mimeType": '"', "annotations": '{', "icons": '[', "_meta": '{'},
	Templates: {"name": '"', "title": '"', "description": '"', "mimeType": '"', "annotations": '{', "icons": '[', "_meta": '{'},
	Prompts:   {"title": '"', "description": '"', "arguments": '[', "icons": '[', "_meta": '{'},
}

var required = [kinds]string{Tools: "inputSchema", Resources: "name", Templates: "name"}

var typeNames = map[byte]string{'"': "a string", '{': "an object", '[': "an array"}

// read makes an item of an entry's JSON, or says what is wrong with it.
func read(kind Kind, raw json.RawMessage) (*item, *Quarantined) {
	key := kindFacts[kind].key
	name := rawjson.Text(raw, key)
	bad := func(format string, args ...any) (*item, *Quarantined) {
		return nil, &Quarantined{Name: clip(name, 200), Reason: fmt.Sprintf(format, args...)}
	}
	if len(raw) > maxEntry {
		return bad("it has %d bytes; at most %d are served", len(raw), maxEntry)
	}
	switch {
	case raw[0] != '{':
		return bad("it is not a JSON object")
	case !utf8.Valid(raw):
		return bad("it is not valid UTF-8")
	case rawjson.Depth(raw) > maxDepth:
		return bad("it is nested deeper than %d levels", maxDepth)
	}
	if name == "" {
		return bad("its %s is absent, empty or not a string", key)
	}
	it := &item{name: name, raw: raw, sum: maphash.Bytes(sumSeed, raw)}
	found := map[string]json.RawMessage{}
	wrong := ""
	err := rawjson.Fields(raw, func(member string, val json.RawMessage) bool {
		want, known := members[kind][member]
		switch {
		case !known:
			return true
		case string(val) == "null" && member != required[kind]:
			it.nulls = append(it.nulls, member)
		case val[0] != want:
			wrong = fmt.Sprintf("its %s is not %s", member, typeNames[want])
			return false
		}
		found[member] = val
		return true
	})
	switch {
	case err != nil:
		return bad("%v", err)
	case wrong != "":
		return bad("%s", wrong)
	case required[kind] != "" && found[required[kind]] == nil:
		return bad("its %s is absent", required[kind])
	}
	switch kind {
	case Tools:
		if err := checkInput(found["inputSchema"]); err != nil {
			return bad("inputSchema: %v", err)
		}
		if err := checkMarks(found["inputSchema"]); err != nil {
			return bad("inputSchema: %v", err)
		}
		if out := found["outputSchema"]; out != nil && out[0] == '{' {
			if err := checkSchema(out); err != nil {
				return bad("outputSchema: %v", err)
			}
		}
		it.schema = found["inputSchema"]
		hints := found["annotations"]
		it.idempotent = string(rawjson.Get(hints, "readOnlyHint")) == "true" ||
			string(rawjson.Get(hints, "idempotentHint")) == "true"
	case Templates:
		it.template = parseTemplate(name)
	case Prompts:
		if args := found["arguments"]; args != nil && args[0] == '[' {
			all, err := rawjson.Elements(args)
			if err != nil {
				return bad("arguments: %v", err)
			}
			for i, arg := range all {
				if rawjson.Text(arg, "name") == "" {
					return bad("argument %d has no name", i)
				}
			}
		}
	}
	return it, nil
}

// clip shortens text for display.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && text[n]&0xC0 == 0x80 {
		n--
	}
	return text[:n] + "…"
}
