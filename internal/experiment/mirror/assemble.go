package mirror

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/mirror/choose"
	"tailscope/internal/experiment/mirror/offer"
	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/experiment/mirror/redact"
	"tailscope/internal/experiment/mirror/shadow"
)

func (o *Options) chooseOptions() choose.Options {
	c := choose.Options{
		Share: o.Share, Paused: o.Paused, By: o.By, Methods: o.Methods, Headers: o.Headers, Unsafe: o.Unsafe,
		Operations: o.Operations, Tenant: o.Tenant,
	}
	if o.Path != "" {
		c.Paths = []string{o.Path}
	}
	return c
}

func (o *Options) rewriteOptions() choose.RewriteOptions {
	return choose.RewriteOptions{Host: o.Host, Paths: o.Rewrites, Set: o.SetHeaders, Drop: o.DropHeaders}
}

// validateRules compiles the rules, to report every mistake in them.
func (o *Options) validateRules() error {
	rules := o.chooseOptions()
	rules.Share = 1 // Validate checks it
	_, err := choose.New(rules)
	_, rewriting := choose.NewRewriter(o.rewriteOptions())
	redactor, redacting := redact.New(redact.Rules(o.Redact))
	var comparing error
	if redacting == nil && len(o.Compare) > 0 && len(o.shadows()) > 0 {
		d := o.differOptions(redactor)
		comparing = d.Validate()
	}
	return errors.Join(err, rewriting, redacting, comparing)
}

// assemble makes the parts of a session that will listen on l. If it fails, it closes
// everything except l.
func (s *Session) assemble(ctx context.Context, l net.Listener) (err error) {
	o := &s.o
	config, err := clientTLS(o)
	if err != nil {
		return err
	}
	var listening *tls.Config
	if o.TLSCert != "" {
		c, err := newCertificate(o.TLSCert, o.TLSKey, s.log)
		if err != nil {
			return err
		}
		listening = &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12}
	}
	if err := thisMachine().checkServers(ctx, o, l.Addr()); err != nil {
		return err
	}
	if s.primary, err = reach(ctx, o, config); err != nil {
		return err
	}
	if s.chooser, err = choose.New(o.chooseOptions()); err != nil {
		return err
	}
	rewriter, err := choose.NewRewriter(o.rewriteOptions())
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.discard()
		}
	}()
	shadows := o.shadows()
	s.boundConnections()
	for i, p := range shadows {
		var onHeader func([]pair.Field)
		if o.OnHeader != nil {
			onHeader = func(header []pair.Field) { o.OnHeader(i, header) }
		}
		sender, err := shadow.NewSender(shadow.Options{
			OnHeader: onHeader, Name: p.Name, Role: p.role, Session: o.ID, Servers: p.Servers, Using: p.using,
			Connections: o.Connections, Queue: o.Queue, Buffer: o.Buffer, BodyLimit: o.BodyLimit,
			KeepLimit: o.keepBytes(), Timeout: o.Timeout, Amplify: o.Amplify, Spread: o.Spread, Rewrite: rewrites(rewriter), TLS: config,
		})
		if err != nil {
			return err
		}
		s.senders = append(s.senders, sender)
		if o.Amplify == 0 { // which NewSender takes for its default
			if err := sender.SetAmplify(0); err != nil {
				return err
			}
		}
	}
	if s.extras, err = newExtras(s); err != nil {
		return err
	}
	ledger := pair.Options{Service: o.Service, Experiment: o.ID, Sink: o.Sink, Watch: s.extras.watch}
	for _, p := range shadows {
		ledger.Shadows = append(ledger.Shadows, pair.Shadow{Name: p.Name, Role: p.role})
	}
	if err := ledger.Validate(); err != nil {
		return err
	}
	s.ledger = pair.NewLedger(ledger)
	offers := &offer.Maker{Ledger: s.ledger, Chooser: s.chooser, BodyLimit: cmp.Or(o.BodyLimit, -1)}
	for _, l := range s.senders {
		offers.Senders = append(offers.Senders, l)
	}
	if s.extras.wanted() {
		offers.Keep, offers.Watched = true, s.extras.watched
	}
	g := &general{
		session: o.ID, to: s.primary.server, out: s.primary.transport(), offers: offers, keep: o.keepBytes(),
		timeout: o.PrimaryTimeout, now: pair.Steady, log: s.log,
	}
	s.away = s.probe(ctx)
	plain, err := s.newPlain(offers)
	if err != nil {
		return err
	}
	s.httpListener = newHTTPListener(l, listening, plain, g, s.log)
	return nil
}

// pool holds the servers of a shadow.
type pool struct {
	Pool
	role  pair.Role
	using int
}

// shadows returns all pools that get copies, the control first.
func (o *Options) shadows() []pool {
	var all []pool
	if len(o.Control) > 0 {
		all = append(all, pool{Pool: Pool{Name: "control", Servers: o.Control}, role: pair.Control})
	}
	for _, p := range o.named() {
		all = append(all, pool{Pool: p, role: pair.Candidate, using: o.Using})
	}
	return all
}

// discard closes what assemble has made before it failed.
func (s *Session) discard() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, l := range s.senders {
		_ = l.Close(ctx)
	}
	_ = s.extras.close()
}

// keepBytes bounds the kept part of an answer's body.
func (o *Options) keepBytes() int {
	if len(o.Compare) == 0 {
		return 1 // 0 is the parts' default
	}
	return 256 << 10
}

// rewrites returns the rewriter's changes as the options of a sender.
func rewrites(w *choose.Rewriter) (r shadow.Rewrite) {
	if w.Target() {
		r.Target = w.AppendTarget
	}
	if w.Host() {
		r.Host = w.AppendHost
	}
	if w.Fields() {
		r.Fields = w.AppendFields
	}
	return r
}

// probeTimeout bounds the time for servers of shadows to accept a connection at the
// start.
const probeTimeout = 2 * time.Second

// probe connects to every server of the shadows once and returns those it did not
// reach. That is not an error: they may come later.
func (s *Session) probe(ctx context.Context) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	away := map[string]string{}
	for _, p := range s.o.shadows() {
		for _, text := range p.Servers {
			to, err := s.o.parse(text)
			if err != nil {
				continue
			}
			wg.Go(func() {
				c, err := new(net.Dialer).DialContext(ctx, "tcp", to.addr())
				if err == nil {
					c.Close()
					return
				}
				s.log.Warn("mirror: a server is away; its copies are dropped until it comes", "variant", p.Name, "server", text, "error", err)
				mu.Lock()
				defer mu.Unlock()
				why := strings.TrimPrefix(err.Error(), "dial tcp ")
				away[text], away[to.URL()] = why, why // as it is shown in either mode
			})
		}
	}
	wg.Wait()
	return away
}

// primaryState returns the primary's part of State.
func (s *Session) primaryState() api.MirrorTarget {
	open, down := s.primary.status()
	if s.httpListener != nil && s.httpListener.plain != nil {
		open += s.httpListener.plain.Connections()
	}
	return api.MirrorTarget{
		Name: "primary", Role: "primary", Using: 1, Amplify: 1, Diverged: nan,
		Servers: []api.MirrorServer{{URL: s.primary.text, Connections: open, Down: down}},
	}
}
