package server

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/observe/traces"
	"tailscope/internal/store"
)

// The codes of api.Problem.
const (
	problemDamage      = "damage"     // data is lost, or may be
	problemRecovered   = "recovered"  // something was damaged or missing, and no observation is lost
	problemDiskFull    = "disk_full"  // the store refuses to write: the disk is full
	problemNotStored   = "not_stored" // the store refuses to write, for another reason
	problemTraces      = "traces"     // traces or breakdowns of requests were dropped
	problemMemory      = "memory"
	problemMaintenance = "maintenance"
	problemSending     = "sending" // of an agent: the server takes nothing, or the spool is full
	problemClock       = "clock"   // the clock is far ahead, and maintenance does not follow it yet
)

// problemCodes lists every code. docs/degraded.md explains each.
var problemCodes = []string{problemDamage, problemRecovered, problemDiskFull, problemNotStored, problemTraces, problemMemory, problemMaintenance, problemSending, problemClock}

// health collects the reasons why the server is degraded. It reads its sources at each
// request. It is safe for concurrent use.
type health struct {
	mu      sync.Mutex
	sources []func() []api.Problem
}

func (h *health) watch(source func() []api.Problem) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sources = append(h.sources, source)
}

// problems returns the problems of every source, in the order of the sources.
func (h *health) problems() []api.Problem {
	h.mu.Lock()
	sources := slices.Clone(h.sources)
	h.mu.Unlock()
	var all []api.Problem
	for _, source := range sources {
		all = append(all, source()...)
	}
	return all
}

// damage returns all unacknowledged damage of the store and the journal, of this run and
// of earlier ones.
func (s *Server) damage() []store.Damage {
	found := append(s.data.damage(), s.agg.Damage()...)
	s.damageMu.Lock()
	defer s.damageMu.Unlock()
	out := slices.DeleteFunc(slices.Clone(s.known), func(k store.Damage) bool { return reported(found, k) })
	return slices.DeleteFunc(append(out, found...), func(d store.Damage) bool { return slices.Contains(s.acknowledged, d) })
}

// reported reports whether list holds damage of the same file.
func reported(list []store.Damage, d store.Damage) bool {
	return slices.ContainsFunc(list, func(o store.Damage) bool { return o.File == d.File && o.Part == d.Part })
}

// inPlace reports whether a damaged file is where the store needs it, so that questions
// keep failing until it is repaired.
func (s *Server) inPlace(d store.Damage) bool {
	if d.Part != "store" || filepath.Dir(d.File) != filepath.Join(s.cfg.Data, "store") || d.Observations == 0 && d.Lost == "" {
		return false
	}
	_, err := os.Stat(d.File)
	return err == nil
}

// acknowledgeDamage ends the reports of all damage that is no longer in place.
func (s *Server) acknowledgeDamage() (*api.DamageAcknowledged, error) {
	out := &api.DamageAcknowledged{}
	var over []store.Damage
	for _, d := range s.damage() {
		if s.inPlace(d) {
			out.Left++
			continue
		}
		over = append(over, d)
	}
	if err := s.acknowledge(func(d store.Damage) bool { return !reported(over, d) }); err != nil {
		return nil, err
	}
	s.damageMu.Lock()
	defer s.damageMu.Unlock()
	s.acknowledged = append(s.acknowledged, over...)
	out.Acknowledged = len(over)
	return out, nil
}

// damageProblems returns a source that reports what found returns.
func damageProblems(found func() []store.Damage) func() []api.Problem {
	return func() []api.Problem {
		var out []api.Problem
		for _, d := range found() {
			out = append(out, damageProblem(d))
		}
		return out
	}
}

const acknowledgeNext = "tailscope doctor --acknowledge, or POST /api/v1/damage/acknowledge, ends this report"

func damageProblem(d store.Damage) api.Problem {
	p := api.Problem{Code: problemDamage, From: unixOrNull(d.From), To: unixOrNull(d.To)}
	p.Text = fmt.Sprintf("%s: %s.", d.File, d.Reason)
	p.Summary = "Some stored data is damaged or missing. Run tailscope doctor."
	if d.Observations > 0 {
		p.Summary = figure.Counted(d.Observations, "observation") + " lost. Run tailscope doctor."
	}
	switch { // the loss comes first: a page may show a few words only
	case d.Lost != "" && d.Observations > 0:
		p.Text = fmt.Sprintf("Lost: %s, %d observations. %s", d.Lost, d.Observations, p.Text)
	case d.Lost != "":
		p.Text = fmt.Sprintf("Lost: %s. %s", d.Lost, p.Text)
	case d.Observations > 0:
		p.Text = fmt.Sprintf("Lost: %d acknowledged observations. %s", d.Observations, p.Text)
	case d.Observations == 0:
		p.Code, p.Text = problemRecovered, "No observation was lost. "+p.Text
		p.Summary = "A file was damaged, no observation is lost. Find out why."
		p.Next = "find out what removed or damaged it; " + acknowledgeNext
		return p
	}
	p.Next = "check the disk; stop the server and run tailscope doctor on its data directory, which explains and, with --repair, repairs and acknowledges it"
	if strings.HasSuffix(d.File, ".sst") { // a backup lacks what is newer than it
		p.Next += "; or restore a backup"
	}
	if filepath.Base(filepath.Dir(d.File)) == "damaged" {
		p.Next = "check the disk; " + acknowledgeNext
		if strings.HasSuffix(d.File, ".sst") {
			p.Next += "; a backup that holds the table brings it back: tailscope restore"
		}
	}
	return p
}

// spaceProblems returns a source that reports a disk too full to write to.
func spaceProblems(space func() error) func() []api.Problem {
	return func() []api.Problem {
		err := space()
		if !errors.Is(err, store.ErrFull) {
			return nil
		}
		return []api.Problem{{
			Code: problemDiskFull, From: unixOrNull(time.Time{}), To: unixOrNull(time.Time{}),
			Summary: "The disk is full: nothing new is stored. Free some space.",
			Text:    fmt.Sprintf("Nothing new is stored: %v. %s Traces and marks cannot be kept. Questions are answered.", err, waits),
			Next:    "free space on the disk, or raise retention.max_bytes if that is the bound; " + triedAgain,
		}}
	}
}

const (
	// waits describes what happens to observations while the store refuses them.
	waits = "What arrives waits in the journal and in memory, and is not shown yet; when these are full too, senders are asked to retry."
	// triedAgain states the longest pause of the aggregator's flusher.
	triedAgain = "it is tried again by itself, after 30 seconds at most"
)

// storingProblems returns a source that reports why flushes fail, except for a full
// disk.
func storingProblems(failing func() error) func() []api.Problem {
	return func() []api.Problem {
		err := failing()
		if err == nil || errors.Is(err, store.ErrFull) {
			return nil
		}
		cause, questions, next := "the disk or the store fails. Check the disk.", "Questions are answered.", "check the disk and its mount"
		if errors.Is(err, store.ErrAway) {
			cause, questions, next = "a part of the store does not answer. The page Cluster says which.", "Questions that need that part are refused.", "see the page Cluster, and start what does not answer again"
		}
		return []api.Problem{{
			Code: problemNotStored, From: unixOrNull(time.Time{}), To: unixOrNull(time.Time{}),
			Summary: "Nothing new is stored: " + cause,
			Text:    fmt.Sprintf("Nothing new is stored: %v. %s %s", err, waits, questions),
			Next:    next + "; " + triedAgain,
		}}
	}
}

// lossShown is how long a loss of traces is reported: a day, so that the next morning's
// shift sees it.
const lossShown = 24 * time.Hour

// lossProblems returns a source that reports traces and breakdowns that were dropped
// because they could not be stored.
func lossProblems(stats func() traces.Stats, now func() time.Time) func() []api.Problem {
	return func() []api.Problem {
		st := stats()
		if st.Lost.Last == 0 || now().Sub(time.Unix(st.Lost.Last, 0)) > lossShown {
			return nil
		}
		var what []string
		if st.LostKept > 0 {
			what = append(what, figure.Counted(st.LostKept, "trace"))
		}
		if st.LostRequests > 0 {
			what = append(what, "the breakdown of "+figure.Counted(st.LostRequests, "request"))
		}
		lost := strings.Join(what, " and ")
		return []api.Problem{{
			Code: problemTraces, From: api.Float(st.Lost.From), To: api.Float(st.Lost.To),
			Summary: figure.Sentence(lost) + " lost. Free space or memory, so that no more are.",
			Text:    fmt.Sprintf("Lost since the start: %s, which could not be stored, the last at %s. The requests themselves are counted.", lost, time.Unix(st.Lost.Last, 0).UTC().Format("2006-01-02 15:04:05Z")),
			Next:    "see to the disk and to memory, so that no more are lost; a day after the last loss this is no longer reported",
		}}
	}
}

// memoryProblems reports what is held back for lack of memory.
func (s *Server) memoryProblems() []api.Problem {
	var out []api.Problem
	for _, reason := range s.memoryReasons() {
		out = append(out, api.Problem{
			Code: problemMemory, Summary: reason.summary, Text: figure.Sentence(reason.text) + ".", Next: "raise limits.memory, or the limit of the control group",
			From: unixOrNull(time.Time{}), To: unixOrNull(time.Time{}),
		})
	}
	return out
}

func unixOrNull(t time.Time) api.Float {
	if t.IsZero() {
		return api.Float(math.NaN())
	}
	return api.Float(t.Unix())
}

// serveReady answers /readyz: 503 before questions are answered and once the server
// stops, else 200. The body is ready, or degraded and a line for each problem if one of
// them has a cost.
func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	if !s.ready.Load() {
		writeText(w, http.StatusServiceUnavailable, "starting or stopping\n")
		return
	}
	problems := s.health.problems()
	if len(problems) == 0 {
		writeText(w, http.StatusOK, "ready\n")
		return
	}
	var b strings.Builder
	if slices.ContainsFunc(problems, func(p api.Problem) bool { return p.Code != problemRecovered }) {
		b.WriteString("degraded\n")
	} else {
		b.WriteString("ready\n")
	}
	for _, p := range problems {
		fmt.Fprintf(&b, "%s: %s Next: %s.\n", p.Code, p.Text, p.Next)
	}
	writeText(w, http.StatusOK, b.String())
}

// healthCollector collects the number of problems by code, and what was lost.
type healthCollector struct {
	health *health
	lost   func() []store.Damage
}

var (
	healthProblems = prometheus.NewDesc("tailscope_problems",
		"Reasons why the server is degraded, by code; 0 when it is whole. What is recovered costs nothing and does not degrade it.", []string{"code"}, nil)
	healthLost = prometheus.NewDesc("tailscope_lost_observations",
		"Acknowledged observations found lost, as far as they could be counted, until somebody acknowledges it. Losses that could not be counted are in tailscope_losses_of_unknown_size.", []string{"part"}, nil)
	healthUncounted = prometheus.NewDesc("tailscope_losses_of_unknown_size",
		"Files whose damage or loss costs something, or may, and nobody knows how many observations, until somebody acknowledges it.", []string{"part"}, nil)
	healthDamaged = prometheus.NewDesc("tailscope_damaged_files",
		"Files found damaged or missing, until somebody acknowledges it.", []string{"part"}, nil)
)

func (c healthCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- healthProblems
	ch <- healthLost
	ch <- healthUncounted
	ch <- healthDamaged
}

func (c healthCollector) Collect(ch chan<- prometheus.Metric) {
	byCode := map[string]int{}
	for _, code := range problemCodes {
		byCode[code] = 0
	}
	for _, p := range c.health.problems() {
		byCode[p.Code]++
	}
	for code, n := range byCode {
		ch <- prometheus.MustNewConstMetric(healthProblems, level, float64(n), code)
	}
	files, lost, uncounted := map[string]int{"store": 0, "journal": 0}, map[string]int64{}, map[string]int{}
	for _, d := range c.lost() {
		files[d.Part]++
		lost[d.Part] += max(0, d.Observations)
		if d.Observations < 0 {
			uncounted[d.Part]++
		}
	}
	for part, n := range files {
		ch <- prometheus.MustNewConstMetric(healthDamaged, level, float64(n), part)
		ch <- prometheus.MustNewConstMetric(healthLost, level, float64(lost[part]), part)
		ch <- prometheus.MustNewConstMetric(healthUncounted, level, float64(uncounted[part]), part)
	}
}
