package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"tailscope/internal/figure"
	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

const (
	maxBody      = 1 << 20
	maxRedirects = 10
)

// trusted is a transport that believes certain certificates, and the state of
// their file when it was read.
type trusted struct {
	transport *http.Transport
	changed   time.Time
}

// transport returns one that keeps no connection: each probe finds the name,
// connects and shakes hands by itself.
func (p *Prober) transport(of trust) (*http.Transport, error) {
	var changed time.Time
	if of.ca != "" {
		info, err := os.Stat(of.ca)
		if err != nil {
			return nil, fmt.Errorf("read ca: %w; name a file of certificates in PEM that the server may read", err)
		}
		changed = info.ModTime()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.trusts[of]; t != nil && t.changed.Equal(changed) {
		return t.transport, nil
	}
	config, err := of.config()
	if err != nil {
		return nil, err
	}
	t := &http.Transport{
		DialContext: p.dialer.DialContext, TLSClientConfig: config,
		DisableKeepAlives: true, DisableCompression: true, ForceAttemptHTTP2: true,
		MaxResponseHeaderBytes: 64 << 10,
	}
	p.trusts[of] = &trusted{t, changed}
	return t, nil
}

func (p *Prober) http(ctx context.Context, s *spec.HTTP, hide *secrets) event.Reading {
	transport, err := p.transport(trust{s.CA, s.Insecure})
	if err != nil {
		return failed(err)
	}
	method := s.Method
	if method == "" {
		method = http.MethodGet
	}
	var firstByte time.Time
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotFirstResponseByte: func() { firstByte = time.Now() }})
	req, err := http.NewRequestWithContext(traced, method, s.URL, strings.NewReader(s.Body))
	if err != nil {
		return failed(fmt.Errorf("request: %w; write an address such as https://shop.example/health", unwrapURL(err)))
	}
	if s.Body == "" {
		req.Body, req.GetBody, req.ContentLength = nil, nil, 0
	}
	if password, ok := req.URL.User.Password(); ok {
		hide.hide(password)
	}
	req.Header.Set("User-Agent", "tailscope-check")
	for name, text := range s.Headers {
		value, err := hide.text("header "+name, text)
		if err != nil {
			return failed(err)
		}
		req.Header.Set(name, value)
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	client := &http.Client{Transport: transport, CheckRedirect: redirects(s, req)}

	begin := time.Now()
	res, err := client.Do(req)
	if err != nil {
		return refused(unreachable(ctx, req.URL.Scheme+"://"+req.URL.Host, err))
	}
	defer res.Body.Close()
	limit := s.MaxBytes
	if limit <= 0 {
		limit = maxBody
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	took := time.Since(begin)
	if err != nil {
		return refused(fmt.Errorf("the answer broke off after %d bytes: %w; look at the server's log", len(body), unreachable(ctx, "the server", err)))
	}
	more := int64(len(body)) > limit
	if more {
		body = body[:limit]
	}

	r := event.Reading{Took: took, Text: fmt.Sprintf("%d %s, %d bytes in %s, the first after %s",
		res.StatusCode, http.StatusText(res.StatusCode), len(body), short(took), short(firstByte.Sub(begin)))}
	if more {
		r.Text += fmt.Sprintf("; no more than %d bytes were read", limit)
	}
	well := res.StatusCode >= 200 && res.StatusCode < 400
	if len(s.Expect) > 0 {
		well = slices.Contains(s.Expect, res.StatusCode)
	}
	if !well {
		r.Level = level(event.Critical)
		r.Text = "unexpected status " + r.Text
	}
	switch s.Measure {
	case "", "time":
		r.Value = took.Seconds()
		return r
	case "first_byte":
		r.Value = firstByte.Sub(begin).Seconds()
		return r
	case "status":
		r.Value = float64(res.StatusCode)
		return r
	}
	if more {
		r.Null, r.Err = true, fmt.Errorf("the body is larger than %d bytes; raise max_bytes", limit)
		return r
	}
	switch s.Measure {
	case "size":
		r.Value = float64(len(body))
	case "json":
		r.Value, r.Null, err = numberAt(body, s.JSON)
	case "regexp":
		r.Value, r.Null, err = numberMatching(body, s.Regexp)
	default:
		err = fmt.Errorf("cannot measure %q of an answer; write time, first_byte, status, size, json or regexp", s.Measure)
	}
	if err != nil && !well { // the status matters more than what is not in the body
		err = fmt.Errorf("unexpected status %d %s: %w", res.StatusCode, http.StatusText(res.StatusCode), err)
	}
	if err != nil {
		r.Null, r.Err = true, err
	}
	return r
}

// redirects follows some, but takes no secret to another origin: net/http keeps
// only Authorization and cookies back by itself.
func redirects(s *spec.HTTP, first *http.Request) func(*http.Request, []*http.Request) error {
	origin := *first.URL
	return func(req *http.Request, via []*http.Request) error {
		if s.NoRedirects {
			return http.ErrUseLastResponse
		}
		if len(via) >= maxRedirects {
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		if req.URL.Scheme != origin.Scheme || req.URL.Host != origin.Host {
			for name, text := range s.Headers {
				if text.Secret != nil {
					req.Header.Del(name)
				}
			}
			req.Header.Del("Authorization") // of the address's own user
		}
		return nil
	}
}

// unwrapURL drops the address from an error of net/http or net/url: its query
// may hold what nobody should read.
func unwrapURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// unreachable returns why something did not answer, and what to look at.
func unreachable(ctx context.Context, what string, err error) error {
	err = unwrapURL(err)
	var (
		name     *net.DNSError
		verify   *tls.CertificateVerificationError
		authory  x509.UnknownAuthorityError
		deadline net.Error
	)
	switch {
	case ctx.Err() != nil || errors.As(err, &deadline) && deadline.Timeout():
		return fmt.Errorf("%s did not answer in time; raise the check's timeout if it may take longer", what)
	case errors.As(err, &name):
		return fmt.Errorf("%s: the name %s is not found; correct the address or the name server", what, name.Name)
	case errors.As(err, &authory):
		return fmt.Errorf("%s: %w; name its authority's certificate by ca", what, err)
	case errors.As(err, &verify):
		return fmt.Errorf("%s: %w; renew the certificate, or correct the address", what, err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%s refuses connections; start it, or correct the address", what)
	}
	return fmt.Errorf("%s: %w; look at whether it runs, and at its log", what, err)
}

// short prints a duration for people.
func short(d time.Duration) string { return figure.Seconds(d.Seconds()) }
