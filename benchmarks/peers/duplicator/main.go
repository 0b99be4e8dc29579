// Command duplicator is the least that duplicates requests: each goes to a
// primary, whose answer the client gets, and by a bounded queue and a fixed
// number of workers to a candidate, whose answer is thrown away. Nothing is
// measured, paired or streamed.
//
//	duplicator -with net/http|fasthttp -listen ADDR -primary ADDR -candidate ADDR
package main

import (
	"bytes"
	"flag"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	workers = 64
	queue   = 1024
)

func main() {
	with := flag.String("with", "net/http", "net/http or fasthttp")
	listen := flag.String("listen", "", "address")
	primary := flag.String("primary", "", "address of the primary")
	candidate := flag.String("candidate", "", "address of the candidate; empty duplicates nothing")
	flag.Parse()
	switch *with {
	case "net/http":
		log.Fatal(reverseProxy(*listen, *primary, *candidate))
	case "fasthttp":
		log.Fatal(fast(*listen, *primary, *candidate))
	default:
		log.Fatalf("-with %q is neither net/http nor fasthttp", *with)
	}
}

// reverseProxy is httputil.ReverseProxy with a copy made on the way in.
func reverseProxy(listen, primary, candidate string) error {
	transport := &http.Transport{MaxIdleConns: 512, MaxIdleConnsPerHost: 256, DisableCompression: true}
	p := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: primary})
	p.Transport = transport
	var h http.Handler = p
	if candidate != "" {
		copies := make(chan *http.Request, queue)
		for range workers {
			go func() {
				for r := range copies {
					if resp, err := transport.RoundTrip(r); err == nil {
						_, _ = io.Copy(io.Discard, resp.Body)
						_ = resp.Body.Close()
					}
				}
			}()
		}
		h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			c := &http.Request{Method: r.Method, URL: &url.URL{Scheme: "http", Host: candidate, Path: r.URL.Path, RawQuery: r.URL.RawQuery},
				Host: r.Host, Header: r.Header.Clone(), ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body))}
			select {
			case copies <- c:
			default: // dropped, uncounted
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			p.ServeHTTP(w, r)
		})
	}
	return (&http.Server{Addr: listen, Handler: h, ReadHeaderTimeout: time.Minute}).ListenAndServe()
}

// fast returns the same on fasthttp.
func fast(listen, primary, candidate string) error {
	to := &fasthttp.HostClient{Addr: primary, MaxConns: 512}
	copies := make(chan *fasthttp.Request, queue)
	if candidate != "" {
		c := &fasthttp.HostClient{Addr: candidate, MaxConns: workers}
		for range workers {
			go func() {
				var resp fasthttp.Response
				for r := range copies {
					_ = c.Do(r, &resp)
					fasthttp.ReleaseRequest(r)
				}
			}()
		}
	}
	s := &fasthttp.Server{NoDefaultServerHeader: true, Handler: func(ctx *fasthttp.RequestCtx) {
		if candidate != "" {
			r := fasthttp.AcquireRequest()
			ctx.Request.CopyTo(r)
			select {
			case copies <- r:
			default: // dropped, uncounted
				fasthttp.ReleaseRequest(r)
			}
		}
		if err := to.Do(&ctx.Request, &ctx.Response); err != nil {
			ctx.Error(err.Error(), fasthttp.StatusBadGateway)
		}
	}}
	return s.ListenAndServe(listen)
}
