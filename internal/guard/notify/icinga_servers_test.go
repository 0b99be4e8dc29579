//go:build servers

package notify

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

// Icinga 2 takes results by its API, by TLS, and is killed in the middle.
func TestIcinga(t *testing.T) {
	dir := t.TempDir()
	cert, _ := selfSigned(t, dir+"/data/certs", "icinga.example")
	ca, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/data/certs/ca.crt", string(ca))
	address := freePort(t)
	for _, d := range []string{"log", "cache", "spool", "run", "data/api/packages", "data/api/zones", "cache/icinga2", "log/icinga2"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var services strings.Builder
	for i := range 4 {
		fmt.Fprintf(&services, "object Service \"orders %d\" {\n  host_name = \"shop\"\n  check_command = \"passive\"\n  enable_active_checks = false\n  max_check_attempts = 1\n}\n", i)
	}
	write(t, dir+"/icinga2.conf", fmt.Sprintf(`
const NodeName = "icinga.example"
include <itl>
object Endpoint NodeName { }
object Zone "master" { endpoints = [ NodeName ] }
object FileLogger "main" {
  severity = "information"
  path = "%s/log/main.log"
}
object CheckerComponent "checker" { }
object ApiListener "api" {
  bind_host = "127.0.0.1"
  bind_port = %s
}
object ApiUser "tailscope" {
  password = "s3cret"
  permissions = [ "actions/process-check-result", "objects/query/Service" ]
}
object Host "shop" {
  check_command = "passive"
  enable_active_checks = false
}
%s`, dir, portOf(address), services.String()))
	name, group := whoami(t)
	args := []string{"icinga2", "daemon", "-c", dir + "/icinga2.conf"}
	for _, d := range []string{"ConfigDir=" + dir, "DataDir=" + dir + "/data", "LogDir=" + dir + "/log", "CacheDir=" + dir + "/cache", "SpoolDir=" + dir + "/spool", "InitRunDir=" + dir + "/run", "RunAsUser=" + name, "RunAsGroup=" + group, "Environment=tailscope"} {
		args = append(args, "-D"+d)
	}
	run := func() *process {
		p := start(t, dir, args...)
		listening(t, address)
		return p
	}
	icinga := run()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	// output is what the API says of a service.
	output := func(name string) (text string, perf []string, state float64) {
		req, err := http.NewRequest(http.MethodGet, "https://"+address+"/v1/objects/services/"+strings.ReplaceAll("shop!"+name, " ", "%20"), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth("tailscope", "s3cret")
		res, err := client.Do(req)
		if err != nil {
			return "", nil, -1
		}
		defer res.Body.Close()
		var body struct {
			Results []struct {
				Attrs struct {
					State           float64
					LastCheckResult struct {
						Output          string
						PerformanceData []string `json:"performance_data"`
					} `json:"last_check_result"`
				}
			}
		}
		if err := json.NewDecoder(res.Body).Decode(&body); err != nil || len(body.Results) == 0 {
			return "", nil, -1
		}
		a := body.Results[0].Attrs
		return a.LastCheckResult.Output, a.LastCheckResult.PerformanceData, a.State
	}
	n := open(t, t.TempDir(), spec.Receiver{Icinga: &spec.Icinga{URL: "https://" + address, User: "tailscope", Password: password(t, "s3cret"), CA: cert}})
	sent := 0
	send := func(count int) {
		for range count {
			var batch []event.Result
			for i := range 4 {
				r := someResult("orders", sent, time.Now())
				r.Service = fmt.Sprintf("orders %d", i)
				r.Level = event.Critical
				batch = append(batch, r)
			}
			n.Results([]string{"r"}, batch)
			sent++
		}
	}
	arrived := func() {
		t.Helper()
		for i := range 4 {
			name := fmt.Sprintf("orders %d", i)
			eventually(t, "the last result of "+name, func() bool {
				text, _, state := output(name)
				return text == fmt.Sprintf("CRITICAL - %d ms, threshold 100 ms by profile office: number %d", sent-1, sent-1) && state == 2
			})
		}
	}
	send(25)
	arrived()
	send(50)
	icinga.kill()
	send(25)
	run()
	arrived()
	eventually(t, "an empty spool", func() bool { return n.States()[0].Spooled == 0 })
	if s := n.States()[0]; s.Delivered != uint64(4*sent) || len(s.Dropped) != 0 {
		t.Errorf("%+v", s)
	}
	_, perf, _ := output("orders 0")
	if want := []string{fmt.Sprintf("value=%dms;~:110;~:130", sent-1), "threshold=100ms", "warning=110ms", "critical=130ms"}; !slices.Equal(perf, want) {
		t.Errorf("performance data %q, want %q", perf, want)
	}
	// A service that it does not know is refused, and stops nothing.
	r := someResult("nobody", 1, time.Now())
	n.Results([]string{"r"}, []event.Result{r})
	send(1)
	arrived()
	eventually(t, "a refusal", func() bool { return n.States()[0].Dropped["refused"] == 1 })
	if s := n.States()[0]; !strings.Contains(s.Error, "404") {
		t.Errorf("%+v", s)
	}
}
