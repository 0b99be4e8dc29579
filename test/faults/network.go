package faults

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// network is between programs and one node of ClickHouse. It passes each request on; the
// answers of insertions may be cut or held.
type network struct {
	host     string // of the node, host:port
	lose     atomic.Bool
	lost     atomic.Int64 // insertions that were done and whose answer was cut
	held     atomic.Int64 // insertions that were done and whose answer waited
	mu       sync.Mutex
	hold     chan struct{} // closed when answers go on; nil: they do not wait
	listener net.Listener
	server   http.Server
	client   http.Client
}

func newNetwork(host string) (*network, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	n := &network{host: host, listener: l, client: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Second, DisableCompression: true}}}
	n.server.Handler = n
	go func() { _ = n.server.Serve(l) }() // until close
	return n, nil
}

func (n *network) close() {
	n.release()
	_ = n.server.Close()
	n.client.CloseIdleConnections()
}

func (n *network) address() string { return n.listener.Addr().String() }

// ServeHTTP answers as the node does. Where the node does not answer, the connection is cut.
func (n *network) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	req := r.Clone(r.Context())
	req.RequestURI, req.URL.Scheme, req.URL.Host = "", "http", n.host
	req.Body = io.NopCloser(bytes.NewReader(body))
	res, err := n.client.Do(req)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK && strings.HasPrefix(r.URL.Query().Get("query"), "INSERT") {
		n.mu.Lock()
		hold := n.hold
		n.mu.Unlock()
		if hold != nil {
			n.held.Add(1)
			select {
			case <-hold:
			case <-r.Context().Done():
			}
		}
		if n.lose.Load() {
			n.lost.Add(1)
			panic(http.ErrAbortHandler)
		}
	}
	for k, v := range res.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(res.StatusCode)
	if _, err := io.Copy(w, res.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// holdAnswers makes the answers of insertions wait for release.
func (n *network) holdAnswers() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hold = make(chan struct{})
}

func (n *network) release() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hold != nil {
		close(n.hold)
		n.hold = nil
	}
}
