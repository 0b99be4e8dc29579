package verdicts

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Tenants with too few requests to be judged each are judged together.
func TestLightTenantsTogether(t *testing.T) {
	loads := slices.Clip(crowd("shop", 6))
	for i := range 20 {
		loads = append(loads, load{service: "shop", operation: operations[i%4], tenant: fmt.Sprint("light-", i), perSecond: 0.008, median: 0.05})
	}
	changed := with(loads, func(l *load) {
		if strings.HasPrefix(l.tenant, "light-") {
			l.median *= 3
		}
	})
	for _, c := range []struct {
		name  string
		after []load
		moved bool
	}{{"slower", changed, true}, {"as before", loads, false}} {
		t.Run(c.name, func(t *testing.T) {
			trials(t, 0.95, func(w *world) (bool, string) {
				w.send(time.Hour, loads...)
				w.send(time.Hour, c.after...)
				w.advance(time.Minute)
				r := w.compare("shop", before, after)
				if r.Light == nil {
					return false, "no row"
				}
				_, text := w.tailscope("compare", "--service", "shop", "--a", before.text(".."), "--b", after.text(".."))
				slower := strings.Contains(r.Light.Sentence, "times as slow")
				return r.Light.Tenants == 20 && slower == c.moved && strings.Contains(text, "20 light tenants together"), all(r.Light.Sentence, "|", r.Sentence)
			})
		})
	}
}
