package mirror

import (
	"crypto/tls"
	"os"
	"testing"
	"time"
)

// TestCertificateChanges has a certificate renewed under a running session.
func TestCertificateChanges(t *testing.T) {
	dir := t.TempDir()
	primary := newBackend(t, "h1", newAnswers())
	s := newSession(t, "h1-tls", primary.URL, func(o *Options) {
		away(o)
		o.TLSCert, o.TLSKey = newAuthority().issue(t, dir, "first")
	})
	name := func() string {
		t.Helper()
		c, err := tls.Dial("tcp", s.Addr().String(), &tls.Config{RootCAs: newAuthority().pool(), ServerName: "localhost"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	later := time.Now()
	change := func() { // whatever the file system's clock can tell apart
		later = later.Add(time.Minute)
		for _, file := range []string{s.o.TLSCert, s.o.TLSKey} {
			if err := os.Chtimes(file, later, later); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := name(); got != "first" {
		t.Fatalf("got the certificate of %q", got)
	}
	newAuthority().issue(t, dir, "second")
	change()
	if got := name(); got != "second" {
		t.Errorf("got the certificate of %q after it had changed", got)
	}
	if err := os.WriteFile(s.o.TLSKey, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	change()
	if got := name(); got != "second" {
		t.Errorf("got the certificate of %q while the new one is not whole", got)
	}
	newAuthority().issue(t, dir, "third")
	change()
	if got := name(); got != "third" {
		t.Errorf("got the certificate of %q in the end", got)
	}
}
