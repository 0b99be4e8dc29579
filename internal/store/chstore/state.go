package chstore

import (
	"context"
	"fmt"
)

// State calls yield with what a writer has kept with its generations. See store.Store.
func (s *Store) State(ctx context.Context, writer string, prefix []byte, yield func(key, value []byte) error) error {
	done, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	m, err := s.readMeta(ctx)
	if err != nil {
		return fmt.Errorf("state of %s: %w", writer, err)
	}
	return s.readState(ctx, m, writer, prefix, yield)
}

// readState calls yield with the state of a writer as of a moment.
func (s *Store) readState(ctx context.Context, m *meta, writer string, prefix []byte, yield func(key, value []byte) error) error {
	r, err := s.client.read(ctx, s.first(), s.stateQuery(m, writer, prefix)+" ORDER BY key")
	if err == nil {
		for r.next() {
			key, value := r.bytes(), r.bytes()
			if r.err != nil {
				break
			}
			if err := yield(key, value); err != nil {
				return err
			}
		}
		err = r.err
	}
	if err != nil {
		return fmt.Errorf("state of %s: %w", writer, err)
	}
	return nil
}

// stateQuery selects the state of a writer, each key once: as it was last committed.
func (s *Store) stateQuery(m *meta, writer string, prefix []byte) string {
	begins := ""
	if len(prefix) > 0 {
		begins = fmt.Sprintf(" AND substring(key, 1, %d) = %s", len(prefix), quote(string(prefix)))
	}
	return "SELECT key, argMax(value, put) AS latest FROM " + s.qualified("state") + " WHERE writer = " + quote(writer) + begins +
		" AND " + m.visible.rows(false) + " GROUP BY key HAVING latest != ''"
}

// defaultFoldFrom is the number of rows of state from which a writer folds them.
const defaultFoldFrom = 100_000

// foldState deletes rows of state that later ones replace, once there are many. It may fail:
// then a later batch tries again.
func (p *putter) foldState(ctx context.Context, x *batchRows) {
	if p.states += len(x.batch.State); p.states < p.s.foldFrom {
		return
	}
	p.states = 0
	s := p.s
	err := func() error {
		m, err := s.readMeta(ctx)
		if err != nil {
			return err
		}
		// What is committed stays under its last number, so that a read in progress finds it.
		// Rows that were not committed may go, but those of an insertion on its way.
		return s.client.exec(ctx, s.first(), "ALTER TABLE "+s.qualified("state")+" DELETE WHERE writer = "+quote(p.writer)+
			fmt.Sprintf(" AND put < %d", x.number)+" AND (key, put) NOT IN (SELECT key, max(put) FROM "+s.qualified("state")+
			" WHERE writer = "+quote(p.writer)+" AND "+m.visible.rows(false)+" GROUP BY key)")
	}()
	if err != nil && ctx.Err() == nil {
		s.opts.Logger.Warn("old state is not deleted; a later batch tries again", "writer", p.writer, "err", err)
	}
}
