package shared

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hermes-host/hermes-host/shared/transportpb"
)

type limits struct {
	Depth int8     `hcl:"depth"`
	Tags  []string `hcl:"tags,optional"`
}

type sample struct {
	URL     string            `hcl:"url" doc:"Where."`
	Headers map[string]string `hcl:"headers,optional" sensitive:"true"`
	Retries int               `hcl:"retries,optional" default:"3"`
	Name    string            `hcl:"name,optional" default:"any\"one"`
	Ratio   float64           `hcl:"ratio,optional"`
	On      *bool             `hcl:"on,optional"`
	Wait    time.Duration     `hcl:"wait,optional" default:"1m30s"`
	Limits  *limits           `hcl:"limits,optional"`
	Ports   []uint16          `hcl:"ports,optional"`
}

func nobody(context.Context, Session, sample) (Conn, error) { return nil, nil }

func TestSchema(t *testing.T) {
	svc, err := newService(Plugin[sample]{Kind: "sample", Version: "1", Dial: nobody})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`url "string" required=true default= sensitive=false`,
		`headers ["map","string"] required=false default= sensitive=true`,
		`retries "number" required=false default=3 sensitive=false`,
		`name "string" required=false default="any\"one" sensitive=false`,
		`ratio "number" required=false default= sensitive=false`,
		`on "bool" required=false default= sensitive=false`,
		`wait "string" required=false default="1m30s" sensitive=false`,
		`limits ["object",{"depth":"number","tags":["list","string"]},["tags"]] required=false default= sensitive=false`,
		`ports ["list","number"] required=false default= sensitive=false`,
	}
	for i, a := range svc.about.Schema {
		got := fmt.Sprintf("%s %s required=%v default=%s sensitive=%v", a.Name, a.Type, a.Required, a.Default, a.Sensitive)
		if got != want[i] {
			t.Errorf("got  %s\nwant %s", got, want[i])
		}
	}
	if len(svc.about.Schema) != len(want) || svc.about.Schema[0].Doc != "Where." {
		t.Errorf("got %v", svc.about.Schema)
	}
}

func TestDecodeConfig(t *testing.T) {
	var c sample
	fault := decodeConfig(&c, []byte(`{"url":"u","headers":{"A":"1"},"on":false,"wait":"5s","limits":{"depth":4,"tags":null},"ports":[80],"ratio":1.5,"retries":null}`))
	if fault != nil {
		t.Fatal(fault)
	}
	if c.URL != "u" || c.Headers["A"] != "1" || c.Retries != 3 || c.Name != `any"one` || c.Ratio != 1.5 ||
		c.On == nil || *c.On || c.Wait != 5*time.Second || c.Limits == nil || c.Limits.Depth != 4 || len(c.Ports) != 1 || c.Ports[0] != 80 {
		t.Errorf("got %+v", c)
	}
}

func TestDecodeConfigFaults(t *testing.T) {
	for _, c := range []struct{ block, path, says string }{
		{`{}`, `attribute:"url"`, "required"},
		{`{"url":7}`, `attribute:"url"`, "a string"},
		{`{"url":"u","wait":"soon"}`, `attribute:"wait"`, "30s"},
		{`{"url":"u","wait":"-1s"}`, `attribute:"wait"`, "negative"},
		{`{"url":"u","ports":[1,70000]}`, `attribute:"ports" index:1`, "from 0 to 65535"},
		{`{"url":"u","limits":{"depth":-129}}`, `attribute:"limits" attribute:"depth"`, "from -128 to 127"},
		{`{"url":"u","headers":{"X":1}}`, `attribute:"headers" key:"X"`, "a string"},
		{`{"url":"u","colour":1}`, `attribute:"colour"`, "no attribute"},
		{`{"url":"u","retries":1.5}`, `attribute:"retries"`, "whole number"},
	} {
		var into sample
		fault := decodeConfig(&into, []byte(c.block))
		if fault == nil {
			t.Errorf("accepted %s", c.block)
			continue
		}
		var path []string
		for _, step := range fault.path {
			switch s := step.Step.(type) {
			case *transportpb.PathStep_Attribute:
				path = append(path, fmt.Sprintf("attribute:%q", s.Attribute))
			case *transportpb.PathStep_Key:
				path = append(path, fmt.Sprintf("key:%q", s.Key))
			case *transportpb.PathStep_Index:
				path = append(path, fmt.Sprintf("index:%d", s.Index))
			}
		}
		if got := strings.Join(path, " "); got != c.path || !strings.Contains(fault.message, c.says) {
			t.Errorf("%s: got %s: %s", c.block, got, fault.message)
		}
	}
}

func TestPluginMistakes(t *testing.T) {
	check := func(says string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
	type untagged struct{ A string }
	type twice struct {
		A string `hcl:"a"`
		B string `hcl:"a"`
	}
	type odd struct {
		A chan int `hcl:"a"`
	}
	type badDefault struct {
		A int `hcl:"a,optional" default:"many"`
	}
	type hidden struct {
		a string `hcl:"a"` //nolint:unused // the mistake under test
	}
	_ = hidden{}.a
	_, err := newService(Plugin[untagged]{Kind: "k", Dial: func(context.Context, Session, untagged) (Conn, error) { return nil, nil }})
	check("needs a tag", err)
	_, err = newService(Plugin[twice]{Kind: "k"})
	check("two attributes", err)
	_, err = newService(Plugin[odd]{Kind: "k"})
	check("chan int", err)
	_, err = newService(Plugin[badDefault]{Kind: "k"})
	check("a whole number", err)
	_, err = newService(Plugin[hidden]{Kind: "k"})
	check("not exported", err)
	_, err = newService(Plugin[string]{Kind: "k"})
	check("no struct", err)
	_, err = newService(Plugin[sample]{Kind: "k"})
	check("exactly one", err)
	_, err = newService(Plugin[sample]{Dial: nobody})
	check("no Kind", err)
}
