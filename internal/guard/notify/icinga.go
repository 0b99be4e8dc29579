package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"net/http"
	"strings"
	"sync"
	"time"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

// icingaConnections carry results at the same time; those of one service go one
// after another, by one of them.
const icingaConnections = 4

// icinga hands results to Icinga 2 by its API, an action each.
// https://icinga.com/docs/icinga-2/latest/doc/12-icinga2-api/#process-check-result
type icinga struct {
	spec   spec.Icinga
	client *http.Client
	seed   maphash.Seed
}

func newIcinga(s spec.Icinga) (*icinga, error) {
	if !strings.HasPrefix(s.URL, "https://") && !strings.HasPrefix(s.URL, "http://") {
		return nil, fmt.Errorf("icinga: url: write https://host:5665")
	}
	client, err := newClient(icingaConnections, s.CA, s.Insecure)
	if err != nil {
		return nil, fmt.Errorf("icinga: %w", err)
	}
	s.URL = strings.TrimSuffix(s.URL, "/")
	return &icinga{spec: s, client: client, seed: maphash.MakeSeed()}, nil
}

func (i *icinga) capabilities() capabilities {
	return capabilities{kind: "icinga", to: origin(i.spec.URL), results: true, batch: 500, pause: 200 * time.Millisecond}
}

func (i *icinga) close() { i.client.CloseIdleConnections() }

func (i *icinga) send(ctx context.Context, messages []message, report func(int, error)) error {
	password, err := readSecret("password", i.spec.Password)
	if err != nil {
		return err
	}
	basic := basicAuth(i.spec.User, password)
	header := http.Header{
		"Accept": {"application/json"}, "Content-Type": {"application/json"},
		"Authorization": {"Basic " + basic},
	}
	var lists [icingaConnections][]int
	for k := range messages {
		r := messages[k].result
		h := maphash.String(i.seed, r.Host+"!"+r.Service) % icingaConnections
		lists[h] = append(lists[h], k)
	}
	var errs [icingaConnections]error
	var wg sync.WaitGroup
	for h, list := range lists {
		wg.Go(func() {
			for _, k := range list {
				body, err := json.Marshal(icingaResult(messages[k].result))
				if err != nil {
					report(k, refusal{err})
					continue
				}
				_, err = post(ctx, i.client, i.spec.URL+"/v1/actions/process-check-result", header, body, password, basic)
				if err != nil && !refused(err) {
					errs[h] = err
					return
				}
				report(k, err)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

type icingaAction struct {
	Service  string   `json:"service"`
	Exit     int      `json:"exit_status"`
	Output   string   `json:"plugin_output"`
	Perfdata []string `json:"performance_data"`
	Source   string   `json:"check_source"`
	Start    float64  `json:"execution_start"`
	End      float64  `json:"execution_end"`
}

func icingaResult(r *event.Result) icingaAction {
	start := float64(r.Time.UnixMicro()) / 1e6
	return icingaAction{
		Service: clean(r.Host, "!") + "!" + clean(r.Service, ""), Exit: int(r.Level),
		Output: truncate(clean(resultText(r), "|"), nscaOutput), Perfdata: append([]string{}, perfdata(r)...),
		Source: "tailscope", Start: start, End: start + r.Reading.Took.Seconds(),
	}
}
