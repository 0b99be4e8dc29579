package redact

import (
	"bytes"
	"mime"
	"net/textproto"
	"strings"
)

// multipart replaces the secret parts of a multipart body (RFC 2046, section 5.1). A
// body without its boundary becomes one marker.
func (r *Redactor) multipart(contentType string, body []byte) []byte {
	_, params, err := mime.ParseMediaType(contentType)
	boundary := []byte("--" + params["boundary"])
	if err != nil || len(boundary) == 2 || !bytes.Contains(body, boundary) {
		return []byte(r.Mark(string(body)))
	}
	parts := bytes.Split(body, boundary)
	changed := false
	for i, part := range parts {
		if out := r.part(part); !bytes.Equal(out, part) {
			parts[i], changed = out, true
		}
	}
	if !changed {
		return body
	}
	return bytes.Join(parts, boundary)
}

// part redacts the text between two boundaries: a line end, header, an empty line,
// content and a line end.
func (r *Redactor) part(part []byte) []byte {
	head, content, ok := bytes.Cut(part, []byte("\r\n\r\n"))
	if !ok {
		return []byte(r.Text(string(part)))
	}
	content, line := bytes.CutSuffix(content, []byte("\r\n"))
	name, media := "", ""
	for field := range strings.SplitSeq(string(head), "\r\n") {
		key, value, _ := strings.Cut(field, ":")
		switch textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(key)) {
		case "Content-Disposition":
			if _, params, err := mime.ParseMediaType(strings.TrimSpace(value)); err == nil {
				name = params["name"]
			}
		case "Content-Type":
			media = strings.TrimSpace(value)
		}
	}
	switch {
	case name != "" && (r.query.has(name) || r.field.has(name)) && len(content) > 0:
		content = []byte(r.Mark(string(content)))
	case strings.HasPrefix(strings.ToLower(media), "multipart/"):
		content = []byte(r.Mark(string(content))) // parts within parts
	default:
		content = r.Body(media, content)
	}
	out := bytes.Join([][]byte{[]byte(r.Text(string(head))), content}, []byte("\r\n\r\n"))
	if line {
		out = append(out, "\r\n"...)
	}
	return out
}
