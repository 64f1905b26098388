package demo

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"

	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/provider"
)

// errStopped is why a turn ends when the user stops it.
var errStopped = errors.New("the turn was stopped")

// conversation serves one chat. It implements [provider.Conversation].
type conversation struct {
	a *Adapter
	b provider.Binding
	// life ends when the conversation closes; work counts its goroutines.
	life   context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	// current is the turn that is going on. finishing counts those that are
	// about to publish their terminal.
	current   *turn
	finishing int
	// session is the one the last turn worked in.
	session *session
	// last is the launch of the last turn, for turns the agent begins itself.
	last exec.Launch
	// news is what ended background work has to tell once no turn is going
	// on.
	news []step

	jobs jobs
}

var _ provider.Conversation = (*conversation)(nil)

func newConversation(a *Adapter, b provider.Binding) *conversation {
	c := &conversation{a: a, b: b}
	c.life, c.cancel = context.WithCancel(context.Background())
	c.jobs.publish = b.Jobs
	return c
}

// Launch implements [provider.Conversation].
func (c *conversation) Launch(_ context.Context, l exec.Launch, run provider.Run) (provider.Active, error) {
	return c.launch(l, run, c.a.steps(l.Prompt.Text), &row.User{
		Text: l.Prompt.Text, Attachments: describeAll(l.Prompt.Attachments),
	})
}

// Compact implements [provider.Conversation].
func (c *conversation) Compact(_ context.Context, l exec.Launch, run provider.Run) (provider.Active, error) {
	compact := &phrase{do: (*turn).compact}
	return c.launch(l, run, []step{{compact, "compact", []string{l.Prompt.Text}}}, nil)
}

func describeAll(files []exec.AttachmentData) []row.Attachment {
	var list []row.Attachment
	for _, f := range files {
		list = append(list, f.Attachment)
	}
	return list
}

// launch checks everything that can be refused, and starts the turn.
func (c *conversation) launch(l exec.Launch, run provider.Run, steps []step, prompt *row.User) (provider.Active, error) {
	if l.Model != "" && !knownModel(l.Model) {
		return nil, errModel(l.Model)
	}
	if info, err := os.Stat(l.ProjectPath); err != nil {
		return nil, exec.Errorf(exec.CodeProjectPath, "the project cannot be used: %w", err)
	} else if !info.IsDir() {
		return nil, exec.Errorf(exec.CodeProjectPath, "%s is not a directory", l.ProjectPath)
	}
	t := newTurn(c, l, steps)
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, exec.Errorf(exec.CodeStaleResource, "the conversation was closed")
	}
	if c.current != nil {
		c.mu.Unlock()
		return nil, exec.Errorf(exec.CodeSessionBusy, "the demo agent is at work on its own").WithHint("Wait until it is done, or stop it.")
	}
	c.current = t
	c.last = l
	// Close waits for the turn from here on.
	c.work.Add(1)
	c.mu.Unlock()

	if err := c.enter(t, l, prompt); err != nil {
		c.mu.Lock()
		c.current = nil
		c.mu.Unlock()
		c.beginOwn()
		c.work.Done()
		return nil, err
	}
	t.run = run
	run.Session(exec.Session{ID: t.session.Session, Title: t.session.name(), Model: t.model(), Mode: t.mode})
	go t.serve()
	return t, nil
}

// enter opens the session of a turn and writes the prompt into it.
func (c *conversation) enter(t *turn, l exec.Launch, prompt *row.User) (err error) {
	c.mu.Lock()
	held := c.session
	c.mu.Unlock()
	switch {
	case l.NativeSession == "":
		t.session, err = c.a.store.create(l.ProjectPath)
	case held != nil && held.Session == l.NativeSession:
		t.session = held
	default:
		t.session, err = c.a.store.acquire(l.NativeSession)
	}
	if err != nil {
		return err
	}
	if t.session != held {
		c.mu.Lock()
		c.session = t.session
		c.mu.Unlock()
		if held != nil {
			err = held.release()
		}
	}
	if err == nil && prompt != nil {
		err = t.session.append(entry{Row: &row.Row{Body: prompt}})
	}
	return err
}

// finish makes room for the next turn and only then publishes the terminal: who
// sees it may launch at once. What the agent begins itself comes after it.
func (c *conversation) finish(run provider.Run, terminal exec.Terminal) {
	c.mu.Lock()
	c.current = nil
	c.finishing++
	c.mu.Unlock()
	run.Finish(terminal)
	c.mu.Lock()
	c.finishing--
	c.mu.Unlock()
	c.beginOwn()
}

// tell has news told as soon as no turn is going on.
func (c *conversation) tell(s step) {
	c.mu.Lock()
	c.news = append(c.news, s)
	c.mu.Unlock()
	c.beginOwn()
}

func (c *conversation) beginOwn() {
	c.mu.Lock()
	if c.closed || c.current != nil || c.finishing > 0 || len(c.news) == 0 {
		c.mu.Unlock()
		return
	}
	l := c.last
	l.Prompt = exec.Prompt{}
	t := newTurn(c, l, c.news)
	t.session = c.session
	c.news, c.current = nil, t
	c.work.Add(1)
	c.mu.Unlock()
	t.run = c.b.Begin("background work ended", t)
	go t.serve()
}

// Close implements [provider.Conversation].
func (c *conversation) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.jobs.stopAll(ctx)
	c.work.Wait()
	c.a.mu.Lock()
	delete(c.a.conversations, c)
	c.a.mu.Unlock()
	c.mu.Lock()
	held := c.session
	c.session = nil
	c.mu.Unlock()
	if held != nil {
		return held.release()
	}
	return nil
}

// jobs is the background work of a conversation.
type jobs struct {
	publish func([]exec.Job)

	// mu is held while a list is published, so that the last one published is
	// the last there was.
	mu   sync.Mutex
	list []*job
}

// job is one piece of background work.
type job struct {
	exec.Job
	// stop ends the work and returns when it has ended or ctx did.
	stop func(ctx context.Context)
}

func (j *jobs) add(one *job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.list = append(j.list, one)
	j.publishLocked()
}

func (j *jobs) remove(one *job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.list = slices.DeleteFunc(j.list, func(o *job) bool { return o == one })
	j.publishLocked()
}

func (j *jobs) publishLocked() {
	list := make([]exec.Job, 0, len(j.list))
	for _, one := range j.list {
		list = append(list, one.Job)
	}
	j.publish(list)
}

// stopAll ends all background work and returns how much there was.
func (j *jobs) stopAll(ctx context.Context) int {
	j.mu.Lock()
	list := slices.Clone(j.list)
	j.mu.Unlock()
	var wg sync.WaitGroup
	for _, one := range list {
		wg.Go(func() { one.stop(ctx) })
	}
	wg.Wait()
	return len(list)
}
