package accesslog

import (
	"context"
	"errors"
	"fmt"

	"tailscope/internal/store"
)

// shareRoutes goes by what servers of the store have learned of a service's routes, read again
// every store.ReadEvery while files of the service are, and adds what this one has. Of two that
// learn a place at once the first that writes has learned it.
func (in *Ingester) shareRoutes(ctx context.Context, s *service) error {
	s.mu.Lock()
	now, changed := in.o.Now(), s.router.routes.Changed
	due := changed || now.Sub(s.shared) >= store.ReadEvery
	if due {
		s.shared = now
	}
	s.mu.Unlock()
	if !due {
		return nil
	}
	for range 3 {
		revision, err := in.readRoutes(ctx, s)
		if err != nil {
			return err
		}
		value, changed, err := s.learned()
		if err != nil || !changed {
			return err
		}
		_, err = in.o.Routes.PutRecords(ctx, kind, store.RecordWrite{Key: routesKey(s.name), Value: value, IfRevision: revision})
		if err == nil {
			return nil
		}
		s.mu.Lock()
		s.router.routes.Changed = true
		s.mu.Unlock()
		if !errors.Is(err, store.ErrConflict) {
			return fmt.Errorf("save learned routes: %w", err)
		}
	}
	return nil // others learn faster: once more in the next call
}

// readRoutes has a service go by the routes that servers of the store have learned. It returns
// their revision, or 0 if there are none.
func (in *Ingester) readRoutes(ctx context.Context, s *service) (revision uint64, err error) {
	x, err := in.o.Routes.GetRecord(ctx, kind, routesKey(s.name))
	if errors.Is(err, store.ErrNoRecord) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("learned routes: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.Revision > s.revision {
		s.revision = x.Revision
		err = s.restoreRoutes(x.Value)
	}
	return x.Revision, err
}
