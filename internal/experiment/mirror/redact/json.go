package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
)

// maxDepth bounds the nesting of objects and arrays; what is deeper counts as
// unreadable.
const maxDepth = 512

// JSON redacts a body of one or several JSON values. From the first byte that cannot
// be parsed the rest becomes a marker.
func (r *Redactor) JSON(body []byte) []byte { return r.JSONAt(nil, body) }

// JSONAt is JSON for a part of a larger body at a path; see Secret for the path.
func (r *Redactor) JSONAt(path []string, body []byte) []byte {
	if len(body) > 0 && r.Secret(path) {
		return []byte(`"` + r.Mark(string(body)) + `"`)
	}
	w := rewriter{r: r, depth: nested, path: slices.Clone(path)}
	if rest := w.rewrite(body); rest >= 0 {
		w.changed = true
		w.out.WriteString(`"` + r.Mark(string(body[rest:])) + `"`)
	}
	if !w.changed {
		return body
	}
	return w.out.Bytes()
}

// wholeJSON redacts a value that may be JSON; ok is false if it is not.
func (r *Redactor) wholeJSON(s string, depth int) (out string, ok bool) {
	if !json.Valid([]byte(s)) {
		return "", false
	}
	w := rewriter{r: r, depth: depth}
	if w.rewrite([]byte(s)) >= 0 {
		return r.Mark(s), true
	}
	if !w.changed {
		return s, true
	}
	return w.out.String(), true
}

// Secret reports whether the value at a path of JSON is secret whatever it holds. The
// path consists of names, and "[]" for the elements of arrays, from the outside in.
func (r *Redactor) Secret(path []string) bool {
	for _, name := range path {
		if name != "[]" && r.field.has(name) {
			return true
		}
	}
	return r.secretPath(path)
}

func (r *Redactor) secretPath(path []string) bool {
	if len(r.paths) == 0 {
		return false
	}
	at := ""
	for _, name := range path {
		if name == "[]" {
			at += name
		} else {
			at += "." + name
		}
		// Of an array at the top .[] and [] are the same.
		if r.paths[at] || r.paths["."+at] {
			return true
		}
	}
	return false
}

// rewriter copies JSON token by token.
type rewriter struct {
	r       *Redactor
	depth   int // how deep JSON within strings is still read
	out     bytes.Buffer
	enc     *json.Encoder // to out
	path    []string
	changed bool
}

var errDeep = errors.New("too deep")

// rewrite returns the offset of the first byte that cannot be parsed, or -1.
func (w *rewriter) rewrite(body []byte) int {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	for {
		before := int(dec.InputOffset())
		size := w.out.Len()
		if size > 0 {
			w.out.WriteByte('\n')
		}
		tok, err := dec.Token()
		if err == io.EOF {
			w.out.Truncate(size)
			return -1
		}
		if err == nil {
			err = w.value(dec, tok, body)
		}
		if err != nil {
			return max(before, min(int(dec.InputOffset()), len(body)))
		}
	}
}

// value copies the value that begins with tok.
func (w *rewriter) value(dec *json.Decoder, tok json.Token, body []byte) error {
	if len(w.path) > maxDepth {
		return errDeep
	}
	// What surrounds it was read before.
	if n := len(w.path); n > 0 && (w.path[n-1] != "[]" && w.r.field.has(w.path[n-1]) || w.r.secretPath(w.path)) {
		return w.secret(dec, tok, body)
	}
	switch v := tok.(type) {
	case json.Delim:
		w.out.WriteByte(byte(v))
		if err := w.members(dec, v == '{', body); err != nil {
			return err
		}
	case string:
		w.write(w.text(v))
	case json.Number:
		if out := w.text(v.String()); out != v.String() {
			w.write(out)
		} else {
			w.out.WriteString(v.String())
		}
	default:
		w.write(v)
	}
	return nil
}

func (w *rewriter) members(dec *json.Decoder, object bool, body []byte) error {
	for i := 0; ; i++ {
		tok, err := dec.Token()
		if err != nil {
			return err
		}
		if end, ok := tok.(json.Delim); ok && (end == '}' || end == ']') {
			w.out.WriteByte(byte(end))
			return nil
		}
		if i > 0 {
			w.out.WriteByte(',')
		}
		name := "[]"
		if object {
			name = tok.(string) // the decoder lets nothing else pass
			w.write(w.text(name))
			w.out.WriteByte(':')
			if tok, err = dec.Token(); err != nil {
				return err
			}
		}
		w.path = append(w.path, name)
		err = w.value(dec, tok, body)
		w.path = w.path[:len(w.path)-1]
		if err != nil {
			return err
		}
	}
}

// secret writes the marker of a whole value. null, true and false are not secret.
func (w *rewriter) secret(dec *json.Decoder, tok json.Token, body []byte) error {
	var secret string
	switch v := tok.(type) {
	case json.Delim:
		from := int(dec.InputOffset()) - 1
		for open := 1; open > 0; {
			tok, err := dec.Token()
			if err != nil {
				return err
			}
			if d, ok := tok.(json.Delim); ok {
				if d == '{' || d == '[' {
					open++
				} else {
					open--
				}
			}
		}
		secret = string(body[from:dec.InputOffset()])
	case string:
		secret = v
	case json.Number:
		secret = v.String()
	default:
		w.write(v)
		return nil
	}
	if secret == "" {
		w.write("")
		return nil
	}
	w.changed = true
	w.write(w.r.Mark(secret))
	return nil
}

func (w *rewriter) text(s string) string {
	out := w.r.text(s, w.depth)
	if out != s {
		w.changed = true
	}
	return out
}

func (w *rewriter) write(v any) {
	if w.enc == nil {
		w.enc = json.NewEncoder(&w.out)
		w.enc.SetEscapeHTML(false)
	}
	if w.enc.Encode(v) == nil {
		w.out.Truncate(w.out.Len() - 1) // the line end
	}
}

// Value returns a scalar at a path of JSON, redacted.
func (r *Redactor) Value(path []string, value string) string {
	if value != "" && r.Secret(path) {
		return r.Mark(value)
	}
	return r.Text(value)
}
