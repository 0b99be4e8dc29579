package probe

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

// lasting are goroutines that are meant to outlive the tests.
var lasting []goleak.Option

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, lasting...) }

func prober(t *testing.T, o Options) *Prober {
	t.Helper()
	p := New(o)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// measure runs one probe, which takes as long as a busy machine may.
func measure(t *testing.T, p *Prober, s spec.Source) event.Reading {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return p.Probe(ctx, &s)
}

// errorText is what went wrong, empty if nothing did.
func errorText(r event.Reading) string {
	if r.Err == nil {
		return ""
	}
	return r.Err.Error()
}

func levelOf(r event.Reading) string {
	if r.Level == nil {
		return ""
	}
	return r.Level.String()
}

// want compares a reading's value (a null is a *float64 of nil), its level, and
// words of its text and error.
func want(t *testing.T, what string, r event.Reading, value *float64, level, text, err string) {
	t.Helper()
	if (value == nil) != r.Null || value != nil && *value != r.Value || levelOf(r) != level {
		t.Errorf("%s: got value %v, null %v, level %q", what, r.Value, r.Null, levelOf(r))
	}
	if !strings.Contains(r.Text, text) {
		t.Errorf("%s: got text %q, want %q in it", what, r.Text, text)
	}
	if got := errorText(r); err == "" && got != "" || !strings.Contains(got, err) {
		t.Errorf("%s: got error %q, want %q in it", what, got, err)
	}
	if r.Took < 0 {
		t.Errorf("%s: took %s", what, r.Took)
	}
}

func is(v float64) *float64 { return &v }

func TestProbeKnowsItsKinds(t *testing.T) {
	p := prober(t, Options{})
	want(t, "promql", measure(t, p, spec.Source{PromQL: "up"}), nil, "", "", `"promql" is not measured from outside`)
	want(t, "nothing", measure(t, p, spec.Source{}), nil, "", "", "nothing to probe")
}

func TestAfterClose(t *testing.T) {
	p := New(Options{})
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	r := p.Probe(t.Context(), &spec.Source{SQL: &spec.SQL{Driver: "sqlite", DSN: spec.Text{Plain: "x"}, Query: "SELECT 1"}})
	want(t, "closed", r, nil, "", "", "the server stops")
}

func TestSecretsAreHidden(t *testing.T) {
	var h secrets
	h.hide("Basic YW5uOmh1bnRlcjI=") // ann:hunter2
	h.hide("s3cr t/+")
	r := event.Reading{
		Text: "said YW5uOmh1bnRlcjI= and hunter2\nand more",
		Err:  errors.New(`Get "http://x/?k=s3cr+t%2F%2B": s3cr t/+ refused`),
		Perf: []event.Perf{{Label: "of hunter2"}},
	}
	h.reading(&r)
	if r.Text != "said [secret] and [secret] and more" ||
		r.Err.Error() != `Get "http://x/?k=[secret]": [secret] refused` ||
		r.Perf[0].Label != "of [secret]" {
		t.Errorf("got %q, %q, %q", r.Text, r.Err, r.Perf[0].Label)
	}
}

func TestReadSecret(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PROBE_EMPTY", "")
	for _, c := range []struct {
		s    spec.Secret
		want string
	}{
		{spec.Secret{Env: "PROBE_NONE"}, "header X: the environment variable PROBE_NONE is not set; set it"},
		{spec.Secret{Env: "PROBE_EMPTY"}, "the secret is empty; fill PROBE_EMPTY"},
		{spec.Secret{File: dir + "/none"}, "no such file or directory; name a file"},
		{spec.Secret{}, "write env or file"},
	} {
		var h secrets
		if v, err := h.read("header X", c.s); err == nil || !strings.Contains(err.Error(), c.want) || v != "" {
			t.Errorf("%+v: got %q, %v, want %q", c.s, v, err, c.want)
		}
	}
}

func TestLine(t *testing.T) {
	for _, c := range [][2]string{
		{"a\tb\r\nc\x00d ", "a b cd"},
		{"\xff", "?"},
		{"", ""},
	} {
		if got := line(c[0]); got != c[1] {
			t.Errorf("line(%q) = %q, want %q", c[0], got, c[1])
		}
	}
	if got := line(strings.Repeat("ä", 400)); len(got) > maxLine || !strings.HasSuffix(got, "ä…") {
		t.Errorf("a long line became %d bytes: %q", len(got), got)
	}
}
