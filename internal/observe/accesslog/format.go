package accesslog

import (
	"errors"
	"fmt"
	"maps"
	"strings"
)

// slot is the meaning of a variable or field.
type slot uint8

const (
	unused        slot = iota
	slotTime           // the request's end, to the second: $time_local, $time_iso8601; or any time of a JSON log
	slotEpoch          // the same in Unix seconds with milliseconds: $msec; preferred
	slotStart          // the request's start
	slotDuration       // $request_time
	slotStatus         //
	slotRequest        // the whole request line
	slotMethod         //
	slotURI            // as the client sent it: $request_uri
	slotPath           // after nginx's rewrites: $uri
	slotHost           //
	slotServer         // $server_name
	slotUpAddr         // lists of several upstreams, see upstream.go
	slotUpTime         //
	slotUpConnect      //
	slotUpHeader       //
	slotUpStatus       //
	slotUpName         // $proxy_host
	slotQueued         // X-Request-Start
	slotQueued2        // X-Queue-Start
	slotRequestID      //
	slotParent         // the traceparent header
	slotTenant         // of the configured names, if they are not among those above
	slotVersion        //
	slotVariant        //
	slotBytes          // of the response: $body_bytes_sent; $bytes_sent has the headers too
	numSlots           //
)

// variables maps nginx's names to slots; the fields of a JSON log have the same names.
var variables = map[string]slot{
	"time_local": slotTime, "time_iso8601": slotTime, "msec": slotEpoch,
	"request_time": slotDuration, "status": slotStatus,
	"request": slotRequest, "request_method": slotMethod, "request_uri": slotURI, "uri": slotPath,
	"body_bytes_sent": slotBytes, "bytes_sent": slotBytes,
	"host": slotHost, "http_host": slotHost, "server_name": slotServer,
	"upstream_addr": slotUpAddr, "upstream_response_time": slotUpTime, "upstream_connect_time": slotUpConnect,
	"upstream_header_time": slotUpHeader, "upstream_status": slotUpStatus, "proxy_host": slotUpName,
	"http_x_request_start": slotQueued, "http_x_queue_start": slotQueued2,
	"request_id": slotRequestID, "http_x_request_id": slotRequestID, "http_traceparent": slotParent,
}

// wanted names the variables or fields that hold tenant, version and variant.
type wanted struct{ tenant, version, variant string }

// Combined is nginx's default format. It lacks the duration of a request, so that
// requests are only counted.
const Combined = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`

// Recommended is the recommended format: combined, then every variable that accesslog
// uses. Its name is tailscope.
const Recommended = Combined + ` $msec $request_time "$upstream_addr" "$upstream_response_time" "$upstream_connect_time" "$upstream_header_time" "$upstream_status" "$proxy_host" "$host" "$http_x_request_start" "$request_id" "$http_traceparent"`

// Directive is the recommended format as a line of nginx.conf.
const Directive = "log_format tailscope '" + Recommended + "';"

// ErrNoDuration reports that a format has the times of requests, but not their
// durations. Such a log is still ingested. Its text has the line to configure.
var ErrNoDuration = errors.New("the lines do not say how long a request took: they give the number of requests and errors (" + Requests + ") and the sizes of responses (" + ResponseBytes + "), but no durations and no breakdown. " +
	"Log $request_time too: put these two lines into nginx.conf (the first beside, the second in place of what is there), reload nginx, and say format tailscope\n" +
	Directive + "\naccess_log /var/log/nginx/access.log tailscope;")

type escape uint8

const (
	escapeDefault escape = iota // \xXX
	escapeJSON                  // \" \\ \n \u00XX
	escapeNone
)

// part is a literal text, then a variable (the last part may have none).
type part struct {
	literal string
	name    string // empty: none
	slot    slot
	as      shape
}

// shape determines how the end of a variable's value is found.
type shape uint8

const (
	untilNext shape = iota // up to the text that follows
	fixedTime              // a fixed number of bytes, which may include blanks
	list                   // items parted by ", " and " : "
)

// Format is compiled from a log_format or from the names of JSON fields. It is
// immutable.
type Format struct {
	name    string
	parts   []part
	escape  escape
	json    *fieldNames // not nil: the log is JSON
	untimed bool        // lines without a duration are counted
	bound   [numSlots]bool
	unit    int64 // nanoseconds of one unit of the request's duration
	unitUp  int64 // and of the upstreams'
	version slot  // which slot holds it, unused if none
	variant slot
	tenant  slot
}

func (f *Format) bind(w wanted, names map[string]slot) {
	f.tenant = w.slot(w.tenant, slotTenant, names)
	f.version = w.slot(w.version, slotVersion, names)
	f.variant = w.slot(w.variant, slotVariant, names)
}

func (w wanted) slot(name string, own slot, names map[string]slot) slot {
	name = strings.TrimPrefix(name, "$")
	if name == "" {
		return unused
	}
	if s, ok := names[name]; ok {
		return s
	}
	names[name] = own
	return own
}

func compileFormat(spec string, w wanted) (*Format, error) {
	names := make(map[string]slot, len(variables)+3)
	for name, s := range variables {
		names[name] = s
	}
	text, name := spec, spec
	switch spec {
	case "combined":
		text = Combined
	case "tailscope":
		text = Recommended
	}
	if f, ok, err := compileJSON(spec, names, w); ok || err != nil {
		return f, err
	}
	f := &Format{name: name, unit: 1e9, unitUp: 1e9}
	if known, ok := textFormats[spec]; ok {
		text, f.unit, f.unitUp = known.text, known.unit, known.unitUp
		maps.Copy(names, known.names)
	}
	f.bind(w, names)
	text, err := f.directive(text)
	if err != nil {
		return nil, err
	}
	if err := f.template(text, names); err != nil {
		return nil, err
	}
	return f, f.complete(w)
}

// complete returns an error that names what a format lacks.
func (f *Format) complete(w wanted) error {
	b := &f.bound
	var lacks []string
	if !b[slotTime] && !b[slotEpoch] && !b[slotStart] {
		lacks = append(lacks, "$msec")
	}
	if !b[slotRequest] && !b[slotURI] && !b[slotPath] {
		lacks = append(lacks, "$request")
	}
	if !b[slotStatus] {
		lacks = append(lacks, "$status")
	}
	for _, v := range []struct {
		s    slot
		name string
	}{{f.tenant, w.tenant}, {f.version, w.version}, {f.variant, w.variant}} {
		if v.s != unused && !b[v.s] {
			lacks = append(lacks, "$"+strings.TrimPrefix(v.name, "$"))
		}
	}
	if len(lacks) > 0 {
		return fmt.Errorf("there is no %s in it: add it, for example\n%s", strings.Join(lacks, " and no "), Directive)
	}
	f.untimed = !b[slotDuration] && !f.spans()
	return nil
}

// spans reports whether a request lasted from one time of a line to another.
func (f *Format) spans() bool {
	return f.bound[slotStart] && f.bound[slotTime] && !f.bound[slotDuration]
}

// directive returns the format within a whole directive:
//
//	log_format name [escape=default|json|none] string ...;
//
// as http://nginx.org/en/docs/http/ngx_http_log_module.html defines it. It returns any
// other text unchanged.
func (f *Format) directive(text string) (string, error) {
	rest := strings.TrimSpace(text)
	if kind, after, ok := strings.Cut(rest, " "); ok && kind == "log_format" {
		name, after, ok := strings.Cut(strings.TrimSpace(after), " ")
		if !ok {
			return "", errors.New("log_format needs a name and a text")
		}
		f.name, rest = name, strings.TrimSpace(after)
	} else if !strings.HasPrefix(rest, "escape=") && !strings.HasPrefix(rest, "'") {
		return text, nil
	}
	if after, ok := strings.CutPrefix(rest, "escape="); ok {
		i := strings.IndexAny(after, " \t\r\n")
		if i < 0 {
			return "", errors.New("escape= is followed by no text")
		}
		switch after[:i] {
		case "default":
		case "json":
			f.escape = escapeJSON
		case "none":
			f.escape = escapeNone
		default:
			return "", fmt.Errorf("escape=%s is not one of default, json, none", after[:i])
		}
		rest = strings.TrimSpace(after[i:])
	}
	return unquote(strings.TrimSuffix(strings.TrimRight(rest, " \t\r\n"), ";"))
}

// unquote joins nginx's strings: 'one' "two" three.
func unquote(text string) (string, error) {
	var out strings.Builder
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			i++
			continue
		case c != '\'' && c != '"':
			end := strings.IndexAny(text[i:], " \t\r\n")
			if end < 0 {
				end = len(text) - i
			}
			out.WriteString(text[i : i+end])
			i += end
			continue
		}
		closed := false
		for i++; i < len(text); i++ {
			if text[i] == c {
				i, closed = i+1, true
				break
			}
			if text[i] != '\\' || i+1 == len(text) {
				out.WriteByte(text[i])
				continue
			}
			i++
			switch text[i] {
			case '\'', '"', '\\':
				out.WriteByte(text[i])
			case 't':
				out.WriteByte('\t')
			case 'r':
				out.WriteByte('\r')
			case 'n':
				out.WriteByte('\n')
			default:
				out.WriteByte('\\')
				out.WriteByte(text[i])
			}
		}
		if !closed {
			return "", fmt.Errorf("a quote %c is never closed", c)
		}
	}
	return out.String(), nil
}

func isName(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// template cuts a format into parts.
func (f *Format) template(text string, names map[string]slot) error {
	if strings.ContainsAny(text, "\n\r") {
		return errors.New("a line break in it: a format is one line")
	}
	begin := 0 // start of the current literal
	for i := 0; i < len(text); {
		if text[i] != '$' {
			i++
			continue
		}
		literal, column := text[begin:i], i+1
		i++
		braced := i < len(text) && text[i] == '{'
		if braced {
			i++
		}
		start := i
		for i < len(text) && isName(text[i]) {
			i++
		}
		name := text[start:i]
		if name == "" || braced && (i == len(text) || text[i] != '}') {
			return fmt.Errorf("column %d: a variable is $name or ${name}", column)
		}
		if braced {
			i++
		}
		begin = i
		p := part{literal: literal, name: name, slot: names[name]}
		switch {
		case name == "time_local" || name == "time_iso8601":
			p.as = fixedTime
		case strings.HasPrefix(name, "upstream_") && p.slot != unused:
			p.as = list
		}
		if n := len(f.parts); n > 0 && literal == "" && f.parts[n-1].as != fixedTime {
			return fmt.Errorf("column %d: nothing stands between $%s and $%s, so that they cannot be separated: put a separator between them", column, f.parts[n-1].name, name)
		}
		if p.slot != unused {
			if f.bound[p.slot] { // the first of a kind counts
				p.slot = unused
			} else {
				f.bound[p.slot] = true
			}
		}
		f.parts = append(f.parts, p)
	}
	if len(f.parts) == 0 {
		return fmt.Errorf("%q has no variables: write a log_format such as the one that nginx is configured with, or one of combined, tailscope, json, caddy, traefik, envoy, %s", text, strings.Join(textNames, ", "))
	}
	if begin < len(text) {
		f.parts = append(f.parts, part{literal: text[begin:]})
	}
	return nil
}
