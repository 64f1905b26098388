package claude_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/provider"
)

// waitTimeout is how long a test waits for something that has to come.
const waitTimeout = 60 * time.Second

// recorder is a binding that remembers what is published.
type recorder struct {
	t    testing.TB
	spec exec.BindingSpec

	mu      sync.Mutex
	changed chan struct{}
	events  []event
	runs    []*recordedRun
	jobs    []exec.Job
	// session is what was published of the native session, latest first.
	session exec.Session
}

// event is one thing that was published, in order.
type event struct {
	run  *recordedRun // nil outside runs
	row  *row.Row
	live *row.Live
	jobs []exec.Job
	sess *exec.Session
	ask  *recordedAsk
	gone string // a withdrawn occurrence
	end  *exec.Terminal
}

type recordedRun struct {
	rec    *recorder
	id     string
	reason string // of an unsolicited run
	active provider.Active
	ended  bool
}

type recordedAsk struct {
	row     row.Row
	respond provider.Respond
}

func newRecorder(t testing.TB, project string) *recorder {
	return &recorder{t: t, spec: exec.BindingSpec{ChatID: "chat-1", View: "view-1", ProjectPath: project}, changed: make(chan struct{})}
}

func (r *recorder) add(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.run != nil && e.run.ended {
		if e.end != nil {
			r.t.Errorf("run %s finished twice", e.run.id)
		}
		return
	}
	switch {
	case e.end != nil:
		e.run.ended = true
	case e.jobs != nil:
		r.jobs = e.jobs
	case e.sess != nil:
		for _, f := range []struct {
			to   *string
			from string
		}{
			{&r.session.ID, e.sess.ID},
			{&r.session.Title, e.sess.Title},
			{&r.session.Model, e.sess.Model},
			{&r.session.Mode, e.sess.Mode},
		} {
			if f.from != "" {
				*f.to = f.from
			}
		}
	}
	r.events = append(r.events, e)
	close(r.changed)
	r.changed = make(chan struct{})
}

// wait waits until the condition, called with the lock held, is true.
func (r *recorder) wait(what string, cond func() bool) {
	r.t.Helper()
	timer := time.NewTimer(waitTimeout)
	defer timer.Stop()
	for {
		r.mu.Lock()
		ok, changed := cond(), r.changed
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			r.t.Fatalf("no %s came in %s; what came:\n%s", what, waitTimeout, r.dump())
		}
	}
}

// dump renders everything that was published.
func (r *recorder) dump() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for _, e := range r.events {
		id := "-"
		if e.run != nil {
			id = e.run.id[:4]
		}
		switch {
		case e.row != nil:
			data, _ := e.row.MarshalJSON()
			fmt.Fprintf(&b, "%s row %.400s\n", id, data)
		case e.live != nil:
			fmt.Fprintf(&b, "%s live %s %s@%d %.60q\n", id, e.live.PartID, e.live.Kind, e.live.Offset, e.live.Text)
		case e.sess != nil:
			fmt.Fprintf(&b, "%s session %+v\n", id, *e.sess)
		case e.ask != nil:
			data, _ := e.ask.row.MarshalJSON()
			fmt.Fprintf(&b, "%s ask %.400s\n", id, data)
		case e.gone != "":
			fmt.Fprintf(&b, "%s withdrawn %s\n", id, e.gone)
		case e.end != nil:
			data, _ := json.Marshal(e.end)
			fmt.Fprintf(&b, "%s END %s\n", id, data)
		default:
			fmt.Fprintf(&b, "%s jobs %v\n", id, e.jobs)
		}
	}
	return b.String()
}

func (r *recorder) newRun() *recordedRun { return &recordedRun{rec: r, id: uuid.NewString()} }

// waitEnd waits for the terminal of a run.
func (r *recorder) waitEnd(run *recordedRun) exec.Terminal {
	r.t.Helper()
	var end exec.Terminal
	r.wait("terminal", func() bool {
		for _, e := range r.events {
			if e.end != nil && e.run == run {
				end = *e.end
				return true
			}
		}
		return false
	})
	return end
}

// waitOwn waits for the n-th run that the agent began, from 1.
func (r *recorder) waitOwn(n int) *recordedRun {
	r.t.Helper()
	var run *recordedRun
	r.wait("run of the agent's own", func() bool {
		if len(r.runs) >= n {
			run = r.runs[n-1]
		}
		return run != nil
	})
	return run
}

// waitAsk waits for the n-th request of a run, from 1.
func (r *recorder) waitAsk(run *recordedRun, n int) *recordedAsk {
	r.t.Helper()
	var ask *recordedAsk
	r.wait("request", func() bool {
		count := 0
		for _, e := range r.events {
			if e.ask != nil && e.run == run {
				if count++; count == n {
					ask = e.ask
					return true
				}
			}
		}
		return false
	})
	return ask
}

// waitRow waits for a row for which f is true.
func (r *recorder) waitRow(what string, f func(row.Row) bool) row.Row {
	r.t.Helper()
	var found row.Row
	r.wait(what, func() bool {
		for _, e := range r.events {
			if e.row != nil && f(*e.row) {
				found = *e.row
				return true
			}
		}
		return false
	})
	return found
}

// waitLive waits until live text of a kind holds part.
func (r *recorder) waitLive(kind row.Kind, part string) {
	r.t.Helper()
	r.wait("live "+string(kind), func() bool {
		text := ""
		for _, e := range r.events {
			if e.live != nil && e.live.Kind == kind {
				if e.live.Offset == 0 {
					text = ""
				}
				text += e.live.Text
			}
		}
		return strings.Contains(text, part)
	})
}

// rows returns the rows of a run, or with nil those of no run.
func (r *recorder) rows(run *recordedRun) []row.Row {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []row.Row
	for _, e := range r.events {
		if e.row != nil && e.run == run {
			out = append(out, *e.row)
		}
	}
	return out
}

// allRows returns every row in order.
func (r *recorder) allRows() []row.Row {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []row.Row
	for _, e := range r.events {
		if e.row != nil {
			out = append(out, *e.row)
		}
	}
	return out
}

func (r *recorder) currentJobs() []exec.Job {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.jobs
}

func (r *recorder) currentSession() exec.Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.session
}

// provider.Binding

func (r *recorder) Spec() exec.BindingSpec { return r.spec }

func (r *recorder) Begin(reason string, active provider.Active) provider.Run {
	run := r.newRun()
	run.reason, run.active = reason, active
	r.mu.Lock()
	r.runs = append(r.runs, run)
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
	return run
}

func (r *recorder) Jobs(jobs []exec.Job) {
	if jobs == nil {
		jobs = []exec.Job{}
	}
	r.add(event{jobs: jobs})
}

func (r *recorder) Session(s exec.Session) { r.add(event{sess: &s}) }

func (r *recorder) Rows(rows ...row.Row) { r.publish(nil, rows) }

func (r *recorder) publish(run *recordedRun, rows []row.Row) {
	for _, w := range rows {
		w = w.Clean()
		data, err := w.Encode()
		if err != nil {
			r.t.Errorf("row cannot be encoded: %v", err)
		}
		var back row.Row
		if err := json.Unmarshal(data, &back); err != nil {
			r.t.Errorf("row cannot be read back: %v: %s", err, data)
		}
		r.add(event{run: run, row: &w})
	}
}

// provider.Run

func (r *recordedRun) ID() string     { return r.id }
func (r *recordedRun) TurnID() string { return "turn-" + r.id }

func (r *recordedRun) Rows(rows ...row.Row)   { r.rec.publish(r, rows) }
func (r *recordedRun) Live(l row.Live)        { r.rec.add(event{run: r, live: &l}) }
func (r *recordedRun) Session(s exec.Session) { r.rec.add(event{run: r, sess: &s}) }

func (r *recordedRun) Ask(w row.Row, respond provider.Respond) {
	r.rec.add(event{run: r, ask: &recordedAsk{row: w.Clean(), respond: respond}})
}

func (r *recordedRun) Withdraw(occurrence string) { r.rec.add(event{run: r, gone: occurrence}) }
func (r *recordedRun) Finish(t exec.Terminal)     { r.rec.add(event{run: r, end: &t}) }

// answer answers a request and fails the test when that does not work.
func (a *recordedAsk) answer(t testing.TB, answer exec.Answer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	if err := a.respond(ctx, answer); err != nil {
		t.Fatalf("answer %+v: %v", answer, err)
	}
}
