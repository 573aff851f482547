package catalog

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// The hashes are fixed by the rule: SHA-256 of server, NUL, original name.
func TestNames(t *testing.T) {
	long := strings.Repeat("x", 70)
	for _, tt := range []struct {
		name    string
		servers []Server
		tools   map[string][]string // by server
		want    []string
	}{
		// Distinct valid names stay what they are.
		{"alike", []Server{{Name: "s"}}, map[string][]string{"s": {"read-file", "read_file"}}, []string{"s__read-file", "s__read_file"}},
		{"mangled ones are told apart", []Server{{Name: "s"}}, map[string][]string{"s": {"a.b", "a b", "a_b"}},
			[]string{"s__a_b_407e8e5c", "s__a_b_eae83beb", "s__a_b"}},
		{"too long", []Server{{Name: "s"}}, map[string][]string{"s": {long}}, []string{"s__" + long[:52] + "_7790a31a"}},
		{"no prefix", []Server{{Name: "s", Prefix: ptr("")}}, map[string][]string{"s": {"a"}}, []string{"a"}},
		{"own prefix", []Server{{Name: "s", Prefix: ptr("p")}}, map[string][]string{"s": {"a"}}, []string{"p__a"}},
		{"an ambiguous prefix is hashed, the other never", []Server{{Name: "a__b"}, {Name: "a"}},
			map[string][]string{"a__b": {"c"}, "a": {"b__c"}}, []string{"a__b__c_a92700ce", "a__b__c"}},
		{"and so although nothing clashes yet", []Server{{Name: "a__b"}, {Name: "a"}}, map[string][]string{"a__b": {"c"}}, []string{"a__b__c_a92700ce"}},
		{"but not without the other server", []Server{{Name: "a__b"}}, map[string][]string{"a__b": {"c"}}, []string{"a__b__c"}},
		{"a trailing underscore", []Server{{Name: "a_"}, {Name: "a"}}, map[string][]string{"a_": {"b"}, "a": {"_b"}}, []string{"a___b_a00766a3", "a___b"}},
		{"a bare name in another's space", []Server{{Name: "bare", Prefix: ptr("")}, {Name: "a"}},
			map[string][]string{"bare": {"a__x", "y"}, "a": {"x"}}, []string{"a__x_190ef194", "y", "a__x"}},
		{"one prefix for two", []Server{{Name: "a", Prefix: ptr("")}, {Name: "b", Prefix: ptr("")}},
			map[string][]string{"a": {"search", "x"}, "b": {"search", "y"}}, []string{"search_549d551a", "x", "search_5ba67924", "y"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := with(t, tt.servers...)
			for server, all := range tt.tools {
				feed(t, c, server, tools(all...))
			}
			v := view(t, c, "")
			got := names(t, v, Tools)
			if !slices.Equal(got, tt.want) {
				t.Fatalf("got  %q\nwant %q", got, tt.want)
			}
			i := 0
			for _, s := range tt.servers {
				for _, original := range tt.tools[s.Name] {
					if to, ok := v.Tool(got[i]); !ok || to.Server != s.Name || to.Name != original {
						t.Errorf("%s leads to %+v, %v; want %s of %s", got[i], to, ok, original, s.Name)
					}
					i++
				}
			}
		})
	}
}

// FuzzNames: whatever the names are, each entry gets one of its own, valid and
// short enough, the same in any order.
func FuzzNames(f *testing.F) {
	f.Add("a__b", "a", "", "c", "b__c", "a__b__c", uint64(1))
	f.Add("s", "s_", "s__", "x", "_x", "__x", uint64(2))
	f.Add("a", "b", "", "read file", "read_file", "read-file", uint64(3))
	f.Add("ä", "", "p", strings.Repeat("y", 100), "a", strings.Repeat("y", 101), uint64(4))
	f.Fuzz(func(t *testing.T, p1, p2, p3, n1, n2, n3 string, seed uint64) {
		cfgs := []*config{
			{Server: Server{Name: "one"}, prefix: p1}, {Server: Server{Name: "two"}, prefix: p2}, {Server: Server{Name: "three"}, prefix: p3},
		}
		separate(cfgs)
		var all []*Entry
		for _, cfg := range cfgs {
			had := map[string]bool{}
			// The names of each other, so that plain ones clash.
			for _, n := range []string{n1, n2, n3, p1 + separator + n1, hashed(n1, "one", n1, 8), hashed(n2, "two", n2, 24)} {
				if had[n] || n == "" {
					continue
				}
				had[n] = true
				e := &Entry{Server: cfg.Name, Name: n, base: n}
				e.plain, e.usable = cfg.plain(n)
				all = append(all, e)
			}
		}
		first := assign(all, Prefixed)
		was := map[*Entry]string{}
		seen := map[string]bool{}
		for i, name := range first {
			if name == "" {
				continue // claimed even with 24 digits: shown as shadowed
			}
			if !proper(name) {
				t.Fatalf("%q is no proper name", name)
			}
			if seen[name] {
				t.Fatalf("%q is given twice", name)
			}
			seen[name] = true
			was[all[i]] = name
		}
		rnd := rand.New(rand.NewPCG(seed, 1))
		rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for i, name := range assign(all, Prefixed) {
			if was[all[i]] != name {
				t.Fatalf("%s of %s was %q, and is %q in another order", all[i].Name, all[i].Server, was[all[i]], name)
			}
		}
	})
}

// Names don't depend on which servers are up, unless two share a prefix.
func TestNamesDoNotDependOnWhoIsUp(t *testing.T) {
	servers := []Server{{Name: "a"}, {Name: "a__b"}, {Name: "bare", Prefix: ptr("")}, {Name: "c_"}, {Name: "c"}}
	offered := map[string][]string{
		"a": {"b__c", "x", "x y"}, "a__b": {"c", "d"}, "bare": {"a__x", "c__q", "z"}, "c_": {"q"}, "c": {"_q", "q"},
	}
	want := map[[2]string]string{}
	for mask := 1; mask < 1<<len(servers); mask++ {
		c := with(t, servers...)
		for i, s := range servers {
			if mask&(1<<i) != 0 {
				feed(t, c, s.Name, tools(offered[s.Name]...))
			}
		}
		v := view(t, c, "")
		for i, outer := range v.lists[Tools].outer {
			e := v.lists[Tools].entries[i]
			key := [2]string{e.Server, e.Name}
			if want[key] == "" {
				want[key] = outer
			}
			if want[key] != outer {
				t.Errorf("%v is %q or %q, as others are up", key, want[key], outer)
			}
		}
	}
}
