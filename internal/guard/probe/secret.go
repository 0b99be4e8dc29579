package probe

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

// maxSmall bounds files that hold a secret or certificates.
const maxSmall = 1 << 20

// readSmall returns a file's bytes and when it was last changed.
func readSmall(path string) ([]byte, time.Time, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, time.Time{}, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSmall+1))
	if err == nil && len(b) > maxSmall {
		err = fmt.Errorf("%s is larger than 1 MiB", path)
	}
	return b, info.ModTime(), err
}

// secrets are those that a probe has used. They are looked for in all that it
// says.
type secrets []string

// text returns a text, or the secret that stands for it.
func (h *secrets) text(what string, t spec.Text) (string, error) {
	if t.Secret == nil {
		return t.Plain, nil
	}
	return h.read(what, *t.Secret)
}

// read fetches a secret and remembers to hide it. What names it in the error is
// the caller's word, such as header X-Key.
func (h *secrets) read(what string, s spec.Secret) (string, error) {
	var v string
	switch {
	case s.Env != "":
		var ok bool
		if v, ok = os.LookupEnv(s.Env); !ok {
			return "", fmt.Errorf("%s: the environment variable %s is not set; set it for the server and start it again", what, s.Env)
		}
	case s.File != "":
		b, _, err := readSmall(s.File)
		if err != nil {
			return "", fmt.Errorf("%s: %w; name a file that the server may read", what, err)
		}
		v = strings.TrimRight(string(b), "\r\n")
	default:
		return "", fmt.Errorf("%s: no secret is named; write env or file and where it is", what)
	}
	if v == "" {
		return "", fmt.Errorf("%s: the secret is empty; fill %s", what, s.Env+s.File)
	}
	h.hide(v)
	return v, nil
}

// hide adds a secret in the forms that others may repeat it in: as it is, escaped
// for a URL, in base64, and without a first word such as Bearer.
func (h *secrets) hide(v string) {
	all := []string{v}
	if _, rest, ok := strings.Cut(v, " "); ok && len(rest) >= 4 {
		all = append(all, rest)
		if plain, err := base64.StdEncoding.DecodeString(rest); err == nil && utf8.Valid(plain) {
			all = append(all, string(plain))
			if _, password, ok := strings.Cut(string(plain), ":"); ok {
				all = append(all, password)
			}
		}
	}
	for _, s := range all {
		for _, form := range []string{s, url.QueryEscape(s), url.PathEscape(s), base64.StdEncoding.EncodeToString([]byte(s))} {
			if form != "" && !slices.Contains(*h, form) {
				*h = append(*h, form)
			}
		}
	}
}

const hidden = "[secret]"

// redact replaces the secrets in s.
func (h secrets) redact(s string) string {
	if len(h) == 0 || s == "" {
		return s
	}
	// The longest first, so that no part of one is left beside a shorter one.
	order := slices.Clone(h)
	slices.SortFunc(order, func(a, b string) int { return len(b) - len(a) })
	for _, v := range order {
		s = strings.ReplaceAll(s, v, hidden)
	}
	return s
}

func (h secrets) reading(r *event.Reading) {
	if len(h) > 0 {
		for i := range r.Perf {
			r.Perf[i].Label = h.redact(r.Perf[i].Label)
		}
	}
	r.Text = line(h.redact(r.Text))
	if r.Err != nil {
		if clean := line(h.redact(r.Err.Error())); clean != r.Err.Error() {
			r.Err = errors.New(clean)
		}
	}
}

// maxLine bounds what is said of one measurement, in bytes.
const maxLine = 500

// line makes one printable line of s, of maxLine bytes at most.
func line(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError:
			return '?'
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= maxLine {
		return s
	}
	end := maxLine - len("…")
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
