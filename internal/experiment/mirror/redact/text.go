package redact

import (
	"bytes"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// nested bounds the depth of values within values: JSON in a string of JSON, a URL in
// a parameter of a URL.
const nested = 4

// Text redacts a value without a known name: text that looks like a secret, the
// secret parameters of any URL in it, values assigned to a secret name (name=value),
// and the secret fields of JSON within it. A value that is JSON as a whole is
// redacted as JSON.
func (r *Redactor) Text(s string) string { return r.text(s, nested) }

func (r *Redactor) text(s string, depth int) string {
	if s == "" {
		return s
	}
	if body := strings.TrimLeft(s, " \t\r\n\ufeff"); depth > 0 && body != "" && (body[0] == '{' || body[0] == '[') {
		if out, ok := r.wholeJSON(body, depth-1); ok {
			return s[:len(s)-len(body)] + out
		}
	}
	s = r.members(r.replace(s, parameter, depth))
	for _, p := range r.values {
		if p.needs != nil && !p.needs(s) {
			continue
		}
		s = p.ReplaceAllStringFunc(s, func(secret string) string {
			if strings.HasPrefix(secret, "://") && strings.HasSuffix(secret, "@") {
				return "://" + r.Mark(secret[3:len(secret)-1]) + "@"
			}
			return r.Mark(secret)
		})
	}
	return s
}

// Target redacts a request's target, in any of its forms (RFC 9112, section 3.2), or
// another value that is a URL and nothing else.
func (r *Redactor) Target(target string) string {
	return r.text(r.replace(target, wholeParameter, nested), nested)
}

// pattern matches the text of a secret. needs, if not nil, is a cheaper test that
// rules texts out.
type pattern struct {
	*regexp.Regexp
	needs func(string) bool
}

// Secrets wherever they stand.
var defaultValues = []pattern{
	// Three parts of base64url, the first a JSON object (RFC 7519).
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*)*`), containing("eyJ")},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/-]{8,}=*`), credentials},
	{regexp.MustCompile(`\b(AKIA|ASIA)[0-9A-Z]{16}\b`), containing("AKIA", "ASIA")},
	{regexp.MustCompile(`\b(gh[pousr]_|github_pat_|glpat-|xox[abprs]-|[sr]k_(live|test)_)[A-Za-z0-9_-]{10,}`), containing("gh", "glpat-", "xox", "k_")},
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`), containing("-----BEGIN")},
	// The user and password of a URL.
	{regexp.MustCompile(`://[^/?#\s"'<>@]+@`), containing("://")},
}

// credentials reports whether s names a scheme of RFC 7617 or 6750.
func credentials(s string) bool {
	for i := range len(s) {
		if c := s[i] | 0x20; c == 'b' && (hasPrefixFold(s[i:], "bearer") || hasPrefixFold(s[i:], "basic")) {
			return true
		}
	}
	return false
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

func containing(any ...string) func(string) bool {
	return func(s string) bool {
		return len(s) > 4 && slices.ContainsFunc(any, func(part string) bool { return strings.Contains(s, part) })
	}
}

// name=value as it stands in a query or a fragment. Within a text it may stand
// at the beginning of a word too, and the value ends where a URL would, or is in
// quotes.
var (
	parameter      = regexp.MustCompile(`(^|[?&#;,\s])([^?&#;,=\s"'<>]+)=("(?:[^"\\]|\\.)*"?|[^&#\s"'<>]*)`)
	wholeParameter = regexp.MustCompile(`([?&#;])([^?&#;=]+)=([^&#]*)`)
)

func (r *Redactor) replace(s string, parameter *regexp.Regexp, depth int) string {
	if !strings.Contains(s, "=") {
		return s
	}
	var b strings.Builder
	last := 0
	for _, m := range parameter.FindAllStringSubmatchIndex(s, -1) {
		b.WriteString(s[last:m[6]])
		b.WriteString(r.parameter(s[m[4]:m[5]], s[m[6]:m[7]], depth))
		last = m[7]
	}
	b.WriteString(s[last:])
	return b.String()
}

// parameter returns the escaped value of one parameter, redacted.
func (r *Redactor) parameter(name, value string, depth int) string {
	if value == "" {
		return value
	}
	if value[0] == '"' { // in a text: it is as it stands
		if out := r.parameter(name, strings.Trim(value, `"`), depth); out != strings.Trim(value, `"`) {
			return `"` + out + `"`
		}
		return value
	}
	plain := unescape(value)
	// user[password]=... and user.password=... are of the field password.
	for part := range strings.FieldsFuncSeq(unescape(name), func(c rune) bool { return c == '[' || c == ']' || c == '.' }) {
		if r.query.has(part) {
			return r.Mark(plain)
		}
	}
	if r.query.has(unescape(name)) {
		return r.Mark(plain)
	}
	if depth == 0 {
		if strings.ContainsAny(plain, "=%") { // it is not decoded
			return r.Mark(plain)
		}
		return value
	}
	if out := r.text(plain, depth-1); out != plain {
		return url.QueryEscape(out)
	}
	return value
}

func unescape(s string) string {
	if plain, err := url.QueryUnescape(s); err == nil {
		return plain
	}
	return s
}

// Body redacts an uncompressed body of a content type. A body without secrets is
// returned unchanged.
func (r *Redactor) Body(contentType string, body []byte) []byte {
	if len(body) == 0 {
		return body
	}
	media, _, _ := strings.Cut(strings.ToLower(contentType), ";")
	media = strings.TrimSpace(media)
	first := byte(0)
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) > 0 {
		first = trimmed[0]
	}
	switch {
	case media == "application/json" || strings.HasSuffix(media, "+json") || strings.HasSuffix(media, "-json") || strings.HasSuffix(media, "ndjson"),
		first == '{' || first == '[':
		return r.JSON(body)
	case media == "application/x-www-form-urlencoded":
		return r.form(body)
	case strings.HasPrefix(media, "multipart/"):
		return r.multipart(contentType, body)
	}
	s := string(body)
	if out := r.text(s, nested); out != s {
		return []byte(out)
	}
	return body
}

func (r *Redactor) form(body []byte) []byte {
	parts := strings.Split(string(body), "&")
	changed := false
	for i, part := range parts {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			name, value = "", part
		}
		if out := r.parameter(name, value, nested); out != value {
			changed = true
			if parts[i] = out; ok {
				parts[i] = name + "=" + out
			}
		}
	}
	if !changed {
		return body
	}
	return []byte(strings.Join(parts, "&"))
}
