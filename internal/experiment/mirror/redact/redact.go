// Package redact finds secrets in requests and answers and puts markers in their
// place.
//
// A secret is known by where it stands (the name of a header, of a parameter, of
// a field of JSON or of a form) or by what it looks like (a regular expression).
// The marker is a short keyed hash of the secret: within a session equal secrets
// have equal markers and different ones different markers, so that what differs
// is still seen to differ. The key is random, lives in memory and dies with the
// session, so no marker leads back to its secret, however short that was.
//
// What cannot be read is not passed on: from the first byte that is not JSON, the
// rest of a JSON body is a marker too.
package redact

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Rules say what is secret; they are added to the defaults. The forms are
//
//	header:NAME  a header or trailer field
//	query:NAME   a parameter of a target, of any URL in a value, or of a form
//	json:NAME    a field of that name, wherever it is
//	json:PATH    one place, such as .user.email or .items[].card, and all below
//	value:REGEX  what matches, in any value; groups are not looked at
//
// Names are compared without case, hyphens and underscores, and a * at either
// end stands for anything: header:*-token.
type Rules []string

// Redactor replaces secrets. It is safe for concurrent use.
type Redactor struct {
	key    [32]byte
	header names
	query  names
	field  names
	paths  map[string]bool
	values []pattern
}

// Secrets by default.
var (
	defaultNames = []string{
		"*token*", "*secret*", "*password*", "*passwd*", "*passphrase*", "*apikey*",
		"*credential*", "*authorization*", "*sessionid*", "*privatekey*", "*accesskey*",
		"*csrf*", "*xsrf*", "pwd", "pass", "auth", "jwt", "otp", "pin", "ssn", "cvv", "cvc",
		"cardnumber", "iban", "sid", "phpsessid",
	}
	defaultHeaders = []string{
		"authorization", "proxyauthorization", "cookie", "setcookie", "cookie2", "setcookie2",
		"xauth*", "*-session", "*-signature", "authenticationinfo", "proxyauthenticationinfo",
		"xforwardedclientcert", "xamzsecuritytoken",
	}
	defaultQueries = []string{"key", "sig", "signature", "xamzsignature", "code"}
)

// New returns a redactor with a key of its own. It returns an error that names the
// first wrong rule and says what to write instead.
func New(rules Rules) (*Redactor, error) {
	r := &Redactor{paths: map[string]bool{}, values: slices.Clone(defaultValues)}
	rand.Read(r.key[:]) // never fails: it ends the program instead
	for _, n := range defaultNames {
		r.header.add(n)
		r.query.add(n)
		r.field.add(n)
	}
	for _, n := range defaultHeaders {
		r.header.add(n)
	}
	for _, n := range defaultQueries {
		r.query.add(n)
	}
	for _, rule := range rules {
		kind, what, ok := strings.Cut(rule, ":")
		if !ok || what == "" {
			return nil, fmt.Errorf("redact: rule %q: write header:NAME, query:NAME, json:PATH or value:REGEX", rule)
		}
		switch kind {
		case "header":
			r.header.add(what)
		case "query":
			r.query.add(what)
		case "json":
			if strings.ContainsAny(what, ".[") {
				r.paths["."+strings.TrimPrefix(what, ".")] = true
			} else {
				r.field.add(what)
			}
		case "value":
			re, err := regexp.Compile(what)
			if err != nil {
				return nil, fmt.Errorf("redact: rule %q: %w", rule, err)
			}
			if re.MatchString("") {
				return nil, fmt.Errorf("redact: rule %q: it matches nothing at all too, so it would cut every value; make it match one character or more", rule)
			}
			r.values = append(r.values, pattern{re, nil})
		default:
			return nil, fmt.Errorf("redact: rule %q: %q is not a kind of rule; write header:NAME, query:NAME, json:PATH or value:REGEX", rule, kind)
		}
	}
	return r, nil
}

// Mark returns the marker of a secret: "redacted-" and ten hexadecimal digits of its
// HMAC-SHA-256 under the session's key. It needs no escapes in a header, a URL or
// JSON.
func (r *Redactor) Mark(secret string) string {
	h := hmac.New(sha256.New, r.key[:])
	h.Write([]byte(secret))
	var sum [sha256.Size]byte
	return "redacted-" + hex.EncodeToString(h.Sum(sum[:0])[:5])
}

// Header returns the value of a header field, a marker if it is secret by name.
func (r *Redactor) Header(name, value string) string {
	if value == "" {
		return value
	}
	if r.header.has(name) {
		return r.Mark(value)
	}
	switch fold(name) {
	case "location", "referer", "contentlocation":
		return r.Target(value)
	}
	return r.Text(value)
}

// names is a set of names and of patterns with * at their ends.
type names struct {
	exact                    map[string]bool
	prefix, suffix, anywhere []string
	known                    sync.Map // of names as they came: bool, up to maxKnown
	count                    atomic.Int32
}

// Names repeat from request to request, so the results of has are cached, up to
// maxKnown names of at most maxKnownName bytes.
const maxKnown, maxKnownName = 4096, 64

func (n *names) add(name string) {
	first, last := strings.HasPrefix(name, "*"), strings.HasSuffix(name, "*")
	name = fold(strings.Trim(name, "*"))
	switch {
	case first && last:
		n.anywhere = append(n.anywhere, name)
	case first:
		n.suffix = append(n.suffix, name)
	case last:
		n.prefix = append(n.prefix, name)
	default:
		if n.exact == nil {
			n.exact = map[string]bool{}
		}
		n.exact[name] = true
	}
}

func (n *names) has(name string) bool {
	if len(name) > maxKnownName {
		return n.lookup(name)
	}
	if known, ok := n.known.Load(name); ok {
		return known.(bool)
	}
	found := n.lookup(name)
	if n.count.Add(1) <= maxKnown {
		n.known.Store(strings.Clone(name), found)
	}
	return found
}

func (n *names) lookup(name string) bool {
	name = fold(name)
	if n.exact[name] {
		return true
	}
	for _, s := range n.anywhere {
		if strings.Contains(name, s) {
			return true
		}
	}
	for _, s := range n.prefix {
		if strings.HasPrefix(name, s) {
			return true
		}
	}
	for _, s := range n.suffix {
		if strings.HasSuffix(name, s) {
			return true
		}
	}
	return false
}

var unhyphened = strings.NewReplacer("-", "", "_", "")

// fold makes X-Api-Key, api_key and apiKey equal.
func fold(name string) string { return unhyphened.Replace(strings.ToLower(name)) }
