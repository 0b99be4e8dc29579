package payload

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"
)

func TestDeterministic(t *testing.T) {
	a, b, c := Traces(1, 20), Traces(1, 20), Traces(2, 20)
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			t.Fatalf("request %d differs between two runs of one seed", i)
		}
		if bytes.Equal(a[i], c[i]) {
			t.Fatalf("request %d is the same for two seeds", i)
		}
	}
}

// TestShape holds the payload to what its documentation says.
func TestShape(t *testing.T) {
	n := 5000
	if testing.Short() {
		n = 500
	}
	g := newGenerator(1, Start)
	type key struct{ service, name, tenant, status, peer string }
	distinct := map[key]int{}
	tenants := map[string]int{}
	size, spans := 0, 0
	for i := range n {
		r := g.request()
		if i < 50 {
			size += proto.Size(r)
		}
		rs := r.ResourceSpans[0]
		service := rs.Resource.Attributes[0].Value.GetStringValue()
		for _, s := range rs.ScopeSpans[0].Spans {
			spans++
			k := key{service: service, name: s.Name, status: s.Status.GetCode().String()}
			for _, a := range s.Attributes {
				switch a.Key {
				case "tenant.id":
					k.tenant = a.Value.GetStringValue()
				case "server.address":
					k.peer = a.Value.GetStringValue()
				}
			}
			distinct[k]++
			tenants[k.tenant]++
		}
	}
	perSpan := float64(size) / float64(50*SpansPerRequest)
	t.Logf("%d spans, %.0f bytes a span, %d tenants, %d distinct series", spans, perSpan, len(tenants), len(distinct))
	if spans != n*SpansPerRequest {
		t.Errorf("%d spans, want %d", spans, n*SpansPerRequest)
	}
	if perSpan < 240 || perSpan > 290 {
		t.Errorf("%.0f bytes a span, want about 266", perSpan)
	}
	if !testing.Short() && (len(distinct) < 140_000 || len(distinct) > 152_000) {
		t.Errorf("%d distinct series, want about 146,000", len(distinct))
	}
}
