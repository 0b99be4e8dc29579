package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// detectFormat returns the known format of a log's first lines.
func detectFormat(first []byte) (string, error) {
	var lines [][]byte
	for line := range bytes.Lines(first) {
		if line = bytes.TrimRight(line, "\r\n"); len(line) > 0 && len(lines) < 20 {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return "tailscope", nil // there are no lines that could be misread
	}
	specs := append([]string{"tailscope"}, slices.DeleteFunc(slices.Clone(textNames), func(name string) bool { return strings.HasPrefix(name, "apache") })...)
	if lines[0][0] == '{' {
		specs = []string{"json", "caddy", "traefik", "envoy"}
	}
	for _, untimed := range [...]bool{false, true} { // formats with durations come first
		if untimed && lines[0][0] != '{' {
			specs = []string{"combined"}
		}
		for _, spec := range specs {
			f, err := compileFormat(spec, wanted{})
			if err != nil {
				return "", err
			}
			f.untimed = untimed
			p := parser{f: f}
			for _, line := range lines {
				// nginx's seconds have a point; other numbers at the end may mean anything.
				if p.read(line, &record{}) && (spec != "combined-time" || bytes.IndexByte(p.values[slotDuration], '.') >= 0) {
					return spec, nil
				}
			}
		}
	}
	if lines[0][0] == '{' {
		return "", fmt.Errorf("the lines are JSON, but not of nginx, Caddy, Traefik or Envoy: say which fields are meant, "+
			"as in json:time=ts,duration=took/ms,status=code,method=verb,path=url; the first line is\n%s", shorten(lines[0]))
	}
	combined, err := compileFormat("combined", wanted{})
	if err != nil {
		return "", err
	}
	p := parser{f: combined}
	more := false
	for _, line := range lines {
		more = more || !p.split(line) && p.problem.detail == "" // it matched until the end of the format
	}
	if more {
		return "", errors.New("the lines begin as the combined format and go on: give the log_format that nginx is configured with " +
			"(nginx -T | grep -A3 log_format shows it) as the format, or say apache if the number at their end is Apache's %D")
	}
	return "", fmt.Errorf("the lines are of no known format: name one of %s, or give the log_format that nginx is configured with as the format; the first line is\n%s", strings.Join(textNames, ", "), shorten(lines[0]))
}

// shorten returns a line shortened for display.
func shorten(line []byte) string {
	s := strings.ToValidUTF8(string(line[:min(len(line), 200)]), "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '.'
		}
		return r
	}, s)
	if len(line) > 200 {
		s += "…"
	}
	return s
}

// FirstTime returns when the first request in lines ended that can be parsed.
func (s *Source) FirstTime(lines []byte) (time.Time, bool) {
	src, err := s.ForLines(lines)
	if err != nil {
		return time.Time{}, false
	}
	p := parser{f: src.format}
	var r record
	for line := range bytes.Lines(lines) {
		if p.read(bytes.TrimRight(line, "\r\n"), &r) {
			return time.Unix(0, r.end), true
		}
	}
	return time.Time{}, false
}
