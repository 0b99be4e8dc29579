package capacity

import (
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"time"

	"tailscope/test/program"
)

// Shop is the demo, whose shop is under hardly any load of its own, with a CPU limit.
type Shop struct {
	*program.Process
	URL    string
	Tenant string // whose shop it is: the value of the header X-Shop-Tenant
	limit  *Limit
}

// ShopHeader names the tenant.
const ShopHeader = "X-Shop-Tenant"

var (
	shopAt   = regexp.MustCompile(`the shop is at (http://\S+);.*: (\S+)`)
	shopLoad = regexp.MustCompile(`it is under load`)
)

// StartShop runs one with cores processors for all of the demo: shop, payments, and
// the server that takes their spans. Its files are in dir.
func StartShop(ctx context.Context, dir string, cores float64) (*Shop, error) {
	path, err := program.Build(ctx, "tailscope")
	if err != nil {
		return nil, err
	}
	limit, err := LimitCPU("tailscope-shop", cores)
	if err != nil {
		return nil, err
	}
	p, err := program.Start(filepath.Join(dir, "shop.log"), nil, path, "demo", "--no-open", "--rate", "0.2", "--orders", "5000", "--change", "none",
		"--change-after", "2h", "--backup-every", "2h", "--listen", "127.0.0.1:0", "--otlp-grpc", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, limit.Close())
	}
	s := &Shop{Process: p, limit: limit}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !shopLoad.MatchString(p.Log()) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), s.Close())
		case <-p.Done():
			return nil, errors.Join(errors.New("the demo ended: "+p.Log()), s.Close())
		}
	}
	// Filling it may be quick; being asked is what is limited.
	if err := limit.Add(p.Pid); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	m := shopAt.FindStringSubmatch(p.Log())
	if m == nil {
		return nil, errors.Join(errors.New("the demo does not say where its shop is: "+p.Log()), s.Close())
	}
	s.URL, s.Tenant = m[1], m[2]
	return s, nil
}

// Close ends it.
func (s *Shop) Close() error {
	s.Kill()
	<-s.Done()
	return s.limit.Close()
}
