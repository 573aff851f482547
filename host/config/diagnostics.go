package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/mattn/go-isatty"
	wordwrap "github.com/mitchellh/go-wordwrap"
)

// Diagnostics are what Load or Resolve found wrong, in the order of the file.
// The zero value is empty.
//
// They are written by a renderer of our own: HCL's shows no column without
// colour, prints the values of variables, and prints source lines as they are.
// Ours underlines the place, names the origin of a variable instead of its
// value, and blanks secrets in source lines and messages.
type Diagnostics struct {
	list hcl.Diagnostics
	src  *source
}

// HasErrors reports whether there is anything but warnings.
func (d Diagnostics) HasErrors() bool { return d.list.HasErrors() }

// Len returns the number of diagnostics.
func (d Diagnostics) Len() int { return len(d.list) }

// faultOfPlugin is the Extra of diagnostics that blame a plugin's process
// rather than the file.
type faultOfPlugin struct{}

// Fatal reports whether there is an error that only a change of the file (or
// of its variables) can mend. A host refuses to start then; other errors say
// that a plugin does not work, and such a server has a Fault.
func (d Diagnostics) Fatal() bool {
	return slices.ContainsFunc(d.list, func(g *hcl.Diagnostic) bool {
		_, fault := g.Extra.(faultOfPlugin)
		return g.Severity == hcl.DiagError && !fault
	})
}

// Err returns nil if there is no error, else an error of one line that names
// the first and the number of others. Write says it all.
func (d Diagnostics) Err() error {
	var first string
	n := 0
	for i, g := range d.list {
		if g.Severity == hcl.DiagError {
			if n++; n == 1 {
				first = d.Lines()[i]
			}
		}
	}
	switch n {
	case 0:
		return nil
	case 1:
		return errors.New(first)
	}
	return fmt.Errorf("%s (and %d more)", first, n-1)
}

// Lines returns each diagnostic as one line: place, severity, what is wrong
// and what to do.
func (d Diagnostics) Lines() []string {
	var out []string
	for _, g := range d.list {
		place := ""
		if g.Subject != nil {
			place = where(*g.Subject) + ": "
		}
		text := d.src.secrets.redact(strings.TrimSuffix(g.Summary, ".") + ": " + g.Detail)
		out = append(out, place+severity(g)+": "+strings.Join(strings.Fields(text), " "))
	}
	return out
}

// ttyWidth is where messages are wrapped on a terminal.
const ttyWidth = 78

// Write writes all diagnostics for people: place, source line, what is wrong,
// what to do. Colour and wrapping are used only on a terminal, colour only if
// NO_COLOR is not set.
func (d Diagnostics) Write(w io.Writer) error {
	r := renderer{src: d.src}
	if f, ok := w.(*os.File); ok && (isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd())) {
		r.width = ttyWidth
		r.color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	for _, g := range d.list {
		r.diagnostic(g)
	}
	_, err := w.Write(r.buf.Bytes())
	return err
}

// String returns what Write writes to a file.
func (d Diagnostics) String() string {
	r := renderer{src: d.src}
	for _, g := range d.list {
		r.diagnostic(g)
	}
	return r.buf.String()
}

// sorted returns the diagnostics in the order of the file, those without a
// place first.
func sorted(list hcl.Diagnostics) hcl.Diagnostics {
	slices.SortStableFunc(list, func(a, b *hcl.Diagnostic) int {
		switch {
		case a.Subject == nil || b.Subject == nil:
			return cmp.Compare(btoi(a.Subject != nil), btoi(b.Subject != nil))
		default:
			return cmp.Or(
				cmp.Compare(a.Subject.Filename, b.Subject.Filename),
				cmp.Compare(a.Subject.Start.Byte, b.Subject.Start.Byte),
				cmp.Compare(a.Summary, b.Summary),
				cmp.Compare(a.Detail, b.Detail),
			)
		}
	})
	return list
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func severity(g *hcl.Diagnostic) string {
	if g.Severity == hcl.DiagWarning {
		return "warning"
	}
	return "error"
}

// where returns a range's start as "file:line:column", "" for none.
func where(r hcl.Range) string {
	if r.Filename == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d:%d", r.Filename, r.Start.Line, r.Start.Column)
}

// A renderer writes diagnostics as text.
type renderer struct {
	buf   bytes.Buffer
	src   *source
	width uint // 0: no wrapping
	color bool
}

func (r *renderer) paint(code, text string) string {
	if !r.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (r *renderer) diagnostic(g *hcl.Diagnostic) {
	code, head := "1;31", "Error"
	if g.Severity == hcl.DiagWarning {
		code, head = "1;33", "Warning"
	}
	fmt.Fprintf(&r.buf, "%s: %s\n\n", r.paint(code, head), r.src.secrets.redact(g.Summary))
	if g.Subject != nil {
		r.snippet(*g.Subject, code)
	}
	for _, origin := range r.src.origins(g) {
		fmt.Fprintf(&r.buf, "  %s\n\n", origin)
	}
	if g.Detail != "" {
		text := r.src.secrets.redact(g.Detail)
		if r.width > 0 {
			text = wordwrap.WrapString(text, r.width)
		}
		fmt.Fprintf(&r.buf, "%s\n\n", strings.TrimRight(text, "\n"))
	}
}

// lineWidth is how much of a source line is shown.
const lineWidth = 160

// snippet writes the place, the source line and a line that marks the part.
func (r *renderer) snippet(at hcl.Range, code string) {
	fmt.Fprintf(&r.buf, "  %s%s:\n", where(at), r.src.context(at))
	before, part, after, ok := r.src.line(at)
	if !ok {
		r.buf.WriteByte('\n')
		return
	}
	before, part, after = clip(before, part, after)
	gutter := fmt.Sprintf("%5d: ", at.Start.Line)
	fmt.Fprintf(&r.buf, "%s%s%s%s\n", gutter, before, part, after)
	marks := strings.Repeat("^", max(1, len([]rune(part))))
	fmt.Fprintf(&r.buf, "%s%s%s\n\n", strings.Repeat(" ", len(gutter)), blank(before), r.paint(code, marks))
}

// clip shortens a source line around the part that is marked.
func clip(before, part, after string) (string, string, string) {
	const side = lineWidth / 4
	if len(before)+len(part)+len(after) <= lineWidth {
		return before, part, after
	}
	if b := []rune(before); len(b) > side {
		before = "…" + string(b[len(b)-side:])
	}
	if p := []rune(part); len(p) > 2*side {
		return before, string(p[:2*side]), "…"
	}
	if a := []rune(after); len(a) > side {
		after = string(a[:side]) + "…"
	}
	return before, part, after
}

// blank returns text of the same width as s without ink.
func blank(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, s)
}
