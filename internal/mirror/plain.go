package mirror

import (
	"context"
	"net"

	"tailscope/internal/mirror/proxy"
)

// newPlain returns the door for HTTP/1.1, or nil if the primary does not speak
// it.
func (s *Session) newPlain(d *desk) (plain, error) {
	if !s.primary.http1 {
		return nil, nil
	}
	o := proxy.Options{
		Addresses: []string{s.primary.addr()},
		Dial: func(ctx context.Context, _ string) (net.Conn, error) {
			return s.primary.dialHTTP1(ctx)
		},
		Session:        s.o.ID,
		Book:           s.book,
		Chooser:        s.chooser,
		Keep:           d.keep,
		KeepLimit:      d.keepBytes,
		Watched:        d.watched,
		BodyLimit:      d.bodyLimit,
		PrimaryTimeout: s.o.PrimaryTimeout,
		DialTimeout:    connectTimeout,
	}
	if o.BodyLimit == 0 {
		o.BodyLimit = -1
	}
	for _, l := range s.lanes {
		o.Lanes = append(o.Lanes, l)
	}
	p, err := proxy.New(o)
	if err != nil {
		return nil, err // and no interface around nil
	}
	return p, nil
}
