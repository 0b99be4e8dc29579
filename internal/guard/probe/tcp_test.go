package probe

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"tailscope/internal/guard/check/spec"
)

var quiet = log.New(io.Discard, "", 0)

// listen serves every connection by do, until the test ends.
func listen(t *testing.T, do func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				do(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	return l.Addr().String()
}

func TestTCP(t *testing.T) {
	greeter := listen(t, func(c net.Conn) {
		line, err := bufio.NewReader(c).ReadString('\n')
		if err == nil {
			fmt.Fprintf(c, "220 hello %s\r\n", strings.TrimSpace(line))
		}
	})
	rude := listen(t, func(c net.Conn) {})
	curt := listen(t, func(c net.Conn) { io.WriteString(c, "OK") })
	endless := listen(t, func(c net.Conn) {
		for {
			if _, err := io.WriteString(c, strings.Repeat("x", 1000)); err != nil {
				return
			}
		}
	})
	mute := listen(t, func(c net.Conn) { io.Copy(io.Discard, c) })
	p := prober(t, Options{Timeout: 30 * time.Second})
	hasty := prober(t, Options{Timeout: time.Second})
	for _, c := range []struct {
		name             string
		s                spec.TCP
		null             bool
		level, text, err string
	}{
		{"connect", spec.TCP{Address: greeter}, false, "", "connected in", ""},
		{"greeting", spec.TCP{Address: greeter, Send: "EHLO me\r\n", Expect: "^220 hello EHLO me$"}, false, "", ": 220 hello EHLO me", ""},
		{"another greeting", spec.TCP{Address: greeter, Send: "x\n", Expect: "^250"}, false, "CRITICAL", `unexpected answer "220 hello x"`, ""},
		{"no word", spec.TCP{Address: rude, Expect: "."}, false, "CRITICAL", "", "closed the connection without a word"},
		{"no end of line", spec.TCP{Address: curt, Expect: "^OK$"}, false, "", "OK", ""},
		{"no end", spec.TCP{Address: endless, Expect: "^x+$"}, false, "", "", ""},
		{"no answer", spec.TCP{Address: mute, Expect: "."}, false, "CRITICAL", "", "did not answer in time"},
		{"not a pattern", spec.TCP{Address: greeter, Expect: "("}, true, "", "", "expect:"},
	} {
		p := p
		if c.s.Address == mute {
			p = hasty
		}
		r := p.Probe(t.Context(), &spec.Source{TCP: &c.s})
		value := &r.Value
		if c.null {
			value = nil
		} else if r.Value <= 0 || r.Value > r.Took.Seconds() {
			t.Errorf("%s: connected in %v s of %s", c.name, r.Value, r.Took)
		}
		want(t, c.name, r, value, c.level, c.text, c.err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	want(t, "refused", measure(t, p, spec.Source{TCP: &spec.TCP{Address: l.Addr().String()}}), nil, "CRITICAL", "", "refuses connections; start it")
	want(t, "no port", measure(t, p, spec.Source{TCP: &spec.TCP{Address: "127.0.0.1"}}), nil, "CRITICAL", "", "missing port")
	want(t, "no name", measure(t, p, spec.Source{TCP: &spec.TCP{Address: "nobody.invalid:80"}}), nil, "CRITICAL", "", "nobody.invalid")
}
