//go:build servers

package notify

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"net/mail"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

// mails are those of a maildir, in the order in which they came.
func mails(t *testing.T, dir string) []*mail.Message {
	t.Helper()
	type file struct {
		path string
		at   time.Time
	}
	var files []file
	_ = filepath.WalkDir(filepath.Join(dir, "new"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				files = append(files, file{path, info.ModTime()})
			}
		}
		return nil
	})
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	var list []*mail.Message
	for _, f := range files {
		b, err := os.ReadFile(f.path)
		if err != nil {
			t.Fatal(err)
		}
		m, err := mail.ReadMessage(strings.NewReader(string(b)))
		if err != nil {
			t.Fatalf("%v: %s", err, b)
		}
		list = append(list, m)
	}
	return list
}

// aiosmtpd takes mail into a maildir, in the clear and by STARTTLS, and is killed
// in the middle.
func TestEmail(t *testing.T) {
	for _, starttls := range []string{"never", "always"} {
		t.Run("starttls="+starttls, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cert, key := selfSigned(t, dir, "mail.example")
			address := freePort(t)
			args := []string{"/usr/bin/python3", "-m", "aiosmtpd", "-n", "-l", address, "-c", "aiosmtpd.handlers.Mailbox", dir + "/mail"}
			if starttls == "always" {
				args = slices.Insert(args, 4, "--tlscert", cert, "--tlskey", key)
			}
			run := func() *process {
				p := start(t, dir, args...)
				listening(t, address)
				return p
			}
			smtpd := run()
			pem, err := os.ReadFile(cert)
			if err != nil {
				t.Fatal(err)
			}
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(pem)
			spool := t.TempDir()
			n, err := Open(t.Context(), Options{
				Dir: spool,
				Receivers: map[string]spec.Receiver{"r": {Timeout: 3 * time.Second, Email: &spec.Email{
					Server: address, From: "Tailscope <tailscope@mail.example>", To: []string{"a@example.org", "Bé <b@example.org>"}, StartTLS: starttls,
				}}},
				make: func(r spec.Receiver) (sender, error) {
					e, err := newEmail(*r.Email)
					if err == nil {
						e.roots = func() *tls.Config { return &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"} }
					}
					return e, err
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := n.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}()
			seq := 0
			sendEvents := func(count int) {
				t.Helper()
				for range count {
					seq++
					kind := event.Changed
					if seq == 1 {
						kind = event.Opened
					}
					e := someEvent("i-1", seq, kind, event.Warning, event.Critical, time.Now())
					e.Text = "naïve text\nBcc: victim@example.org\n.\nend"
					e.Key.Check = "orders\r\nBcc: victim@example.org"
					if err := n.Events(t.Context(), []string{"r"}, []event.Event{e}); err != nil {
						t.Fatal(err)
					}
				}
			}
			sendEvents(5)
			eventually(t, "5 mails", func() bool { return len(mails(t, dir+"/mail")) >= 5 })
			sendEvents(10)
			smtpd.kill() // in the middle of them
			sendEvents(5)
			time.Sleep(100 * time.Millisecond)
			run()
			// Counted is what was delivered once the connection has ended, too.
			eventually(t, "an empty spool", func() bool { s := n.States()[0]; return s.Spooled == 0 && s.State != "delivering" })
			var order []int
			seen := map[string]bool{}
			for _, m := range mails(t, dir+"/mail") {
				id := m.Header.Get("Message-ID")
				if seen[id] {
					continue // at least once
				}
				seen[id] = true
				var k int
				if _, err := fmt.Sscanf(id, "<tailscope.i-1.%d@mail.example>", &k); err != nil {
					t.Fatalf("%s: %v", id, err)
				}
				order = append(order, k)
				if ref := m.Header.Get("References"); k > 1 && ref != "<tailscope.i-1.1@mail.example>" {
					t.Errorf("references %q", ref)
				}
				if m.Header.Get("Bcc") != "" {
					t.Error("a check's name made a header")
				}
			}
			inOrder(t, order, 20)
			if s := n.States()[0]; s.Delivered != 20 || len(s.Dropped) != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}
