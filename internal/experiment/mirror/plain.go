package mirror

import (
	"context"
	"net"

	"tailscope/internal/experiment/mirror/offer"
	"tailscope/internal/experiment/mirror/proxy"
)

// newPlain returns the server of HTTP/1.1 clients, or nil if the primary does not
// speak it.
func (s *Session) newPlain(offers *offer.Maker) (plain, error) {
	if !s.primary.http1 {
		return nil, nil
	}
	p, err := proxy.New(proxy.Options{
		Addresses: []string{s.primary.addr()},
		Dial: func(ctx context.Context, _ string) (net.Conn, error) {
			return s.primary.dialHTTP1(ctx)
		},
		Session:        s.o.ID,
		Maker:          offers,
		KeepLimit:      s.o.keepBytes(),
		PrimaryTimeout: s.o.PrimaryTimeout,
		DialTimeout:    connectTimeout,
	})
	if err != nil {
		return nil, err // and no interface around nil
	}
	return p, nil
}
