package cli

import (
	"bytes"
	"regexp"
	"testing"

	"tailscope/client"
)

// What a run measures is in the server it is sent to, every request once, and
// the run is among its sessions.
func TestBenchTo(t *testing.T) {
	t.Parallel() // the run takes a second, so that it is told of while it goes
	srv := far(t, "127.0.0.1:0", "127.0.0.1:0")
	var out, errs bytes.Buffer
	code := Run(t.Context(), []string{"bench", benchTarget(t), "--rate", "100", "--for", "1100ms", "--set", "name=home", "--set", "service=shop", "--set", "variant=new", "--server", "http://" + srv.Addr()}, nil, &out, &errs)
	if code != exitOK && code != exitInvalid {
		t.Fatalf("code %d\n%s", code, errs.String())
	}
	page := regexp.MustCompile(`http://` + regexp.QuoteMeta(srv.Addr()) + `/sessions/(bench-[a-z0-9-]+)\n$`).FindStringSubmatch(errs.String())
	if page == nil {
		t.Fatalf("no link to the page: %s", errs.String())
	}
	x, err := (&client.Client{Address: srv.Addr()}).Session(t.Context(), page[1])
	if err != nil {
		t.Fatal(err)
	}
	if x.State != "ended" || x.Kind != "bench" || x.Name != "home" || x.Bench == nil || x.Bench.Account.Answered != 110 || x.Bench.Valid != (code == exitOK) {
		t.Errorf("the session is %+v", x)
	}
	if err := srv.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, family := range []string{"bench_duration_seconds", "bench_service_seconds", "bench_first_byte_seconds", "bench_answer_bytes"} {
		if got := observed(t, srv.Addr(), family, `{service="shop",variant="new",status="ok",operation="GET /",experiment="`+page[1]+`"}`); got != 110 {
			t.Errorf("%s: %d in the store, want 110", family, got)
		}
	}
	if got := observed(t, srv.Addr(), "bench_late_seconds", `{service="shop"}`); got != 110 {
		t.Errorf("lateness of %d in the store, want 110", got)
	}
}
