package notify

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

// smtpScript is a server that answers by a script: by the first word of a command, or
// by the whole of it; default 250.
type smtpScript struct {
	mu       sync.Mutex
	answers  map[string]string
	tls      *tls.Config // offered if not nil
	commands []string
	mails    []string
}

func (s *smtpScript) serve(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { s.talk(c) })
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return l.Addr().String()
}

func (s *smtpScript) talk(c net.Conn) {
	defer func() { c.Close() }()
	r := bufio.NewReader(c)
	say := func(text string) { fmt.Fprintf(c, "%s\r\n", text) }
	say(s.answer("greeting", "220 here"))
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSpace(line)
		s.mu.Lock()
		s.commands = append(s.commands, line)
		s.mu.Unlock()
		word, _, _ := strings.Cut(line, " ")
		switch word {
		case "EHLO":
			extensions := "250-here"
			if s.tls != nil {
				extensions += "\r\n250-STARTTLS"
			}
			say(extensions + "\r\n" + s.answer("AUTH", "250 AUTH PLAIN LOGIN"))
		case "STARTTLS":
			say("220 go")
			t := tls.Server(c, s.tls)
			c, r = t, bufio.NewReader(t)
		case "DATA":
			if text := s.answer("DATA", "354 go"); text != "354 go" {
				say(text)
				continue
			}
			say("354 go")
			var b strings.Builder
			for {
				line, err := r.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				b.WriteString(strings.TrimPrefix(line, "."))
			}
			text := s.answer(".", "250 ok")
			if strings.HasPrefix(text, "2") {
				s.mu.Lock()
				s.mails = append(s.mails, b.String())
				s.mu.Unlock()
			}
			say(text)
		case "AUTH":
			say(s.answer("AUTH PLAIN", "235 ok"))
		case "QUIT":
			say("221 bye")
			return
		default:
			say(s.answer(line, s.answer(word, "250 ok")))
		}
	}
}

func (s *smtpScript) answer(to, otherwise string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text, ok := s.answers[to]; ok {
		return text
	}
	return otherwise
}

func (s *smtpScript) said(word string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.commands), func(c string) bool { return !strings.HasPrefix(c, word) })
}

func mustEmail(t *testing.T, s spec.Email) *email {
	t.Helper()
	if s.From == "" {
		s.From, s.To = "Tail Scope <t@example.org>", []string{"a@example.org", "b@example.org"}
	}
	e, err := newEmail(s)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A mail is what its event says, and nothing that an event holds gets into headers
// or ends the text.
func TestMail(t *testing.T) {
	s := &smtpScript{}
	e := mustEmail(t, spec.Email{Server: s.serve(t), StartTLS: "never"})
	ev := someEvent("i\r\nX-Evil: 1", 2, event.Changed, event.Warning, event.Critical, t0)
	ev.Key.Check = "größe\r\nBcc: v@example.org"
	ev.Text = "line\r\n.\r\nMAIL FROM:<evil>\n.\nend ü"
	if _, err := deliver(t, e, eventMessage(ev)); err != nil {
		t.Fatal(err)
	}
	m, err := mail.ReadMessage(strings.NewReader(s.mails[0]))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range m.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := "[Auto-Submitted Content-Transfer-Encoding Content-Type Date From In-Reply-To Message-Id Mime-Version References Subject To X-Tailscope-Incident]"; fmt.Sprint(names) != want {
		t.Errorf("headers %v, want %s", names, want)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if want := `[CRITICAL] größe  Bcc: v@example.org{service="shop"}`; err != nil || subject != want {
		t.Errorf("subject %q, want %q", subject, want)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if err != nil || !strings.HasPrefix(strings.ReplaceAll(string(body), "\r", ""), "line\n.\nMAIL FROM:<evil>\n.\nend ü\n") {
		t.Errorf("body %q, %v", body, err)
	}
	if got := m.Header.Get("References"); !strings.HasSuffix(got, ".1@example.org>") || strings.ContainsAny(got, "\r\n ") {
		t.Errorf("references %q", got)
	}
	if got := m.Header.Get("To"); got != "<a@example.org>, <b@example.org>" && !strings.Contains(got, "b@example.org") {
		t.Errorf("to %q", got)
	}
	if len(s.said("MAIL")) != 1 {
		t.Errorf("%q", s.commands)
	}
}

func TestSMTPAnswers(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers map[string]string
		outcome int // 1 delivered, -1 refused, 0 to be tried again
		alive   bool
	}{
		{"taken", nil, 1, false},
		{"greeting 554", map[string]string{"greeting": "554 no"}, 0, false},
		{"mail 451", map[string]string{"MAIL": "451 later"}, 0, true},
		{"mail 421", map[string]string{"MAIL": "421 closing"}, 0, false},
		{"mail 530", map[string]string{"MAIL": "530 who are you"}, 0, false},
		{"mail 553", map[string]string{"MAIL": "553 bad sender"}, -1, false},
		{"nobody known", map[string]string{"RCPT": "550 unknown"}, -1, false},
		{"one known", map[string]string{"RCPT TO:<a@example.org>": "550 unknown"}, 1, false},
		{"one later", map[string]string{"RCPT TO:<a@example.org>": "450 greylisted"}, 0, true},
		{"data 552", map[string]string{"DATA": "552 too large"}, -1, false},
		{"text 554", map[string]string{".": "554 spam"}, -1, false},
		{"text 451", map[string]string{".": "451 disk"}, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &smtpScript{answers: c.answers}
			e := mustEmail(t, spec.Email{Server: s.serve(t), StartTLS: "never"})
			outcome, err := deliver(t, e, eventMessage(someEvent("i", 1, event.Opened, event.OK, event.Critical, t0)))
			got := 0
			if why, ok := outcome[0]; ok {
				got = 1
				if refused(why) {
					got = -1
				}
			}
			if got != c.outcome || (got == 0) != (err != nil) || blamesMessage(err) != c.alive {
				t.Errorf("settled %v, err %v", outcome, err)
			}
		})
	}
}

// A refused mail does not stop those behind it on the same connection; nobody gets
// one twice because another is greylisted, and nobody waits for ever either.
func TestMailsBehind(t *testing.T) {
	s := &smtpScript{answers: map[string]string{"MAIL": "553 bad"}}
	e := mustEmail(t, spec.Email{Server: s.serve(t), StartTLS: "never"})
	ev := someEvent("i", 1, event.Opened, event.OK, event.Critical, t0)
	outcome, err := deliver(t, e, eventMessage(ev), eventMessage(ev))
	if err != nil || !refused(outcome[0]) || !refused(outcome[1]) || len(s.said("EHLO")) != 1 {
		t.Errorf("%v, %v", outcome, err)
	}
	s.mu.Lock()
	s.answers = map[string]string{"RCPT TO:<a@example.org>": "450 greylisted"}
	s.mu.Unlock()
	for i := range patientRecipients {
		outcome, err = deliver(t, e, eventMessage(ev))
		if last := i == patientRecipients-1; last != (err == nil) {
			t.Errorf("attempt %d: %v, %v", i, outcome, err)
		}
	}
	if len(s.mails) != 1 {
		t.Errorf("%d mails", len(s.mails))
	}
}

// A password goes out under TLS, or to this machine.
func TestMailPassword(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := selfSigned(t, dir, "mail.example")
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	t.Setenv("SMTP_PASSWORD", "s3cret")
	for _, c := range []struct {
		name, starttls, host string
		tls, trusted         bool
		answers              map[string]string
		want                 string // of the error; empty: delivered
		auth                 bool
	}{
		{name: "tls", starttls: "always", tls: true, trusted: true, auth: true},
		{name: "nobody vouches", starttls: "always", tls: true, want: "certificate"},
		{name: "tls is not offered", starttls: "always", want: "offers no STARTTLS"},
		{name: "tried", starttls: "try", tls: true, trusted: true, auth: true},
		{name: "tried in vain, loopback", starttls: "try", auth: true},
		{name: "tried in vain, elsewhere", starttls: "try", host: "mail.example", want: "no password is sent without TLS"},
		{name: "never, elsewhere", starttls: "never", host: "mail.example", tls: true, want: "no password is sent without TLS"},
		{name: "login", starttls: "never", answers: map[string]string{"AUTH": "250 AUTH LOGIN", "AUTH PLAIN": "235 ok"}, auth: true},
		{name: "wrong", starttls: "never", answers: map[string]string{"AUTH PLAIN": "535 not s3cret"}, want: "does not take user me: 535 ", auth: true},
		{name: "no passwords", starttls: "never", answers: map[string]string{"AUTH": "250 HELP"}, want: "takes no password"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &smtpScript{answers: c.answers}
			if c.tls {
				s.tls = &tls.Config{Certificates: []tls.Certificate{pair}}
			}
			e := mustEmail(t, spec.Email{Server: s.serve(t), StartTLS: c.starttls, User: "me", Password: &spec.Secret{Env: "SMTP_PASSWORD"}})
			e.roots = func() *tls.Config {
				config := &tls.Config{ServerName: "mail.example"}
				if c.trusted {
					config.RootCAs = pool
				}
				return config
			}
			if c.host != "" {
				e.host = c.host
			}
			outcome, err := deliver(t, e, eventMessage(someEvent("i", 1, event.Opened, event.OK, event.Critical, t0)))
			if c.want == "" && (err != nil || len(s.mails) != 1) {
				t.Errorf("%v, %v", outcome, err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || len(outcome) != 0 || strings.Contains(err.Error(), "s3cret")) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if auth := len(s.said("AUTH")) > 0; auth != c.auth {
				t.Errorf("auth %v", auth)
			}
		})
	}
}

func TestEmailDefinitions(t *testing.T) {
	good := spec.Email{Server: "mail.example:25", From: "a@example.org", To: []string{"b@example.org"}}
	for name, change := range map[string]func(*spec.Email){
		"server":   func(e *spec.Email) { e.Server = "mail.example" },
		"from":     func(e *spec.Email) { e.From = "a@example.org\r\nBcc: c@example.org" },
		"to":       func(e *spec.Email) { e.To = []string{"b"} },
		"starttls": func(e *spec.Email) { e.StartTLS = "maybe" },
		"subject":  func(e *spec.Email) { e.Subject = "{{.Nope}}" },
	} {
		s := good
		change(&s)
		if _, err := newEmail(s); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := newEmail(good); err != nil {
		t.Error(err)
	}
}
