package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"tailscope/internal/agg"
	"tailscope/internal/config"
	"tailscope/internal/observe/accesslog"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// logSink counts what a door takes.
type logSink struct {
	mu       sync.Mutex
	names    []string
	requests []string // operations, in order
	records  map[string][]byte
}

func (s *logSink) RetryAfter() time.Duration { return time.Second }
func (s *logSink) NamedTarget(id *agg.SpanIdentity) agg.Target {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = append(s.names, strings.TrimSpace(id.Operation+" "+id.Tenant))
	return agg.Target(len(s.names))
}
func (s *logSink) SeriesTarget(r series.Series) agg.Target {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = append(s.names, r.Family)
	return agg.Target(len(s.names))
}
func (s *logSink) DeclareFamily(store.FamilyInfo)                       {}
func (s *logSink) DeltaNumber(agg.Target, agg.StreamID, int64, float64) {}
func (s *logSink) NewBatch() accesslog.Batch                            { return s }
func (s *logSink) Epoch() uint32                                        { return 1 }
func (s *logSink) Discard()                                             {}
func (s *logSink) Commit(context.Context) (agg.Rejects, error)          { return agg.Rejects{}, nil }
func (s *logSink) Observe(t agg.Target, end, _ int64, weight uint32)    { s.add(s.names[t-1], end) }
func (s *logSink) add(name string, end int64) {
	s.requests = append(s.requests, name+" "+time.Unix(0, end).UTC().Format("15:04"))
}

func (s *logSink) Load(_ context.Context, prefix string, yield func(string, []byte) error) error {
	for k, v := range s.records {
		if strings.HasPrefix(k, prefix) {
			if err := yield(k, v); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *logSink) Save(_ context.Context, records map[string][]byte) error {
	for k, v := range records {
		s.records[k] = v
	}
	return nil
}

// importServer takes imports into a sink.
func importServer(t *testing.T) (*logSink, string) {
	t.Helper()
	s := &logSink{records: map[string][]byte{}}
	door := accesslog.NewImportHandler(accesslog.New(accesslog.Options{Sink: s, State: s, Now: func() time.Time { return time.Unix(begin, 0) }}))
	srv := httptest.NewServer(door)
	t.Cleanup(func() {
		door.Close()
		srv.Close()
	})
	return s, srv.URL
}

const importFormat = `$msec $request_time $status $host "$request"`

// logLine ends so many minutes after midnight of the day that begin is in.
func logLine(minute int, path string) string {
	return fmt.Sprintf("%d.000 0.100 200 acme.example.com \"GET %s HTTP/1.1\"\n", begin-12*3600+minute*60, path)
}

func TestImportAccessLog(t *testing.T) {
	sink, url := importServer(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		var b bytes.Buffer
		if strings.HasSuffix(name, ".gz") {
			z := gzip.NewWriter(&b)
			if _, err := z.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			if err := z.Close(); err != nil {
				t.Fatal(err)
			}
		} else {
			b.WriteString(text)
		}
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	newest := file("access.log", logLine(30, "/cart/7")+"nonsense\n")
	older := file("access.log.1", logLine(20, "/cart/6"))
	oldest := file("access.log.2.gz", logLine(10, "/cart/5"))
	combined := file("combined.log", `10.0.0.9 - - [01/Mar/2026:11:59:30 +0000] "GET / HTTP/1.1" 200 512 "-" "curl/8"`+"\n")

	run := func(stdin string, args ...string) (code int, out, errs string) {
		var o, e bytes.Buffer
		code = Run(t.Context(), append([]string{"import", "access-log"}, args...), strings.NewReader(stdin), &o, &e)
		return code, strings.ReplaceAll(o.String(), dir+"/", ""), strings.ReplaceAll(e.String(), dir+"/", "")
	}
	common := []string{"--server", url, "--service", "shop", "--format", importFormat, "--tenant-from", "host"}

	code, out, errs := run("", append(common, newest, older, oldest)...)
	want := `access.log.2.gz: imported 1 requests of 1 lines (` + importFormat + `), 2026-03-01 00:10:00 to 2026-03-01 00:10:00 UTC
access.log.1: imported 1 requests of 1 lines (` + importFormat + `), 2026-03-01 00:20:00 to 2026-03-01 00:20:00 UTC
access.log: imported 1 requests of 2 lines (` + importFormat + `), 2026-03-01 00:30:00 to 2026-03-01 00:30:00 UTC
  not used: other format 1
  line 2, column 1: expected  ` + `
    nonsense
3 files: 4 lines, 3 requests
`
	if code != exitOK || out != want || errs != "" {
		t.Errorf("code %d, got\n%s%s\nwant\n%s", code, out, errs, want)
	}
	if got := strings.Join(sink.requests, ", "); got != "GET /cart/{id} acme 00:10, GET /cart/{id} acme 00:20, GET /cart/{id} acme 00:30" {
		t.Errorf("observed %s", got)
	}

	code, _, errs = run("", append(common, older)...)
	if code != exitFailed || !strings.Contains(errs, "was imported before") || !strings.Contains(errs, "hint: --again") {
		t.Errorf("again: code %d, %s", code, errs)
	}
	if code, _, errs = run("", append(common, "--again", older)...); code != exitOK || len(sink.requests) != 4 {
		t.Errorf("--again: code %d, %s, %d requests", code, errs, len(sink.requests))
	}
	if code, out, errs = run(logLine(40, "/x")+logLine(50, "/x"), append(common, "--since", "2026-03-01T00:45:00Z", "-")...); code != exitOK || !strings.Contains(out, "standard input: imported 1 requests of 2 lines") || !strings.Contains(out, "before since 1") {
		t.Errorf("stdin: code %d, %s%s", code, out, errs)
	}
	if code, out, errs = run("", "--dry-run", "--format", importFormat, "--tenant-from", "host", "--route", "^/cart/=/basket", newest); code != exitOK ||
		!strings.Contains(out, "would import 1 requests") || !strings.Contains(out, "100.0 %          1  GET /basket") || !strings.Contains(out, "100.0 %          1  acme") {
		t.Errorf("--dry-run: code %d, %s%s", code, out, errs)
	}

	// A log without durations is counted, and it is said once what to configure.
	for _, args := range [][]string{{"--service", "x", "--server", url}, {"--dry-run"}} {
		code, out, errs = run("", append(args, combined, file("other.log", `10.0.0.9 - - [01/Mar/2026:11:59:31 +0000] "GET / HTTP/1.1" 200 512 "-" "curl/8"`+"\n"))...)
		if code != exitOK || strings.Count(out, accesslog.Directive) != 1 || !strings.Contains(out, "1 requests of 1 lines (combined)") || !strings.Contains(out, "notice: the lines do not say how long") {
			t.Errorf("%v: code %d, %s%s", args, code, out, errs)
		}
	}

	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--service", "x"}, exitUsage, "needs a file"},
		{[]string{newest}, exitUsage, "add --service"},
		{[]string{"--service", "x", "--tenant-from", "hosts", newest}, exitUsage, "is not one of host"},
		{[]string{"--service", "x", "--route", "(=x", newest}, exitUsage, "error parsing regexp"},
		{[]string{"--service", "x", "--since", "whenever", newest}, exitUsage, "is not a moment"},
		{[]string{"--service", "x", filepath.Join(dir, "none")}, exitFailed, "no such file"},
		{[]string{"--service", "x", newest, newest}, exitUsage, "is given twice"},
		{append([]string{"--service", "x", "--format", importFormat, "--server", "127.0.0.1:1"}, newest), exitFailed, "cannot reach the server"},
		{append([]string{"--format", importFormat, "--dry-run"}, combined), exitFailed, "none of the lines could be used"},
	} {
		code, _, errs := run("", tc.args...)
		if code != tc.code || !strings.Contains(errs, tc.want) {
			t.Errorf("%v: code %d, %s\nwant code %d, %q", tc.args, code, errs, tc.code, tc.want)
		}
	}
}

func TestProgress(t *testing.T) {
	now := time.Unix(begin, 0)
	var out bytes.Buffer
	f := &logFile{name: "access.log", size: 1000, onDisk: &counted{n: 250}}
	p := newProgress(&out, f.name, f.size, func() time.Time { return now })
	p.file, p.lines, p.bytes = f, 1_000_000, 2_500_000
	if got, want := p.text(now.Add(10*time.Second)), "access.log  25 %  2.5 MB  1,000,000 lines  100,000 lines/s  30s left"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	p.terminal = true
	p.draw(now.Add(10 * time.Second))
	p.done()
	if got, want := out.String(), "\r\x1b[Kaccess.log [======                  ]  25 %  2.5 MB  1,000,000 lines  100,000 lines/s  30s left\r\x1b[K"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// What docs/access-logs.md shows is what the program takes.
func TestDocumentedAccessLogs(t *testing.T) {
	doc, err := os.ReadFile("../../docs/access-logs.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(doc)
	if !strings.Contains(text, accesslog.Directive) {
		t.Error("the log_format is another than the program recommends")
	}
	sample := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(text)
	if sample == nil {
		t.Fatal("there is no sample of settings")
	}
	c := config.Default()
	if errs := c.File("docs", []byte(sample[1])); errs != nil {
		t.Fatal(errs)
	}
	if err := c.Validate(); err != nil || len(c.AccessLogs) != 2 {
		t.Fatalf("%d logs, %v", len(c.AccessLogs), err)
	}
	for _, l := range c.AccessLogs {
		if _, err := (accesslog.Config{Format: l.Format, Service: l.Service, Tenant: l.Tenant, Routes: l.Routes}).Compile(); err != nil {
			t.Errorf("%s: %v", l.Path, err)
		}
	}
}
