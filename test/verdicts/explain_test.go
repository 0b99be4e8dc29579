package verdicts

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tailscope/api"
)

// rectangle asks what a quarter of an hour of a service, from so long after the epoch on, has
// above a duration.
func (w *world) rectangle(from time.Duration, above float64) *api.ExplainResponse {
	w.t.Helper()
	return w.between(from, from+15*time.Minute, above)
}

// between asks what a service has above a duration, by a range that is hardly longer.
func (w *world) between(from, to time.Duration, above float64) *api.ExplainResponse {
	w.t.Helper()
	sel := ofService("shop")
	sel.Start, sel.End = unix(epoch.Add(from-5*time.Minute)), unix(epoch.Add(to))
	r, err := w.Explain(w.t.Context(), api.ExplainRequest{Selection: sel, From: unix(epoch.Add(from)), To: sel.End, Low: &above})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// sinceThen are the times after a change at which a rectangle is drawn.
var sinceThen = []time.Duration{2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour}

// A rectangle that begins after a change is compared with what was before it, however long
// after, and also where the change came in steps, or lies behind a mark at which nothing
// changed.
func TestExplainLongAfterAChange(t *testing.T) {
	loads := crowd("shop", 3)
	for _, c := range []struct {
		name, want string
		play       func(w *world)
	}{
		{"a tenant", "tenant tenant-3: ", func(w *world) {
			w.send(80*time.Minute, with(loads, slow("", "tenant-3", 3))...)
		}},
		{"all in steps", "all requests: ", func(w *world) {
			for i := range 3 {
				w.send(3*time.Minute, with(loads, func(l *load) {
					for _, o := range operations[:i+1] {
						slow(o, "", 2)(l)
					}
				})...)
			}
			w.send(71*time.Minute, with(loads, slow("", "", 2))...)
		}},
		{"behind a mark", "tenant tenant-3: ", func(w *world) {
			loads := with(loads, slow("", "tenant-3", 3))
			w.send(25*time.Minute, loads...)
			w.mark("no change", "shop")
			w.send(55*time.Minute, loads...)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			worlds(t, 1, 0.95, func(w *world) (bool, string) {
				w.send(time.Hour, loads...)
				c.play(w)
				w.advance(time.Minute)
				right, said := true, ""
				for _, at := range sinceThen {
					if c.name == "all in steps" {
						at = max(at, 10*time.Minute) // when all of them have come
					}
					r := w.rectangle(time.Hour+at, 0.3)
					right = right && strings.HasPrefix(r.Sentence, c.want) && r.Before.End <= epoch.Add(time.Hour).Unix()
					said += all(at, r.Sentence, time.Unix(r.Before.End, 0).UTC().Format(time.TimeOnly), r.Notes, "| ")
				}
				return right, said
			})
		})
	}
}

// Where nothing is named, it says what was compared.
func TestExplainSaysWhatWasCompared(t *testing.T) {
	trials(t, 0.95, func(w *world) (bool, string) {
		w.send(time.Hour, with(crowd("shop", 3), func(l *load) { l.failed = 0.01 })...)
		r := w.rectangle(40*time.Minute, 0.3)
		return r.Sentence == "nothing became slower here than it was from 2026-05-12 10:25:00 to 10:40:00 UTC; name another stretch before, or ask who is slow" &&
			len(r.Errors.Items) == 0 && strings.HasSuffix(strings.TrimSuffix(r.Errors.Sentence, ", but shares move as much by themselves: draw a longer rectangle"), " from 2026-05-12 10:25:00 to 10:40:00 UTC"), all(r.Sentence, r.Errors)
	})
}

// Whose requests fail more often is answered beside who became slow, also long after.
func TestExplainErrors(t *testing.T) {
	for _, c := range []struct {
		name, want string
		share      float64
		failing    func(l *load) bool
	}{
		{"a tenant", "tenant tenant-3: ", 0.15, func(l *load) bool { return l.tenant == "tenant-3" }},
		{"an operation", "operation GET /search: ", 0.15, func(l *load) bool { return l.operation == "GET /search" }},
		{"a pair", "operation GET /search with tenant tenant-3: ", 0.6, func(l *load) bool { return l.operation == "GET /search" && l.tenant == "tenant-3" }},
		{"all", "all requests: ", 0.15, func(l *load) bool { return true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			worlds(t, 1, 0.95, func(w *world) (bool, string) {
				loads := with(crowd("shop", 6), func(l *load) { l.failed = 0.004 })
				w.send(time.Hour, loads...)
				w.send(50*time.Minute, with(loads, func(l *load) {
					if c.failing(l) {
						l.failed = c.share
					}
				})...)
				w.advance(time.Minute)
				right, said := true, ""
				for _, at := range sinceThen[:3] {
					r := w.rectangle(time.Hour+at, 0.3)
					right = right && strings.HasPrefix(r.Errors.Sentence, c.want)
					if len(r.Items) == 0 {
						right = right && strings.HasPrefix(r.Sentence, "nothing became slower here than") && strings.HasSuffix(r.Sentence, "; but "+r.Errors.Sentence)
					}
					said += fmt.Sprint(at, " ", r.Sentence, " ", r.Notes, " | ")
				}
				return right, said
			})
		})
	}
}

// An outage of errors in the middle of an hour's rectangle is told with who failed, how much and
// when.
func TestExplainOutageInside(t *testing.T) {
	for _, c := range []struct {
		name, want string
		length     time.Duration
		failing    func(l *load) bool
	}{
		{"all for 10 min", "all requests: ", 10 * time.Minute, func(*load) bool { return true }},
		{"all for 20 min", "all requests: ", 20 * time.Minute, func(*load) bool { return true }},
		{"an operation for 20 min", "operation GET /search: ", 20 * time.Minute, func(l *load) bool { return l.operation == "GET /search" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			worlds(t, 1, 0.95, func(w *world) (bool, string) {
				loads := with(crowd("shop", 3), func(l *load) { l.failed = 0.005 })
				w.send(84*time.Minute, loads...)
				w.send(c.length, with(loads, func(l *load) {
					if c.failing(l) {
						l.failed = 0.25
					}
				})...)
				w.send(36*time.Minute-c.length, loads...)
				w.advance(time.Minute)
				r := w.between(time.Hour, 2*time.Hour, 0.3)
				return strings.HasPrefix(r.Errors.Sentence, c.want) && strings.Contains(r.Errors.Sentence, " from 2026-05-12 11:24:00 to 11:"), all(r.Sentence, r.Errors.Sentence, r.Notes)
			})
		})
	}
}

// Nobody is named by a tenant that was slow for a while and got well long before.
func TestExplainAfterWhatGotWell(t *testing.T) {
	loads := crowd("shop", 4)
	worlds(t, 1, 1, func(w *world) (bool, string) {
		w.send(40*time.Minute, loads...)
		w.send(20*time.Minute, with(loads, slow("", "tenant-5", 3))...)
		w.send(time.Hour, loads...)
		w.advance(time.Minute)
		r := w.rectangle(100*time.Minute, 0.3)
		return len(r.Items) == 0 && len(r.Errors.Items) == 0, all(r.Sentence, r.Notes, r.Errors.Sentence)
	})
}

// A tenant of a fortieth of the requests whose requests began to fail within the rectangle is
// named. Without, nobody is, and that more requests fail is not denied where their share rose.
func TestExplainErrorsFromWithinOn(t *testing.T) {
	for _, c := range []struct {
		name  string
		share float64
		right func(e *api.ExplainErrors) bool
	}{
		{"a tenant", 0.12, func(e *api.ExplainErrors) bool { return strings.HasPrefix(e.Sentence, "tenant tenant-3: ") }},
		{"nobody", 0.0046, func(e *api.ExplainErrors) bool {
			rose := e.Now >= 1.2*e.Share
			return len(e.Items) == 0 && strings.HasPrefix(e.Sentence, "it is not sure that more requests fail: ") == rose
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			worlds(t, 1, 0.95, func(w *world) (bool, string) {
				loads := with(crowd("shop", 12), func(l *load) {
					if l.failed = 0.0046; l.tenant == "tenant-3" {
						l.perSecond /= 3
					}
				})
				w.send(85*time.Minute, loads...)
				w.send(35*time.Minute, with(loads, func(l *load) {
					if l.tenant == "tenant-3" {
						l.failed = c.share
					}
				})...)
				w.advance(time.Minute)
				sel, above := ofService("shop"), 0.2
				sel.Start, sel.End = unix(epoch.Add(time.Hour)), unix(epoch.Add(2*time.Hour))
				r, err := w.Explain(t.Context(), api.ExplainRequest{Selection: sel, From: sel.Start, To: sel.End, Low: &above})
				if err != nil {
					t.Fatal(err)
				}
				return c.right(r.Errors), all(r.Sentence, r.Notes, r.Errors.Sentence)
			})
		})
	}
}

// First comes whose requests account for most of the increase, and what is said of it says its
// share and whose the rest is: not of all where one tenant of several became slow, and not of
// the first that did where more came of another.
func TestExplainWhoseTheIncreaseIs(t *testing.T) {
	heavy := with(crowd("shop", 4), func(l *load) {
		l.perSecond *= map[string]float64{"tenant-0": 7.2, "tenant-1": 2.4, "tenant-2": 1.2, "tenant-3": 1.2}[l.tenant]
	})
	heavy = slices.DeleteFunc(heavy, func(l load) bool { return l.perSecond == 0 })
	light := with(heavy, func(l *load) { l.perSecond /= 2 })
	failing := with(crowd("shop", 10), func(l *load) { l.failed = 0.004 })
	for _, c := range []struct {
		name       string
		play       func(w *world)
		start, end time.Duration // of the rectangle, after the first change
		said       []string      // in this order
	}{
		{"most of the requests", func(w *world) {
			w.send(time.Hour, light...)
			w.send(20*time.Minute, with(light, slow("", "tenant-0", 1.5))...)
		}, 0, 15 * time.Minute, []string{"tenant tenant-0: ", " the increase"}},
		{"a small one, then a large one", func(w *world) {
			w.send(time.Hour, heavy...)
			w.send(8*time.Minute, with(heavy, slow("", "tenant-3", 2))...)
			w.send(12*time.Minute, with(with(heavy, slow("", "tenant-3", 2)), slow("", "tenant-0", 1.5))...)
		}, 0, 20 * time.Minute, []string{"tenant tenant-0: ", " of the increase; ", " is of tenant tenant-3"}},
		{"one, then all others less", func(w *world) {
			loads := crowd("shop", 3)
			w.send(time.Hour, loads...)
			w.send(10*time.Minute, with(loads, slow("", "tenant-3", 2))...)
			w.send(10*time.Minute, with(with(loads, slow("", "tenant-3", 2)), slow("", "", 1.5))...)
		}, 0, 20 * time.Minute, []string{"all requests but those of tenant tenant-3: ", " of the increase; ", " is of tenant tenant-3"}},
		{"one in its second half, a larger one in its last fifth", func(w *world) {
			loads := crowd("shop", 3)
			w.send(time.Hour, loads...)
			w.send(12*time.Minute, with(loads, slow("", "tenant-3", 2))...)
			w.send(8*time.Minute, with(with(loads, slow("", "tenant-3", 2)), slow("POST /orders", "", 2))...)
		}, -20 * time.Minute, 20 * time.Minute, []string{"operation POST /orders: ", " since 2026-05-12 11:1", " of the increase; ", " is of tenant tenant-3"}},
		{"a small one that fills it, a large one in its last fifth", func(w *world) {
			loads := crowd("shop", 3)
			w.send(time.Hour, loads...)
			w.send(32*time.Minute, with(loads, slow("", "tenant-3", 1.5))...)
			w.send(8*time.Minute, with(with(loads, slow("", "tenant-3", 1.5)), slow("POST /orders", "", 2))...)
		}, 0, 40 * time.Minute, []string{"operation POST /orders: ", " since 2026-05-12 11:3", " of the increase; ", " is of tenant tenant-3"}},
		{"failing in the newest two minutes", func(w *world) {
			w.send(time.Hour, failing...)
			w.send(2*time.Minute, with(failing, func(l *load) {
				if l.tenant == "tenant-3" {
					l.failed = 0.15
				}
			})...)
		}, 0, 2 * time.Minute, []string{"; but tenant tenant-3: "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			worlds(t, 1, 0.95, func(w *world) (bool, string) {
				c.play(w)
				w.advance(time.Minute)
				r := w.between(time.Hour+c.start, time.Hour+c.end, 0.3)
				rest := r.Sentence
				for _, part := range c.said {
					var found bool
					if _, rest, found = strings.Cut(rest, part); !found {
						return false, all(r.Sentence, r.Notes)
					}
				}
				parts, sorted := 0.0, true
				for i, x := range r.Items {
					parts += float64(x.Part)
					sorted = sorted && (i == 0 || x.Part <= r.Items[i-1].Part)
				}
				return sorted && parts < 1.3, all(r.Sentence, r.Notes)
			})
		})
	}
}

// unequal is the traffic of a service at 5 requests/s: twelve tenants, of which the first has a
// third of the requests and each next one fewer, and four routes.
func unequal() (all []load) {
	for i, tenant := range []string{"acme", "globex", "initech", "umbrella", "hooli", "stark", "wayne", "tyrell", "cyberdyne", "soylent", "massive", "vehement"} {
		for operation, median := range map[string]float64{"GET /cart": 0.04, "GET /item": 0.06, "GET /search": 0.12, "POST /checkout": 0.18} {
			all = append(all, load{service: "shop", operation: operation, tenant: tenant, perSecond: 5. / 4 / 3.1032 / float64(i+1), median: median, failed: 0.004})
		}
	}
	slices.SortFunc(all, func(x, y load) int { return strings.Compare(x.tenant+x.operation, y.tenant+y.operation) })
	return all
}

// errorsOf makes so large a share of a tenant's requests fail, or of everybody's.
func errorsOf(tenant string, share float64) func(*load) {
	return func(l *load) {
		if tenant == "" || l.tenant == tenant {
			l.failed = share
		}
	}
}

// sendOlder sends an hour, then the two hours since a rollout that made all 1.3 times as slow: from
// four minutes after it globex failed for 25 minutes, and 40 minutes ago an outage of ten ended.
// It returns the traffic since.
func (w *world) sendOlder() []load {
	w.t.Helper()
	loads := unequal()
	w.send(time.Hour, loads...)
	loads = with(loads, slow("", "", 1.3))
	w.send(4*time.Minute, loads...)
	w.send(25*time.Minute, with(loads, errorsOf("globex", 0.3))...)
	w.send(41*time.Minute, loads...)
	w.send(10*time.Minute, with(loads, errorsOf("", 0.25))...)
	return loads
}

// A tenant's operation that became slow is told first and alone, by a rectangle that begins when
// it did and by one that begins minutes later, whatever changed hours before, and whatever
// failed: compared is a time shortly before it began. One of four rectangles may say less, as of
// the tenant where its other requests were slower by chance.
func TestExplainTheNewestCause(t *testing.T) {
	const m = time.Minute
	for _, c := range []struct {
		name  string
		begin func(w *world) []load
	}{
		{"after a rollout and errors", func(w *world) []load {
			loads := w.sendOlder()
			w.send(20*m, loads...)
			return loads
		}},
		{"nothing before", func(w *world) []load {
			loads := unequal()
			w.send(2*time.Hour, loads...)
			return loads
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			worlds(t, 1, 0.9, func(w *world) (bool, string) {
				loads := c.begin(w)
				since := w.clock().Sub(epoch)
				loads = with(loads, slow("POST /checkout", "initech", 2))
				right, said := 0, ""
				for _, x := range []struct{ sent, after time.Duration }{{20 * m, 0}, {0, 3 * m}, {0, 8 * m}, {7 * m, 15 * m}} {
					w.send(x.sent, loads...)
					w.advance(0)
					r := w.between(since+x.after, since+x.after+12*m, 0.3)
					near := r.Before.Start >= epoch.Add(since-time.Hour).Unix()
					ok := near && strings.HasPrefix(r.Sentence, "operation POST /checkout with tenant initech: ") && len(r.Items) == 1 && len(r.Errors.Items) == 0
					if ok {
						right++
					}
					said += all("\n", x.after, ok, r.Sentence, time.Unix(r.Before.Start, 0).UTC().Format(time.TimeOnly), r.Notes, r.Errors.Sentence)
				}
				return right >= 3, said
			})
		})
	}
}

// Of two hours since a rollout, with nothing newer, the rollout is told, or nothing: nobody is
// slower than just before.
func TestExplainNothingNewer(t *testing.T) {
	worlds(t, 1, 0.95, func(w *world) (bool, string) {
		w.send(45*time.Minute, w.sendOlder()...)
		w.advance(0)
		right, said := true, ""
		for _, from := range []time.Duration{33, 25, 18} {
			r := w.between(140*time.Minute+from*time.Minute, 140*time.Minute+from*time.Minute+12*time.Minute, 0.3)
			ok := len(r.Errors.Items) == 0 && (len(r.Items) == 0 || r.Before.End <= epoch.Add(time.Hour).Unix() && len(r.Items) == 1 && strings.HasPrefix(r.Sentence, "all requests: "))
			right = right && ok
			said += all("\n", from, ok, r.Sentence, time.Unix(r.Before.Start, 0).UTC().Format(time.TimeOnly), r.Notes, r.Errors.Sentence)
		}
		return right, said
	})
}
