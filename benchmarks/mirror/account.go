package mirror

import (
	"context"
	"fmt"
	"time"

	"tailscope/api"
	"tailscope/client"
)

// CheckAccount fails unless every copy of the session that url's server knows is
// accounted for once nothing is under way. It returns the share of the copies
// that were answered and paired, 0..1.
func CheckAccount(ctx context.Context, url string) (paired float64, err error) {
	s, err := Session(ctx, url)
	if err != nil {
		return 0, err
	}
	var offered, matched uint64
	for _, t := range s.Mirror.Shadows {
		a := t.Account
		if a == nil {
			return 0, fmt.Errorf("%s has no account", t.Name)
		}
		offered += a.Offered
		matched += a.Paired
		if a.Offered != a.Queued+sum(a.Dropped)+a.Mirrored || a.Mirrored != a.Waiting+sum(a.Failed)+a.Answered ||
			a.Answered != a.Pairing+a.Paired+a.Unpaired {
			return 0, fmt.Errorf("the account of %s does not close: %+v", t.Name, *a)
		}
	}
	return float64(matched) / float64(max(offered, 1)), nil
}

// Session returns the only session of url's server, once it no longer changes.
func Session(ctx context.Context, url string) (*api.Session, error) {
	c := client.Client{Address: url}
	var last error
	for range 300 { // a minute: longer than a copy may take
		all, err := c.Sessions(ctx, api.SessionsRequest{})
		switch {
		case err != nil:
			last = err
		case len(all.Sessions) != 1 || all.Sessions[0].Mirror == nil:
			last = fmt.Errorf("the server knows %d sessions, want 1", len(all.Sessions))
		default:
			e := all.Sessions[0]
			last = fmt.Errorf("session %s has copies under way", e.ID)
			busy := false
			for _, t := range e.Mirror.Shadows {
				busy = busy || t.Account == nil || t.Account.Queued+t.Account.Waiting+t.Account.Pairing > 0
			}
			if !busy && time.Since(seconds(e.Updated)) < 3*time.Second {
				return &e, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
	return nil, last
}

func seconds(f api.Float) time.Time { return time.UnixMicro(int64(f * 1e6)) }

func sum(m map[string]uint64) (n uint64) {
	for _, v := range m {
		n += v
	}
	return n
}
