package scenario

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Watch samples running processes once a second while another program loads them.
type Watch struct {
	read  *readings
	end   context.CancelFunc
	ended sync.WaitGroup
}

// StartWatch finds the processes of servers, of which it uses only name, PID, PIDFile
// and Port. The caller closes the Watch. trouble is called with what cannot be read.
func StartWatch(servers []Server, trouble func(string)) (*Watch, error) {
	w := &Watch{read: newReadings(nil, trouble)}
	for i := range servers {
		v := &server{Server: servers[i]}
		pid, err := v.find()
		if err != nil {
			return nil, fmt.Errorf("%w (hint: start it first, and watch it where it runs)", err)
		}
		v.setProcess(nil, pid)
		w.read.servers = append(w.read.servers, v)
	}
	ctx, end := context.WithCancel(context.Background())
	w.end = end
	w.ended.Go(func() { w.read.follow(ctx) })
	return w, nil
}

// Usage is as Held.Usage.
func (w *Watch) Usage(from, to time.Time) (cores float64, resources map[string]float64) {
	return w.read.between(from, to)
}

// Close ends the sampling.
func (w *Watch) Close() {
	w.end()
	w.ended.Wait()
}
