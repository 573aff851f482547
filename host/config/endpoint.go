package config

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
)

// endpoint decodes an endpoint block: a selection of what the servers offer.
func (d *decoder) endpoint(b *hcl.Block, servers []Server) Endpoint {
	e := Endpoint{Name: b.Labels[0], Servers: []string{}, at: b.DefRange}
	if !serverForm.MatchString(e.Name) {
		d.fail(b.LabelRanges[0], "Invalid name", "The name of an endpoint consists of letters, digits, _ and -, begins with a letter or digit, and has at most 40 characters.")
	}
	names := make([]string, len(servers))
	for i, s := range servers {
		names[i] = s.Name
	}
	var given *hcl.Attribute
	seen := map[string]bool{}
	d.body(b.Body, []attr{
		first(texts("servers", &e.Servers, func(name string) error {
			switch {
			case !slices.Contains(names, name):
				if near := suggest(name, names); near != "" {
					return fmt.Errorf("there is no server of that name in this file; the nearest is %q", near)
				}
				return fmt.Errorf("there is no server of that name in this file")
			case seen[name]:
				return fmt.Errorf("it is in the list twice")
			}
			seen[name] = true
			return nil
		}), &given),
	}, []sub{choice("tools", &e.Tools), choice("resources", &e.Resources), choice("prompts", &e.Prompts)})
	if given == nil {
		d.fail(b.DefRange, "Missing argument", "The endpoint %q needs \"servers\", the names of the servers to choose from: servers = [\"…\"].", e.Name)
	}
	return e
}
