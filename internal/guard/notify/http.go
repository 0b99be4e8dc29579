package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"tailscope/internal/backoff"
)

// newClient returns a client for one receiver. It does not follow redirects: what is
// posted holds secrets and is for one address.
func newClient(connections int, ca string, insecure bool) (*http.Client, error) {
	config := &tls.Config{InsecureSkipVerify: insecure}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca: %s holds no certificate in PEM", ca)
		}
	}
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSClientConfig:       config,
			TLSHandshakeTimeout:   10 * time.Second,
			ResponseHeaderTimeout: 60 * time.Second,
			MaxIdleConnsPerHost:   connections,
			IdleConnTimeout:       90 * time.Second,
			ForceAttemptHTTP2:     true,
		},
	}, nil
}

// answerBytes bounds the answer that is read, and quoted the part of it in errors.
const (
	answerBytes = 64 << 10
	quotedBytes = 200
)

// post sends a request and classifies the answer. Its errors hold neither secrets nor
// more of the address than the host.
func post(ctx context.Context, client *http.Client, to string, header http.Header, body []byte, secrets ...string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, refusal{errors.New("the address is not a URL")}
	}
	for name, values := range header {
		if name == "Host" {
			req.Host = values[0]
		}
		req.Header[name] = values
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "tailscope")
	}
	res, err := client.Do(req)
	if err != nil {
		// url.Error prints the whole address, and addresses may be secrets.
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, redact(fmt.Errorf("post: %w", err), secrets)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, answerBytes))
	if res.StatusCode/100 == 2 {
		return text, nil // it has said so, whatever became of the rest
	}
	said := res.Status
	if err == nil && len(text) > 0 {
		said += ": " + truncate(clean(string(text), ""), quotedBytes)
	}
	return text, redact(classifyResponse(res, errors.New(said)), secrets)
}

// classifyResponse returns the error of a status. Messages refused with 401 or 407 are
// kept: secrets are read at each attempt, and may be corrected.
func classifyResponse(res *http.Response, err error) error {
	after := backoff.RetryAfter(res.Header.Get("Retry-After"))
	switch code := res.StatusCode; {
	case code == http.StatusUnauthorized, code == http.StatusProxyAuthRequired:
		return answer{error: fmt.Errorf("%w (put the user and the password right)", err)}
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests:
		return answer{error: err, after: after}
	case code == http.StatusBadGateway, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		return answer{error: err, after: after}
	case code >= 500:
		return answer{error: err, after: after, alive: true}
	case code >= 300 && code < 400:
		return refusal{fmt.Errorf("%w (write the address that it redirects to)", err)}
	}
	return refusal{err}
}

// origin returns an address without user, path and query, each of which may be a
// secret.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "(not a URL)"
	}
	s := u.Scheme + "://" + u.Host
	if (u.Path != "" && u.Path != "/") || u.RawQuery != "" {
		s += "/…"
	}
	return s
}

// basicAuth returns the credentials of RFC 7617.
func basicAuth(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}
