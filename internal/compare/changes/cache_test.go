package changes

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/api"
)

// Readers who ask at the same moment cost one search; where it fails another of
// them searches, and who has gone waits no more.
func TestReadersShareASearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c cache
		r := asked(0, 600)
		searches := 0
		failed := errors.New("the first reader went away")
		want := &api.ChangesResponse{}
		ask := func() (*api.ChangesResponse, error) {
			searches++
			if searches == 1 {
				time.Sleep(time.Second)
				return nil, failed
			}
			time.Sleep(time.Second)
			return want, nil
		}
		gone, leave := context.WithTimeout(t.Context(), time.Millisecond)
		defer leave()
		ends := make(chan error, 5)
		get := func(ctx context.Context) {
			out, err := c.get(ctx, &r, ask)
			if err == nil && out != want {
				err = errors.New("another answer")
			}
			ends <- err
		}
		go get(t.Context())
		synctest.Wait() // it searches
		go get(gone)
		for range 3 {
			go get(t.Context())
		}
		found := map[error]int{}
		for range 5 {
			found[<-ends]++
		}
		if searches != 2 || found[nil] != 3 || found[failed] != 1 || found[context.DeadlineExceeded] != 1 {
			t.Errorf("%d searches, answers %v; want 2, of which one failed", searches, found)
		}
		if _, err := c.get(t.Context(), &r, ask); err != nil || searches != 2 {
			t.Errorf("%v, %d searches; want the answer that is kept", err, searches)
		}
	})
}
