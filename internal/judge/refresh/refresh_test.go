package refresh

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Readers who ask at the same moment cost one computation. When it fails another of
// them computes, and a reader who leaves waits no longer.
func TestReadersShareAComputation(t *testing.T) {
	for _, alone := range []bool{false, true} {
		t.Run(fmt.Sprintf("alone=%v", alone), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := Cache[int]{Size: 16, Fresh: time.Minute, Alone: alone}
				now := time.Now()
				computed := 0
				failed := errors.New("the first reader went away")
				want := new(int)
				compute := func() (*int, error) {
					computed++
					if computed == 1 {
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
					out, err := c.Get(ctx, "key", now, compute)
					if err == nil && out != want {
						err = errors.New("another answer")
					}
					ends <- err
				}
				go get(t.Context())
				synctest.Wait() // it computes
				go get(gone)
				for range 3 {
					go get(t.Context())
				}
				found := map[error]int{}
				for range 5 {
					found[<-ends]++
				}
				if computed != 2 || found[nil] != 3 || found[failed] != 1 || found[context.DeadlineExceeded] != 1 {
					t.Errorf("computed %d times, answers %v; want 2, of which one failed", computed, found)
				}
				if _, err := c.Get(t.Context(), "key", now, compute); err != nil || computed != 2 {
					t.Errorf("%v, computed %d times; want the answer that is kept", err, computed)
				}
			})
		})
	}
}

// Answers to several keys are computed at the same time, or one after another.
func TestAlone(t *testing.T) {
	for _, c := range []struct {
		alone bool
		want  time.Duration
	}{{false, time.Second}, {true, 3 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			cache := Cache[int]{Size: 16, Fresh: time.Minute, Alone: c.alone}
			begin, ends := time.Now(), make(chan error)
			for key := range 3 {
				go func() {
					_, err := cache.Get(t.Context(), fmt.Sprint(key), begin, func() (*int, error) {
						time.Sleep(time.Second)
						return &key, nil
					})
					ends <- err
				}()
			}
			for range 3 {
				if err := <-ends; err != nil {
					t.Error(err)
				}
			}
			if took := time.Since(begin); took != c.want {
				t.Errorf("alone %v: three answers took %v, want %v", c.alone, took, c.want)
			}
		})
	}
}

// An answer is kept for Fresh, or Times as long as it took, and the newest Size are.
func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Cache[string]{Size: 2, Fresh: 10 * time.Second, Times: 10}
		computed := ""
		get := func(key string, takes time.Duration) {
			t.Helper()
			out, err := c.Get(t.Context(), key, time.Now(), func() (*string, error) {
				computed += key
				time.Sleep(takes)
				return &key, nil
			})
			if err != nil || *out != key {
				t.Errorf("%v, %v of %s", out, err, key)
			}
		}
		expect := func(want string) {
			t.Helper()
			if computed != want {
				t.Errorf("computed %s, want %s", computed, want)
			}
			computed = ""
		}
		get("a", 0)
		time.Sleep(10*time.Second - time.Nanosecond)
		get("a", 0)
		expect("a")
		time.Sleep(time.Nanosecond)
		get("a", 3*time.Second)
		expect("a")
		time.Sleep(27*time.Second - time.Nanosecond)
		get("a", 0)
		expect("")
		get("b", 0)
		get("c", 0)
		get("b", 0)
		get("a", 0)
		expect("bca")
	})
}

// An answer that took long is kept longer, however it was computed.
func TestWhatTookLongIsKeptLonger(t *testing.T) {
	c := Cache[int]{Size: 16, Fresh: time.Minute, Times: 4, Longest: 10 * time.Minute}
	now := time.Now()
	for _, x := range []struct{ took, kept time.Duration }{{0, time.Minute}, {time.Minute, 4 * time.Minute}, {time.Hour, 10 * time.Minute}} {
		c.Keep("key", now, x.took, new(int))
		if c.Kept("key", now.Add(x.kept-time.Second)) == nil || c.Kept("key", now.Add(x.kept)) != nil {
			t.Errorf("what took %s is not kept for %s", x.took, x.kept)
		}
	}
}
