package otlp

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"
)

// rewrite returns a message in another encoding: its fields, and those of KeyValues, in any
// order where that is drawn, and lengths of more bytes than they need.
func rewrite(t *rapid.T, b []byte, attributes protowire.Number) []byte {
	var fields [][]byte
	for len(b) > 0 {
		number, _, n := protowire.ConsumeField(b)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		field := b[:n]
		b = b[n:]
		if _, kind, tag := protowire.ConsumeTag(field); kind == protowire.BytesType {
			data, _ := protowire.ConsumeBytes(field[tag:])
			if number == attributes {
				data = rewrite(t, data, 0)
			}
			size := binary.AppendUvarint(nil, uint64(len(data)))
			if rapid.IntRange(0, 9).Draw(t, "long") == 0 {
				size[len(size)-1] |= 0x80
				size = append(size, 0)
			}
			field = slices.Concat(field[:tag], size, data)
		}
		fields = append(fields, field)
	}
	if rapid.IntRange(0, 3).Draw(t, "shuffle") == 0 {
		fields = rapid.Permutation(fields).Draw(t, "fields")
	}
	return bytes.Join(fields, nil)
}

// TestRecognised: spans are recognised among all that were seen before, in whatever form they
// come, as those that the reference says they are.
func TestRecognised(t *testing.T) {
	l := newLedger()
	r := testReceiver(t, l)
	genSpan := rapid.Custom(func(t *rapid.T) *trace.Span {
		s := &trace.Span{
			Name: rapid.SampledFrom([]string{"", "GET", "GET /x", "op", "call 123", "SELECT 1", strings.Repeat("name ", 30)}).Draw(t, "name"),
			Kind: trace.Span_SpanKind(rapid.IntRange(0, 5).Draw(t, "kind")), StartTimeUnixNano: 1, EndTimeUnixNano: 2,
			TraceId: make([]byte, 16), SpanId: make([]byte, 8),
			Attributes: rapid.SliceOfN(rapid.Custom(genKV), 0, 7).Draw(t, "attributes"),
			Status:     &trace.Status{Code: trace.Status_StatusCode(rapid.IntRange(0, 2).Draw(t, "code"))},
			Flags:      0x101,
		}
		if rapid.Bool().Draw(t, "child") {
			s.ParentSpanId = []byte("a parent")
		}
		for _, kv := range s.Attributes {
			// Whether a request that found nothing has a route depends on those before it.
			if n, ok := kv.GetValue().GetValue().(*common.AnyValue_IntValue); ok && n.IntValue >= 400 && n.IntValue < 500 {
				n.IntValue += 100
			}
		}
		return s
	})
	rapid.Check(t, func(rt *rapid.T) {
		// A ResourceSpans with a ScopeSpans, both of one field.
		var spans []byte
		for _, s := range rapid.SliceOfN(genSpan, 1, 6).Draw(rt, "spans") {
			for range rapid.IntRange(1, 2).Draw(rt, "forms") {
				spans = protowire.AppendBytes(protowire.AppendTag(spans, 2, protowire.BytesType), rewrite(rt, marshal(t, s), 9))
			}
		}
		b := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), spans)
		b = protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), b)
		var want []string
		l.clear()
		for range 2 {
			want = append(want, reference(t, r.keys, b)...)
			if _, err := r.ingest(context.Background(), traceSignal, b); err != nil {
				rt.Fatal(err)
			}
		}
		sortStrings(want)
		if got := l.text(); got != strings.Join(want, "\n") {
			rt.Fatalf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
	})
	// The same spans in the same form need no more of the cache.
	b := marshal(t, spansOf(nil, &trace.Span{Name: "x", StartTimeUnixNano: 1, EndTimeUnixNano: 2, Attributes: []*common.KeyValue{str("variant", "a"), str("peer.service", "b")}},
		&trace.Span{Name: "x", StartTimeUnixNano: 1, EndTimeUnixNano: 2, Attributes: []*common.KeyValue{str("peer.service", "b"), str("variant", "a"), str("thread.id", "1")}}))
	before := r.cache.entries()
	for range 3 {
		if _, err := r.ingest(context.Background(), traceSignal, b); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.cache.entries() - before; n != 1 {
		t.Errorf("%d entries of spans that differ in the order of their attributes, want 1", n)
	}
}

// TestMixBytes: each byte of a value counts, and so does where one value ends.
func TestMixBytes(t *testing.T) {
	seen := map[uint64]string{}
	add := func(what string, h uint64) {
		t.Helper()
		if old, ok := seen[h]; ok {
			t.Fatalf("%s and %s have one hash", what, old)
		}
		seen[h] = what
	}
	for n := range 70 {
		b := bytes.Repeat([]byte{'a'}, n)
		for i := range n {
			b[i] ^= 1
			add(string(b), mixBytes(1, 0x9E3779B97F4A7C15, b))
			b[i] ^= 1
		}
	}
	for i, two := range [][2]string{{"\x0a\x01a", "\x0a\x02bc"}, {"\x0a\x02ab", "\x0a\x01c"}, {"\x0a\x02bc", "\x0a\x01a"}} {
		add(two[0]+two[1]+string(rune('0'+i)), mixBytes(mixBytes(1, 0x9E3779B97F4A7C15, []byte(two[0])), 0x9E3779B97F4A7C15, []byte(two[1])))
	}
}
