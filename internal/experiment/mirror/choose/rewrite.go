package choose

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// RewriteOptions are the rules for how copies differ from the client's request.
type RewriteOptions struct {
	Host  string   // in place of the client's; empty: the client's
	Paths []string // REGEX=REPLACEMENT, in order, each applied to what the one before it made; $1 is a group. The query is kept
	Set   []string // NAME: VALUE, in place of the client's fields of that name
	Drop  []string // names of fields that are left out
}

// Rewriter changes copies. The zero value, and nil, change nothing. It is safe
// for concurrent use.
type Rewriter struct {
	host    []byte
	paths   []pathRule
	set     []byte   // field lines
	removed []string // names that were set or dropped
}

type pathRule struct {
	re          *regexp.Regexp
	replacement []byte
	expand      bool
}

// forbidden lists the fields of framing and routing, which the sender of a message
// makes.
var forbidden = []string{"connection", "content-length", "transfer-encoding", "trailer", "te", "upgrade", "keep-alive", "proxy-connection", "tailscope-mirror"}

// NewRewriter compiles the rules. Its error lists every wrong rule, and what to write
// instead.
func NewRewriter(o RewriteOptions) (*Rewriter, error) {
	w := &Rewriter{host: []byte(o.Host)}
	var errs []error
	if o.Host != "" && !httpguts.ValidHostHeader(o.Host) || strings.ContainsAny(o.Host, "/ ") {
		errs = append(errs, fmt.Errorf("host: %q is not a value of a Host header: write NAME or NAME:PORT", o.Host))
	}
	for _, text := range o.Paths {
		r, err := parsePathRule(text)
		errs = append(errs, err)
		w.paths = append(w.paths, r)
	}
	for _, text := range o.Set {
		name, value, found := strings.Cut(text, ":")
		value = strings.Trim(value, " \t")
		if !found || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			errs = append(errs, fmt.Errorf("set-header: %q is not NAME: VALUE, such as X-Copy: 1", text))
			continue
		}
		errs = append(errs, checkName("set", name))
		w.set = fmt.Appendf(w.set, "%s: %s\r\n", name, value)
		w.removed = append(w.removed, name)
	}
	for _, name := range o.Drop {
		if name = strings.TrimSpace(name); !httpguts.ValidHeaderFieldName(name) {
			errs = append(errs, fmt.Errorf("drop-header: %q is not a name of a header field: write a name such as Cookie", name))
			continue
		}
		errs = append(errs, checkName("drop", name))
		w.removed = append(w.removed, name)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return w, nil
}

func checkName(what, name string) error {
	switch lower := strings.ToLower(name); {
	case lower == "host":
		return fmt.Errorf("%s-header: %s: write the host of copies with mirror.host instead", what, name)
	case slices.Contains(forbidden, lower):
		return fmt.Errorf("%s-header: %s: it says how the message is sent and cannot be changed", what, name)
	}
	return nil
}

func parsePathRule(text string) (pathRule, error) {
	pattern, replacement, err := cutRule(text)
	if err != nil {
		return pathRule{}, fmt.Errorf("rewrite: %q is not REGEX=REPLACEMENT, such as ^/v1/=/v2/", text)
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return pathRule{}, fmt.Errorf("rewrite: %q: %w", text, err)
	}
	if strings.ContainsAny(replacement, "?# ") || !printable(replacement) {
		return pathRule{}, fmt.Errorf("rewrite: %q: the replacement is of a path, so no ?, #, space or control character may be in it: write them as %%3F, %%23, %%20", text)
	}
	for _, m := range groups.FindAllStringSubmatch(strings.ReplaceAll(replacement, "$$", ""), -1) {
		name := m[1] + m[2]
		if n, err := strconv.Atoi(name); err == nil && n > re.NumSubexp() || err != nil && re.SubexpIndex(name) < 0 {
			return pathRule{}, fmt.Errorf("rewrite: %q: $%s is not a group of the expression%s", text, name, braces(name))
		}
	}
	return pathRule{re, []byte(replacement), strings.Contains(replacement, "$")}, nil
}

// groups are references to groups as package regexp reads them.
var groups = regexp.MustCompile(`\$(?:([0-9A-Za-z_]+)|\{([0-9A-Za-z_]+)\})`)

// braces returns the hint for a group's number that letters follow.
func braces(name string) string {
	if i := strings.IndexFunc(name, func(c rune) bool { return c < '0' || c > '9' }); i > 0 {
		return fmt.Sprintf(": write ${%s}%s", name[:i], name[i:])
	}
	return ", which counts them by its parentheses from $1"
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// AppendTarget appends the target of a copy: target with its path rewritten. The
// path begins with a slash whatever the rules make of it.
func (w *Rewriter) AppendTarget(dst, target []byte) []byte {
	if w == nil || len(w.paths) == 0 {
		return append(dst, target...)
	}
	prefix, path, query := split(target)
	if len(path) == 0 || path[0] != '/' { // OPTIONS *
		return append(dst, target...)
	}
	for i := range w.paths {
		path = w.paths[i].apply(path)
	}
	dst = append(dst, prefix...)
	if len(path) == 0 || path[0] != '/' {
		dst = append(dst, '/')
	}
	return append(append(dst, path...), query...)
}

func (r *pathRule) apply(path []byte) []byte {
	if !r.re.Match(path) {
		return path
	}
	if r.expand {
		return r.re.ReplaceAll(path, r.replacement)
	}
	return r.re.ReplaceAllLiteral(path, r.replacement)
}

// Target, Host and Fields report whether AppendTarget, AppendHost and AppendFields
// may change anything.
func (w *Rewriter) Target() bool { return w != nil && len(w.paths) > 0 }
func (w *Rewriter) Host() bool   { return w != nil && len(w.host) > 0 }
func (w *Rewriter) Fields() bool { return w != nil && len(w.removed) > 0 }

// AppendHost appends the host of a copy: the one that was set, default host.
func (w *Rewriter) AppendHost(dst, host []byte) []byte {
	if w.Host() {
		host = w.host
	}
	return append(dst, host...)
}

// AppendFields appends the field lines of a copy, each with its line end: without
// those that are dropped, and with those that are set.
func (w *Rewriter) AppendFields(dst, lines []byte) []byte {
	if !w.Fields() {
		return append(dst, lines...)
	}
	for len(lines) > 0 {
		end := bytes.IndexByte(lines, '\n') + 1
		if end == 0 {
			end = len(lines)
		}
		line := lines[:end]
		lines = lines[end:]
		if i := bytes.IndexByte(line, ':'); i < 0 || !w.drops(line[:i]) {
			dst = append(dst, line...)
		}
	}
	return append(dst, w.set...)
}

func (w *Rewriter) drops(name []byte) bool {
	for _, g := range w.removed {
		if len(name) == len(g) && strings.EqualFold(view(name), g) {
			return true
		}
	}
	return false
}
