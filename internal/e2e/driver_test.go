package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// With this variable set to the host's program, the test program is the client
// whose conduct the conformance suite judges: it starts a host for the server
// at the address in its argument, and asks of it what the scenario is about.
//
// It is a plain client of protocol 2025-11-25 that checks nothing, corrects
// nothing and knows no header, so that the suite sees the host's conduct alone.
const driverEnv = "HERMES_TEST_DRIVER"

func drive() {
	if err := driveScenario(os.Args[len(os.Args)-1], os.Getenv("MCP_CONFORMANCE_SCENARIO")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func driveScenario(url, scenario string) error {
	dir, err := os.MkdirTemp("", "hermes-driver-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	config := filepath.Join(dir, "config.hcl")
	text := fmt.Sprintf("server \"suite\" {\n  prefix = \"\"\n  transport \"http\" {\n    url = %q\n  }\n}\n", url)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	d, err := newDriver(config)
	if err != nil {
		return err
	}
	return errors.Join(d.perform(scenario), d.close())
}

// A driver is a client of a host on stdio.
type driver struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	log chan struct{} // closed at the end of the host's log
	id  int
}

// newDriver starts the host and waits until the server is ready.
func newDriver(config string) (*driver, error) {
	cmd := exec.Command(os.Getenv(driverEnv), "stdio", "--config", config, "--log-format", "json")
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	stderr, logErr := cmd.StderrPipe()
	if err := errors.Join(inErr, outErr, logErr, cmd.Start()); err != nil {
		return nil, err
	}
	d := &driver{cmd: cmd, in: in, out: bufio.NewReader(out), log: make(chan struct{})}
	ready := make(chan struct{})
	go func() {
		defer close(d.log)
		seen := false
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			fmt.Fprintln(os.Stderr, lines.Text())
			var l line
			if json.Unmarshal(lines.Bytes(), &l) == nil && l.State == "ready" && !seen {
				seen = true
				close(ready)
			}
		}
	}()
	select {
	case <-ready:
		return d, nil
	case <-d.log:
		return nil, errors.Join(errors.New("the host ended"), cmd.Wait())
	case <-time.After(patience):
		return nil, errors.Join(errors.New("the server was not ready in time"), d.close())
	}
}

// close lets the host end in order.
func (d *driver) close() error {
	err := d.in.Close()
	<-d.log
	return errors.Join(err, d.cmd.Wait())
}

type object = map[string]any

func (d *driver) send(message object) error {
	message["jsonrpc"] = "2.0"
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	_, err = d.in.Write(append(text, '\n'))
	return err
}

// call makes a request and returns its result. An error of the server is one.
func (d *driver) call(method string, params object) (json.RawMessage, error) {
	d.id++
	if err := d.send(object{"id": d.id, "method": method, "params": params}); err != nil {
		return nil, err
	}
	for {
		text, err := d.out.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("%s: the host is gone: %w", method, err)
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				RequestedSchema struct {
					Properties map[string]struct{ Default any }
				}
			}
			Result, Error json.RawMessage
		}
		if err := json.Unmarshal(text, &m); err != nil {
			return nil, fmt.Errorf("the host wrote %s: %w", text, err)
		}
		switch {
		case m.Method == "elicitation/create":
			content := object{}
			for name, p := range m.Params.RequestedSchema.Properties {
				content[name] = p.Default
				if p.Default == nil {
					content[name] = true // the only question without defaults is for a boolean
				}
			}
			if err := d.send(object{"id": m.ID, "result": object{"action": "accept", "content": content}}); err != nil {
				return nil, err
			}
		case string(m.ID) != fmt.Sprint(d.id):
		case m.Error != nil:
			return nil, fmt.Errorf("%s: %s", method, m.Error)
		default:
			return m.Result, nil
		}
	}
}

func (d *driver) tool(name string, arguments any) error {
	result, err := d.call("tools/call", object{"name": name, "arguments": arguments})
	fmt.Fprintf(os.Stderr, "%s: %s %v\n", name, result, err)
	return err
}

// perform begins a session and does what a scenario wants to see. What the
// suite's servers refuse is for the suite to judge.
func (d *driver) perform(scenario string) error {
	if _, err := d.call("initialize", object{
		"protocolVersion": "2025-11-25",
		"capabilities":    object{"elicitation": object{}},
		"clientInfo":      object{"name": "driver", "version": "1"},
	}); err != nil {
		return err
	}
	if err := d.send(object{"method": "notifications/initialized"}); err != nil {
		return err
	}
	text, err := d.call("tools/list", object{})
	if err != nil {
		return err
	}
	var list struct {
		Tools []struct {
			Name        string
			InputSchema json.RawMessage
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}

	switch scenario {
	case "initialize", "request-metadata", "json-schema-ref-no-deref":
		return nil // the session and the lists are all that is wanted
	case "tools_call":
		return d.tool("add_numbers", object{"a": 5, "b": 3})
	case "elicitation-sep1034-client-defaults":
		return d.tool("test_client_elicitation_defaults", object{})
	case "sse-retry":
		return d.tool("test_reconnection", object{})
	case "json-schema-2020-12-preservation":
		for _, tool := range list.Tools {
			if tool.Name == "json_schema_2020_12_tool" {
				return d.tool("json_schema_echo", object{"schema": tool.InputSchema})
			}
		}
		return fmt.Errorf("the tool is not listed: %s", text)
	case "sep-2322-client-request-state":
		for _, name := range []string{"test_mrtr_echo_state", "test_mrtr_no_state", "test_mrtr_unrelated", "test_mrtr_no_result_type"} {
			_ = d.tool(name, object{})
		}
		return nil
	case "http-standard-headers":
		return d.performHeaders(list.Tools[0].Name)
	case "http-custom-headers":
		var context struct {
			ToolCalls []struct {
				Name      string
				Arguments json.RawMessage
			}
		}
		if err := json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &context); err != nil {
			return err
		}
		for _, c := range context.ToolCalls {
			_ = d.tool(c.Name, c.Arguments)
		}
		return nil
	case "http-invalid-tool-headers":
		for _, tool := range list.Tools {
			_ = d.tool(tool.Name, object{"region": "us-west1"})
		}
		return nil
	}
	return fmt.Errorf("no such scenario: %q", scenario)
}

// performHeaders makes one request of each kind that names something.
func (d *driver) performHeaders(tool string) error {
	var found struct {
		Resources []struct{ URI string }
		Prompts   []struct{ Name string }
	}
	for _, method := range []string{"resources/list", "prompts/list"} {
		text, err := d.call(method, object{})
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &found); err != nil {
			return err
		}
	}
	if len(found.Resources) == 0 || len(found.Prompts) == 0 {
		return fmt.Errorf("the lists are incomplete: %+v", found)
	}
	_, readErr := d.call("resources/read", object{"uri": found.Resources[0].URI})
	_, getErr := d.call("prompts/get", object{"name": found.Prompts[0].Name})
	return errors.Join(d.tool(tool, object{}), readErr, getErr)
}
