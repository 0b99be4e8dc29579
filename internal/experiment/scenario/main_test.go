//go:build unix

package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tailscope/internal/strictyaml"
)

// helper is the variable that makes the test binary a server to be tested.
const helper = "TAILSCOPE_SCENARIO_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helper) != "" {
		serveHelper()
		return
	}
	goleak.VerifyTestMain(m)
}

// serveHelper is a small server. Its address is in PORT; CHILD=1 starts a child
// that does nothing, DIE=1 ends at once.
func serveHelper() {
	if name := os.Getenv("STAGE"); name != "" { // opens it, and never closes it
		os.Unsetenv("STAGE")
		s, problems := Load(name, LoadOptions{})
		if len(problems) > 0 {
			fmt.Println(strictyaml.Error(problems))
			os.Exit(1)
		}
		if _, err := Open(context.Background(), s, Options{RunDir: os.Getenv("STAGE_DIR")}); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("open")
		time.Sleep(time.Minute)
		return
	}
	if os.Getenv("DIE") != "" {
		fmt.Println("out of luck")
		os.Exit(3)
	}
	if os.Getenv("CHILD") != "" {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			fmt.Println(err)
		}
	}
	var documents, batches atomic.Int64
	began := time.Now()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	mux.HandleFunc("GET /die", func(http.ResponseWriter, *http.Request) {
		fmt.Println("bye")
		os.Exit(9)
	})
	mux.HandleFunc("GET /warming", func(w http.ResponseWriter, _ *http.Request) {
		// Ever faster, from 10 ms down to 1 ms.
		time.Sleep(max(time.Millisecond, 10*time.Millisecond-time.Since(began)/100))
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "# TYPE gc_pause_seconds summary\ngc_pause_seconds_sum{kind=\"a\"} %g\ngc_pause_seconds_sum{kind=\"b\"} 1\nheap_bytes 5e6\n", time.Since(began).Seconds()/10)
	})
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"jvm.gc": {"pauses": [{"ms": 250}]}}`)
	})
	mux.HandleFunc("POST /docs", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		batches.Add(1)
		if strings.Contains(string(b), "poison") {
			http.Error(w, "poisoned", http.StatusBadRequest)
			return
		}
		for line := range strings.Lines(string(b)) {
			if !json.Valid([]byte(line)) {
				http.Error(w, "no JSON: "+line, http.StatusBadRequest)
				return
			}
			documents.Add(1)
		}
		fmt.Fprint(w, `{"errors": false}`)
	})
	mux.HandleFunc("GET /count", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, documents.Load()) })
	l, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("PORT"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("listening on", l.Addr())
	_ = http.Serve(l, mux)
}

// nextPort is the port that freePort tries next; another test process begins elsewhere.
var nextPort atomic.Int64

func init() { nextPort.Store(97 * int64(os.Getpid())) }

// freePort returns a port that nobody listens on, nor will: the kernel gives those above
// 32767 to whoever asks for any, and this process asks for each of these once.
func freePort(t *testing.T) int {
	t.Helper()
	const lowest, most = 12_000, 18_000
	for range most {
		port := lowest + int(nextPort.Add(1)%most)
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			continue // somebody has it
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return port
	}
	t.Fatal("every port is taken")
	return 0
}

// file writes a scenario's file; @SELF is the helper's command, @PORT its port.
func file(t *testing.T, port int, text string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text = strings.NewReplacer("@SELF", helper+"=1 PORT="+strconv.Itoa(port)+" exec "+self, "@PORT", strconv.Itoa(port)).Replace(text)
	name := filepath.Join(t.TempDir(), "scenario.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func mustLoad(t *testing.T, name string) *Scenario {
	t.Helper()
	s, problems := Load(name, LoadOptions{})
	if len(problems) > 0 {
		t.Fatal(strictyaml.Error(problems))
	}
	return s
}
