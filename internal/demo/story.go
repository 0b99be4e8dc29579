package demo

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/logbook"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/judge/marks"
)

// story is what the demo has done, does, and will do, for the banner of the page. Its
// methods are safe for concurrent use; what they read of a scene's act never changes.
type story struct {
	now func() time.Time

	mu   sync.Mutex
	next []act    // to come, in order
	past []*scene // begun, in order; the last one may be running
	from time.Time
	// earlier are marks of the history, whose verdicts are said as those of acts are.
	earlier []*scene
}

// scene is an act that has begun.
type scene struct {
	act
	begun time.Time
	ended time.Time // zero while it runs
	err   error     // as it ended

	id      string // of its mark or session, once there is one
	told    string // the measure and the verdict that were said last, while more is to come
	settled bool   // nothing more is to come of it
	verdict string // what came of it so far, in a sentence; empty while nothing can be said
}

// mostPast bounds the scenes that are kept: the first, by which a run is known, and the last.
const mostPast = 20

func newStory(now func() time.Time) *story { return &story{now: now} }

// plan begins to wait for the first of the acts.
func (s *story) plan(acts []act) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next, s.from = acts, s.now()
}

// untilNext returns how long it is until the next act is to begin.
func (s *story) untilNext() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.from.Add(s.next[0].wait).Sub(s.now())
}

// begin begins the next act. One that comes again is planned once more.
func (s *story) begin() *scene {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := &scene{act: s.next[0], begun: s.now()}
	if s.next = s.next[1:]; x.again {
		s.next = append(s.next, x.act)
	}
	if s.past = append(s.past, x); len(s.past) > mostPast {
		s.past = slices.Delete(s.past, 1, 2)
	}
	return x
}

// end ends an act. The next one waits from now on.
func (s *story) end(x *scene, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.ended, x.err, s.from = s.now(), err, s.now()
	x.settled = err != nil && x.kind == "" // what failed may be in the log book, and say why
}

// identify names the mark or the session of an act.
func (s *story) identify(x *scene, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.id = id
}

func (s *story) id(x *scene) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return x.id
}

// marked has the verdict of a mark of the history said, once it is judged.
func (s *story) marked(name, id string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.earlier = append(s.earlier, &scene{act: act{name: name}, begun: at, ended: at, id: id})
}

// missingAfter is how long a session that has ended is looked for, and its headline.
const missingAfter = time.Minute

// open returns the acts of which a verdict is to come.
func (s *story) open() (out []*scene) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range slices.Concat(s.earlier, s.past) {
		missing := x.id == "" && !x.ended.IsZero() && s.now().Sub(x.ended) > missingAfter
		if !x.settled && !missing && (x.id != "" || x.kind != "") {
			out = append(out, x)
		}
	}
	return out
}

// judged takes a verdict of an act's mark, and returns what is to be said of it: a change as
// soon as one is found and whenever another figure tells it, and the final verdict. Of what was
// before the demo nothing provisional is said.
func (s *story) judged(x *scene, v *api.MarkVerdict) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case v.State == marks.Final:
		x.verdict, x.settled = v.Sentence, true
		return x.verdict
	case !judge.Moved(v.Verdict):
		x.verdict = ""
		return ""
	}
	x.verdict = soFar + v.Sentence
	told := string(v.Verdict)
	if len(v.Services) > 0 {
		told += " " + v.Services[0].Lead
	}
	if x.told == told || v.State == marks.Provisional && slices.Contains(s.earlier, x) {
		return ""
	}
	x.told = told
	return x.verdict
}

// soFar begins a verdict of which more is to come.
const soFar = "so far: "

// kept takes the state of an act's session, and returns what is to be said once it has ended.
func (s *story) kept(x *scene, of *api.Session) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.id = of.ID
	// The server may judge a mirror's last slots for a while longer.
	over, late := of.State != api.Running, s.now().Sub(of.Updated.Time()) > missingAfter
	switch {
	case !over || x.kind == logbook.KindMirror && !late:
		return ""
	case of.Headline == "":
		x.settled = late
		return ""
	}
	x.verdict, x.settled = of.Headline, true
	return of.Headline
}

// page returns the address of the page where an act is seen.
func (s *story) page(x *scene) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return x.seen(s.now())
}

// around is how long before an act, and after it, its page shows.
const around = 5 * time.Minute

// seen is the address of the act's page: the last minutes as long as they reach back to
// before it, then those around it.
func (x *scene) seen(now time.Time) string {
	switch {
	case x.page == "" && x.id == "" && x.kind != "":
		return "/sessions"
	case x.page == "" && x.kind != "":
		return "/sessions/" + url.PathEscape(x.id)
	case x.page == "" && x.id != "":
		return "/services/shop/marks/" + url.PathEscape(x.id)
	}
	page, mark := x.page, "?"
	if page == "" {
		page = shopPage
	}
	if strings.Contains(page, "?") {
		mark = "&"
	}
	if now.Sub(x.begun) < 2*around {
		return page + mark + "range=15m"
	}
	return fmt.Sprintf("%s%sstart=%d&end=%d", page, mark, x.begun.Add(-around).Unix(), x.begun.Add(around).Unix())
}

// shopPage is where an act is seen that has no other page yet.
const shopPage = "/services/shop"

// acts lists what has begun, the latest last, and what comes, at the times at which it
// comes if each act takes as long as it usually does.
func (s *story) acts() []api.Act {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, at := s.now(), s.from
	never := api.UnixTime(time.Time{})
	out := []api.Act{}
	for _, x := range s.past {
		a := api.Act{Name: x.name, Text: x.text, State: "done", At: api.UnixTime(x.begun), End: api.UnixTime(x.ended), Page: x.seen(now), Verdict: x.verdict}
		switch {
		case x.ended.IsZero():
			a.State, a.End = "runs", never
			if at = x.begun.Add(x.lasts); at.Before(now) {
				at = now
			}
		case x.err != nil:
			if a.State = "failed"; a.Verdict == "" {
				a.Verdict = figure.Sentence(x.err.Error())
			}
		}
		out = append(out, a)
	}
	for _, a := range s.next {
		at = at.Add(a.wait)
		page := a.page
		switch {
		case page != "":
		case a.kind != "":
			page = "/sessions"
		default:
			page = shopPage
		}
		out = append(out, api.Act{Name: a.name, Text: a.text, State: "comes", At: api.UnixTime(at), End: never, Page: page})
		at = at.Add(a.lasts)
	}
	return out
}

// preview is a line about what comes, and when.
func (s *story) preview() string {
	var words []string
	for _, a := range s.acts() {
		words = append(words, a.At.Time().Format("15:04")+" "+a.Name)
	}
	return "what comes: " + strings.Join(words, ", ")
}
