package notify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	gomail "github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

const (
	defaultSubject = `[{{.To}}] {{.ID}}{{if eq .Kind "resolved"}} is well again{{else if eq .Kind "acknowledged"}} is taken care of{{else if eq .Kind "verdict"}}: {{.Text}}{{end}}`
	defaultBody    = `{{.Text}}

{{if eq .Kind "verdict"}}Mark:      {{.ID}}
{{else}}Check:     {{.ID}}
State:     {{.From}} -> {{.To}} ({{.Kind}})
Value:     {{if .Value}}{{.Value}}{{.Unit}}{{else}}none{{end}}
{{end}}{{with .Threshold}}Threshold: {{.}}{{$.Unit}}{{with $.Rule}} by {{.}}{{end}}
{{end}}{{with .Warning}}Warning:   {{.}}{{$.Unit}}
{{end}}{{with .Critical}}Critical:  {{.}}{{$.Unit}}
{{end}}Time:      {{.Time.Format "2006-01-02 15:04:05 MST"}}
Since:     {{.Since.Format "2006-01-02 15:04:05 MST"}}
{{if ne .Kind "verdict"}}Incident:  {{.Incident}}
{{end}}{{with .User}}By:        {{.}}
{{end}}{{with .Comment}}Comment:   {{.}}
{{end}}{{with .Link}}
{{.}}
{{end}}`
	// patientRecipients bounds the attempts for a recipient who is refused for a
	// while. Then the message goes to the others.
	patientRecipients = 5
)

// email sends a message for each event by SMTP (RFC 5321). Those of one incident
// refer to the first, so that they make a thread (RFC 5322, section 3.6.4).
type email struct {
	spec          spec.Email
	host          string
	implicit      bool // TLS from the first byte, port 465 (RFC 8314)
	from          *mail.Address
	to            []*mail.Address
	domain        string
	subject, body *template.Template
	roots         func() *tls.Config
	// The message that waits for a recipient, and its attempts so far.
	waiting  string
	attempts int
}

func newEmail(s spec.Email) (*email, error) {
	host, port, err := net.SplitHostPort(s.Server)
	if err != nil {
		return nil, fmt.Errorf("email: server: write host:port: %w", err)
	}
	e := &email{spec: s, host: host, implicit: port == "465" || port == "submissions", roots: func() *tls.Config { return &tls.Config{ServerName: host} }}
	if e.from, err = address(s.From); err != nil {
		return nil, fmt.Errorf("email: from: %w", err)
	}
	_, e.domain, _ = strings.Cut(e.from.Address, "@")
	if len(s.To) == 0 {
		return nil, errors.New("email: to: write who gets it")
	}
	for _, t := range s.To {
		a, err := address(t)
		if err != nil {
			return nil, fmt.Errorf("email: to: %w", err)
		}
		e.to = append(e.to, a)
	}
	switch s.StartTLS {
	case "", "always", "try", "never":
	default:
		return nil, fmt.Errorf("email: starttls %q: use always, try or never", s.StartTLS)
	}
	if e.subject, err = parseTemplate("subject", withDefault(s.Subject, defaultSubject)); err != nil {
		return nil, fmt.Errorf("email: %w", err)
	}
	if e.body, err = parseTemplate("body", withDefault(s.Body, defaultBody)); err != nil {
		return nil, fmt.Errorf("email: %w", err)
	}
	return e, nil
}

func address(s string) (*mail.Address, error) {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return nil, fmt.Errorf("%q holds a control character", s)
	}
	a, err := mail.ParseAddress(s)
	if err != nil {
		return nil, fmt.Errorf("%q is not an address: %w", s, err)
	}
	return a, nil
}

func withDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func (e *email) capabilities() capabilities {
	return capabilities{kind: "email", to: e.spec.Server + " for " + strings.Join(e.spec.To, ", "), events: true, batch: 16}
}

func (e *email) close() {}

func (e *email) send(ctx context.Context, messages []message, report func(int, error)) error {
	password, err := readSecret("password", e.spec.Password)
	if err != nil {
		return err
	}
	secrets := []string{password, basicAuth("\x00"+e.spec.User, "")}
	c, done, err := e.connect(ctx, password)
	if err != nil {
		return redact(explain(ctx, "smtp", err), secrets)
	}
	defer done()
	for i, m := range messages {
		err := e.deliver(c, m.event)
		if err != nil && !refused(err) {
			return redact(explain(ctx, "smtp", err), secrets)
		}
		report(i, err)
		if err != nil {
			// Whatever state it was refused in.
			if err := c.Reset(); err != nil {
				return explain(ctx, "smtp", err)
			}
		}
	}
	_ = c.Quit() // what it took it has
	return nil
}

// connect opens a session, with TLS as configured, and authenticates: never in clear
// text, except to this machine.
func (e *email) connect(ctx context.Context, password string) (*smtp.Client, func(), error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", e.spec.Server)
	if err != nil {
		return nil, nil, err
	}
	raw := conn
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	done := func() { stop(); _ = raw.Close() }
	if e.implicit {
		t := tls.Client(conn, e.roots())
		if err := t.HandshakeContext(ctx); err != nil {
			done()
			return nil, nil, fmt.Errorf("tls: %w", err)
		}
		conn = t
	}
	c, err := smtp.NewClient(conn, e.host)
	if err == nil {
		err = e.greet(c, password)
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return c, done, nil
}

func (e *email) greet(c *smtp.Client, password string) error {
	if err := c.Hello(withDefault(clean(e.domain, " "), "localhost")); err != nil {
		return fmt.Errorf("hello: %w", err)
	}
	secure := e.implicit
	if ok, _ := c.Extension("STARTTLS"); !secure && e.spec.StartTLS != "never" {
		switch {
		case ok:
			if err := c.StartTLS(e.roots()); err != nil {
				return fmt.Errorf("starttls: %w", err)
			}
			secure = true
		case e.spec.StartTLS != "try":
			return errors.New("the server offers no STARTTLS: write starttls: try or never if that is how it is meant")
		}
	}
	if e.spec.User == "" {
		return nil
	}
	if !secure && !loopback(e.host) {
		return errors.New("no password is sent without TLS: write starttls: always, or leave out the user")
	}
	ok, methods := c.Extension("AUTH")
	if !ok {
		return errors.New("the server takes no password: leave out the user, or use its port for submission")
	}
	// Whether the connection is safe was decided above.
	auth := smtp.PlainAuth("", e.spec.User, password, e.host, true)
	if list := strings.Fields(strings.ToUpper(methods)); !slices.Contains(list, "PLAIN") && slices.Contains(list, "LOGIN") {
		auth = smtp.LoginAuth(e.spec.User, password, e.host, true)
	}
	if err := c.Auth(auth); err != nil {
		return answer{error: fmt.Errorf("the server does not take user %s: %w", e.spec.User, err)}
	}
	return nil
}

// deliver sends one message through c, to all recipients at once.
func (e *email) deliver(c *smtp.Client, ev *event.Event) error {
	text, err := e.message(ev)
	if err != nil {
		return refusal{err}
	}
	if err := c.Mail("<" + e.from.Address + ">"); err != nil {
		return classifySMTP(err)
	}
	taken := 0
	var later, never error
	for _, to := range e.to {
		err := c.Rcpt("<" + to.Address + ">")
		switch err = classifySMTP(err); {
		case err == nil:
			taken++
		case refused(err):
			never = fmt.Errorf("%s: %w", to.Address, err)
		case isAnswer(err):
			later = fmt.Errorf("%s: %w", to.Address, err)
		default:
			return err
		}
	}
	if taken == 0 {
		if later != nil {
			return later
		}
		return never
	}
	if id := e.id(ev.Incident, ev.Seq); later != nil {
		if e.waiting != id {
			e.waiting, e.attempts = id, 0
		}
		if e.attempts++; e.attempts < patientRecipients {
			return later // nobody has it yet, so that nobody gets it twice
		}
	}
	w, err := c.Data()
	if err != nil {
		return classifySMTP(err)
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	return classifySMTP(w.Close())
}

// classifySMTP marks an error of an answer that is permanent. 5yz is, except 530 and its
// like, which concern the connection (RFC 5321, section 4.2.1; RFC 4954, section 6).
func classifySMTP(err error) error {
	var t *textproto.Error
	if !errors.As(err, &t) {
		return err
	}
	switch {
	case t.Code == 421, t.Code == 530, t.Code == 535, t.Code == 538:
		return answer{error: err}
	case t.Code >= 500:
		return refusal{err}
	}
	return answer{error: err, alive: true}
}

func isAnswer(err error) bool {
	var a answer
	return errors.As(err, &a)
}

// message returns an event's mail. It depends on the event alone, so that a mail sent
// twice is identical.
func (e *email) message(ev *event.Event) ([]byte, error) {
	subject, err := execute(e.subject, ev)
	if err != nil {
		return nil, err
	}
	body, err := execute(e.body, ev)
	if err != nil {
		return nil, err
	}
	m := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	if err := m.From(e.from.String()); err != nil {
		return nil, err
	}
	if err := m.To(e.spec.To...); err != nil {
		return nil, err
	}
	// A check's name or text may hold line breaks.
	m.Subject(truncate(clean(subject, ""), 500))
	m.SetDateWithValue(ev.Time.UTC())
	m.SetGenHeader(gomail.HeaderMessageID, e.id(ev.Incident, ev.Seq))
	if ev.Seq > 1 {
		m.SetGenHeader(gomail.HeaderInReplyTo, e.id(ev.Incident, 1))
		m.SetGenHeader(gomail.HeaderReferences, e.id(ev.Incident, 1))
	}
	m.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834
	m.SetGenHeader("X-Tailscope-Incident", clean(truncate(ev.Incident, 200), "")+"/"+strconv.Itoa(ev.Seq))
	m.SetBodyString(gomail.TypeTextPlain, strings.ReplaceAll(body, "\r\n", "\n"))
	var b bytes.Buffer
	_, err = m.WriteTo(&b)
	return b.Bytes(), err
}

// id returns the Message-ID of an event.
func (e *email) id(incident string, seq int) string {
	local := incident
	if len(local) > 100 || local == "" || strings.ContainsFunc(local, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}) {
		sum := sha256.Sum256([]byte(incident))
		local = hex.EncodeToString(sum[:16])
	}
	return "<tailscope." + local + "." + strconv.Itoa(seq) + "@" + e.domain + ">"
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
