package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// How outer names are assigned.
//
// In the aggregate the plain name of server s's tool t is "p__t", p being the
// prefix of s, or just "t" where the prefix is empty. It is used if all of
// this holds, and otherwise the name gets a hash:
//
//   - it has only the characters A-Z a-z 0-9 _ -, and at most 64 of them;
//   - p is not ambiguous: no other server has a prefix q such that "p__"
//     begins with "q__". (With prefixes "a" and "a__b" configured, a__b__c is
//     always a's b__c; everything of the server with prefix a__b is hashed.)
//   - without a prefix, t does not begin with "q__" for another server's q;
//   - no other entry claims it. Only servers that share a prefix, or renames to
//     one name, come here; then every claimant is hashed, so that the name
//     never leads to another server than it did.
//
// All but the last depend on the configuration and the entry alone. Entries of
// withdrawn servers keep their claims.
//
// The hashed name is the plain one, other characters replaced by "_" and cut,
// with "_" and the first 8 hex digits of SHA-256 over (server, original name).
// Should even that be claimed twice, which takes intent, all its claimants get
// 24 digits.
//
// An endpoint of one server uses the server's own names, whatever they are.
const (
	maxName   = 64
	separator = "__"
)

// A Naming says how an endpoint forms outer names.
type Naming int

const (
	Prefixed Naming = iota // for endpoints of several servers
	Own                    // for endpoints of one server
)

// digits is how much hash a name gets at each level of need.
var digits = [...]int{0, 8, 24}

// separate finds the prefixes that are ambiguous among the configured ones.
func separate(cfgs []*config) {
	for _, cfg := range cfgs {
		for _, other := range cfgs {
			if other.prefix == "" || other.prefix == cfg.prefix {
				continue
			}
			q := other.prefix + separator
			if cfg.prefix == "" {
				cfg.others = append(cfg.others, q)
			} else if strings.HasPrefix(cfg.prefix+separator, q) {
				cfg.hashed = true
			}
		}
	}
}

// plain returns the plain name of an entry and whether it may be used as far
// as configuration and entry alone decide.
func (cfg *config) plain(base string) (string, bool) {
	if cfg.prefix != "" {
		name := cfg.prefix + separator + base
		return name, !cfg.hashed && proper(name)
	}
	for _, q := range cfg.others {
		if strings.HasPrefix(base, q) {
			return base, false
		}
	}
	return base, proper(base)
}

func proper(name string) bool {
	if name == "" || len(name) > maxName {
		return false
	}
	for i := range len(name) {
		if !nameByte(name[i]) {
			return false
		}
	}
	return true
}

func nameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// hashed returns the name with n hex digits of hash.
func hashed(plain, server, original string, n int) string {
	sum := sha256.Sum256([]byte(server + "\x00" + original))
	clean := []byte(strings.Map(func(r rune) rune {
		if r < 0x80 && nameByte(byte(r)) {
			return r
		}
		return '_'
	}, plain))
	clean = clean[:min(len(clean), maxName-1-n)]
	return string(clean) + "_" + hex.EncodeToString(sum[:])[:n]
}

// name returns the outer name of e at a level of need.
func (e *Entry) name(naming Naming, level int) string {
	plain := e.plain
	if naming == Own {
		plain = e.base
	}
	if level == 0 {
		return plain
	}
	return hashed(plain, e.Server, e.Name, digits[level])
}

// assign gives every entry its outer name. The outcome does not depend on the
// order of entries. An entry that gets none ("") clashes even with 24 digits.
func assign(entries []*Entry, naming Naming) []string {
	names := make([]string, len(entries))
	levels := make([]int, len(entries))
	for i, e := range entries {
		if naming == Prefixed && !e.usable {
			levels[i] = 1
		}
		names[i] = e.name(naming, levels[i])
	}
	for {
		claims := make(map[string]int, len(entries))
		clash := false
		for _, name := range names {
			claims[name]++
			clash = clash || name != "" && claims[name] > 1
		}
		if !clash {
			return names
		}
		for i, e := range entries {
			if names[i] == "" || claims[names[i]] < 2 {
				continue
			}
			if levels[i]++; levels[i] == len(digits) {
				names[i] = ""
				continue
			}
			names[i] = e.name(naming, levels[i])
		}
	}
}
