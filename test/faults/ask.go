package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/backoff"
	"tailscope/internal/series"
	"tailscope/test/program"
)

var web = &http.Client{Timeout: 30 * time.Second}

// fetch asks a server and returns status and body.
func fetch(ctx context.Context, address string, params url.Values) (int, []byte, error) {
	if len(params) > 0 {
		address += "?" + params.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := web.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, b, err
}

// metrics sums the server's own metrics by name.
func metrics(ctx context.Context, t *program.Tailscope) (map[string]float64, error) {
	status, body, err := fetch(ctx, t.URL+"/metrics", nil)
	if err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("/metrics: status %d: %w", status, err)
	}
	out := map[string]float64{}
	for line := range strings.Lines(string(body)) {
		at := strings.LastIndexByte(line, ' ')
		if strings.HasPrefix(line, "#") || at < 0 {
			continue
		}
		name, _, _ := strings.Cut(line[:at], "{")
		if v, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64); err == nil {
			out[name] += v
			out[line[:at]] = v
		}
	}
	return out, nil
}

// visible asks a server what it has of the senders' services.
func visible(ctx context.Context, t *program.Tailscope, since time.Time) (map[Line]uint64, error) {
	out := map[Line]uint64{}
	for _, q := range []struct{ family, match string }{
		{series.SpanDuration, `{service=~"grpc-.*|http-.*"}`},
		{series.SpanDuration, `{service="` + logService + `",kind="server"}`},
		{familyWait, `{service=~"wait-.*"}`},
	} {
		status, body, err := fetch(ctx, t.URL+"/api/v1/distribution", url.Values{
			"family": {q.family}, "match": {q.match}, "by": {"service"},
			"start": {strconv.FormatInt(since.Add(-15*time.Minute).Unix(), 10)},
			"end":   {strconv.FormatInt(time.Now().Add(time.Minute).Unix(), 10)},
		})
		switch {
		case err != nil:
			return nil, err
		case status == http.StatusNotFound || status == http.StatusBadRequest:
			continue // nothing of the family or its labels has arrived yet
		case status != http.StatusOK:
			return nil, fmt.Errorf("distribution of %s%s: status %d: %s", q.family, q.match, status, body)
		}
		var r api.DistributionResponse
		if err := json.Unmarshal(body, &r); err != nil {
			return nil, err
		}
		for _, g := range r.Groups {
			out[Line{Family: q.family, Service: g.Labels["service"]}] += g.Count
		}
	}
	return out, nil
}

// awaitAgreement waits until everything that was replayed is visible and agrees with the
// bounds, and checks that it stays so. It returns the last difference.
func awaitAgreement(ctx context.Context, t *program.Tailscope, bounds map[Line]Bounds, since time.Time, within time.Duration) (Difference, error) {
	var d Difference
	var err error
	agreed := 0
	for deadline := time.Now().Add(within); agreed < 2 && time.Now().Before(deadline); {
		var stored map[Line]uint64
		if stored, err = visible(ctx, t, since); err != nil {
			if serr := backoff.Sleep(ctx, 300*time.Millisecond); serr != nil {
				return d, serr
			}
			continue
		}
		maps.DeleteFunc(stored, func(l Line, _ uint64) bool { _, asked := bounds[l]; return !asked })
		if d = Compare(bounds, stored); d.Doubled > 0 {
			return d, nil
		}
		wait := 100 * time.Millisecond
		if d.Ok() {
			agreed++
			wait = 400 * time.Millisecond // more than a flush interval of tests
		}
		if err := backoff.Sleep(ctx, wait); err != nil {
			return d, err
		}
	}
	return d, err
}
