package traces

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// kept puts spans through an Assembler and returns the trace that was kept.
func kept(t testing.TB, text string) *Trace {
	t.Helper()
	k := &traceStore{}
	a, _, _ := start(t, Options{Keeper: k})
	a.Add(script(t, a, 1, text))
	if err := a.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, x := range k.traces {
		tr, err := Decode(x.Data)
		if err != nil {
			t.Fatal(err)
		}
		return tr
	}
	t.Fatal("no trace was kept")
	return nil
}

// tell writes an analysis as text, times in milliseconds.
func tell(t *Trace, a *Analysis) string {
	var b strings.Builder
	ms := func(n int64) string { return fmt.Sprint(time.Duration(n)) }
	for _, i := range a.Order {
		s, x := &t.Spans[i], &a.Spans[i]
		fmt.Fprintf(&b, "%s%s self %s critical %s", strings.Repeat("..", x.Depth), strings.TrimRight(string(s.ID[:]), "\x00"), ms(x.Self), ms(x.Critical))
		for _, p := range x.Path {
			fmt.Fprintf(&b, " [%s %s]", ms(p[0]-a.Start), ms(p[1]-a.Start))
		}
		if x.Request {
			b.WriteString(" request")
		}
		if x.Orphan {
			b.WriteString(" orphan")
		}
		if x.Async {
			b.WriteString(" async")
		}
		if x.Shift != 0 {
			b.WriteString(" moved " + ms(x.Shift))
		}
		b.WriteString("\n")
	}
	for _, c := range a.Components {
		fmt.Fprintf(&b, "%s: %s %s\n", c.Component, ms(c.Self), ms(c.Critical))
	}
	for _, s := range a.Skews {
		fmt.Fprintf(&b, "%s %s ahead=%v %s\n", s.Service, s.Peer, s.Ahead, ms(s.Nanos))
	}
	return b.String()
}

func TestAnalyse(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"a request in full", `
			e d pay client db INSERT 570-590 text=insert_?
			d c pay server app POST_/pay 560-595
			c a web client external POST_/pay 50-90
			b a web client db SELECT 10-40
			x a web internal app later 80-130
			y q web internal app lost 92-94
			a - web server app GET_/ 0-100`, `
			a self 20ms critical 28ms [0s 10ms] [40ms 50ms] [90ms 92ms] [94ms 100ms] request
			..b self 30ms critical 30ms [10ms 40ms]
			..c self 3.75ms critical 5ms [50ms 52.5ms] [87.5ms 90ms]
			....d self 12.5ms critical 15ms [52.5ms 62.5ms] [82.5ms 87.5ms] request moved -507.5ms
			......e self 18.75ms critical 20ms [62.5ms 82.5ms] moved -507.5ms
			..x self 14ms critical 0s async
			..y self 1ms critical 2ms [92ms 94ms] orphan
			db: 48.75ms 50ms
			app: 47.5ms 45ms
			external: 3.75ms 5ms
			pay web ahead=true 507.5ms`},
		{"without a root its longest request is", `
			a x web server app o 0-10
			b y web server app p 5-50
			c b web client db q 10-20`, `
			a self 0s critical 0s request orphan
			b self 35ms critical 35ms [5ms 10ms] [20ms 50ms] request orphan
			..c self 10ms critical 10ms [10ms 20ms]
			app: 35ms 35ms
			db: 10ms 10ms`},
		{"a root of no length", "a - web internal app o 5-5", "a self 0s critical 0s request"},
	} {
		tr := kept(t, tc.text)
		t.Run(tc.name, func(t *testing.T) { diff(t, tell(tr, Analyse(tr)), tc.want) })
	}
	if a := Analyse(&Trace{}); a.Root != -1 || len(a.Order) != 0 {
		t.Errorf("nothing: %+v", a)
	}
}

func TestAnalyseRequest(t *testing.T) {
	tr := kept(t, `
		a - web server app GET_/ 0-100
		b a web client external POST_/pay 10-90
		c b pay server app POST_/pay 20-80
		d c pay client db INSERT 30-70`)
	for _, c := range []struct{ name, span, want string }{
		{"an inner request", "c", `
			a self 0s critical 0s request
			..b self 0s critical 0s
			....c self 20ms critical 20ms [20ms 30ms] [70ms 80ms] request
			......d self 40ms critical 40ms [30ms 70ms]
			db: 40ms 40ms
			app: 20ms 20ms`},
		{"the root for a span that the trace lacks", "z", `
			a self 20ms critical 20ms [0s 10ms] [90ms 100ms] request
			..b self 20ms critical 20ms [10ms 20ms] [80ms 90ms]
			....c self 20ms critical 20ms [20ms 30ms] [70ms 80ms] request
			......d self 40ms critical 40ms [30ms 70ms]
			app: 40ms 40ms
			db: 40ms 40ms
			external: 20ms 20ms`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var id [8]byte
			copy(id[:], c.span)
			diff(t, tell(tr, AnalyseRequest(tr, id)), c.want)
		})
	}
}
