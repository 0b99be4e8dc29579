package shadow

import "tailscope/internal/mirror/pair"

// server is one of a lane's pool.
type server struct {
	target
	lane  *Lane
	conns []*conn

	fails   int
	down    string
	retryAt int64
}

// conn is a connection to a server.
type conn struct{}

func (c *conn) kill(pair.Cause) {}

func (s *server) takeIdle(dst []*conn) []*conn { return dst }

func (l *Lane) connectFor(int64) {}

// send ends a copy: connections are yet to come.
func (l *Lane) send(j job) { l.drop(&j, pair.NoServer) }

// sweeps waits for the end of the lane.
func (l *Lane) sweeps() { <-l.swept }
