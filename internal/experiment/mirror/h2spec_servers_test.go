//go:build servers

package mirror

import (
	"encoding/xml"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// h2spec is the public conformance suite of HTTP/2, of the last release that the
// module proxy holds.
const h2spec = "github.com/summerwind/h2spec/cmd/h2spec@latest"

// known lists what fails, and why: all of it is net/http's server, which fails
// the same cases by itself.
var known = map[string]string{
	"http2/3.5: Sends invalid connection preface":                                                                   "without TLS what is not a preface is HTTP/1, which is refused with a 400 before the connection is closed",
	"http2/4.2: Sends a large size HEADERS frame that exceeds the SETTINGS_MAX_FRAME_SIZE":                          "net/http takes frames of up to 1 MiB",
	"http2/6.5.3: Sends multiple values of SETTINGS_INITIAL_WINDOW_SIZE":                                            "net/http takes a setting that is there twice for an error",
	"http2/8.1.2.2: Sends a HEADERS frame that contains the TE header field with any value other than \"trailers\"": "net/http answers 400 where a reset is asked for",
	"http2/8.1.2.2: Sends a HEADERS frame that contains the connection-specific header field":                       "net/http answers 400 where a reset is asked for",
}

// TestH2Spec runs the whole suite, strict cases included, against both servers for
// HTTP/2.
func TestH2Spec(t *testing.T) {
	dir := t.TempDir()
	build := exec.Command("go", "install", h2spec)
	build.Dir = dir
	build.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Skipf("h2spec cannot be had: %v\n%s", err, out)
	}
	primary := newBackend(t, "h1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write(pattern(100)) // some cases want a body that takes more than one window
	}))
	for _, protocol := range []string{"h2c", "h2-tls"} {
		t.Run(protocol, func(t *testing.T) {
			s := newSession(t, protocol, primary.URL, away)
			_, port, _ := net.SplitHostPort(s.Addr().String())
			report := filepath.Join(t.TempDir(), "report.xml")
			args := []string{"-h", "127.0.0.1", "-p", port, "-S", "-j", report, "-o", "2"}
			if protocol == "h2-tls" {
				args = append(args, "-t", "-k")
			}
			out, runErr := exec.Command(filepath.Join(dir, "h2spec"), args...).CombinedOutput()
			data, err := os.ReadFile(report)
			if err != nil {
				t.Fatalf("%v, %v\n%s", runErr, err, out)
			}
			passed, failed, skipped := results(t, data)
			t.Logf("h2spec: %d passed, %d failed, %d skipped", passed, len(failed), skipped)
			for _, f := range failed {
				if why, ok := known[f]; ok {
					t.Logf("fails, as is known: %s: %s", f, why)
				} else {
					t.Errorf("fails: %s", f)
				}
			}
			if want := 146 - len(known); passed < want {
				t.Errorf("%d passed, %d skipped; want at least %d\n%s", passed, skipped, want, out)
			}
		})
	}
}

// results reads a report of JUnit.
func results(t *testing.T, data []byte) (passed int, failed []string, skipped int) {
	t.Helper()
	var report struct {
		Suites []struct {
			Package string `xml:"package,attr"`
			ID      string `xml:"id,attr"`
			Cases   []struct {
				Package string    `xml:"package,attr"`
				Name    string    `xml:"classname,attr"`
				Failure *struct{} `xml:"failure"`
				Error   *struct{} `xml:"error"`
				Skipped *struct{} `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(data, &report); err != nil {
		t.Fatal(err)
	}
	for _, s := range report.Suites {
		for _, c := range s.Cases {
			switch {
			case c.Skipped != nil:
				skipped++
			case c.Failure != nil || c.Error != nil:
				failed = append(failed, strings.TrimSpace(fmt.Sprintf("%s: %s", c.Package, c.Name)))
			default:
				passed++
			}
		}
	}
	slices.Sort(failed)
	return passed, failed, skipped
}
