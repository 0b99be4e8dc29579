package route

import (
	"fmt"
	"regexp"
	"strings"
)

// Place is the part of a host or a path that holds a name, such as a tenant's.
type Place struct {
	host bool
	re   *regexp.Regexp // nil for the first label of the host
}

// ParsePlace parses host (its first label), host:REGEX or path:REGEX; the first group
// that matches is the name. It returns false for any other text.
func ParsePlace(text string) (p Place, ok bool, err error) {
	kind, pattern, more := strings.Cut(text, ":")
	if kind == "host" && !more {
		return Place{host: true}, true, nil
	}
	if kind != "host" && kind != "path" || pattern == "" {
		return Place{}, false, nil
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return Place{}, true, err
	}
	if re.NumSubexp() < 1 {
		return Place{}, true, fmt.Errorf("%q has no group: put what is the name into brackets, as in path:^/t/([^/]+)/", pattern)
	}
	return Place{kind == "host", re}, true, nil
}

// Host reports whether the place is in the host.
func (p *Place) Host() bool { return p.host }

// Text returns the text that holds the name: the host without its port, or the path.
func (p *Place) Text(host, path []byte) []byte {
	if p.host {
		return WithoutPort(host)
	}
	return path
}

// Find returns the range [from, to) of the name in text. It returns false if there is
// none.
func (p *Place) Find(text []byte) (from, to int, ok bool) {
	if p.re == nil {
		to = firstLabel(text)
		return 0, to, to > 0
	}
	m := p.re.FindSubmatchIndex(text)
	for i := 2; i+1 < len(m); i += 2 {
		if m[i] >= 0 {
			return m[i], m[i+1], true
		}
	}
	return 0, 0, false
}

// Name returns the name, or nil if there is none.
func (p *Place) Name(host, path []byte) []byte {
	text := p.Text(host, path)
	if from, to, ok := p.Find(text); ok {
		return text[from:to]
	}
	return nil
}

// firstLabel returns the length of the first label: 4 for acme.example.com. It returns 0
// for an address and for a name of one label.
func firstLabel(host []byte) int {
	dot, letters := -1, false
	for i, c := range host {
		if c == '.' && dot < 0 {
			dot = i
		}
		letters = letters || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	if dot <= 0 || !letters || host[0] == '[' {
		return 0
	}
	return dot
}

// WithoutPort returns a host without its port.
func WithoutPort(host []byte) []byte {
	for i := len(host) - 1; i >= 0; i-- {
		switch c := host[i]; {
		case c == ':':
			return host[:i]
		case c < '0' || c > '9':
			return host
		}
	}
	return host
}
