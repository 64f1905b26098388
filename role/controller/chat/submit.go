package chat

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/store/ledger"
	"garcon/store/registry"
)

// steerWait bounds how long a steer waits for a run that is just being
// launched: as long as a person waits before trying something else.
const steerWait = 20 * time.Second

// maxRequestID bounds a client request id, in bytes.
const maxRequestID = 128

func newID() string { return uuid.NewString() }

// Principal is who makes a request.
type Principal struct {
	// Name appears in resolution rows; it holds no secret.
	Name string
	// Origin is how the author of a message is recorded.
	Origin row.Origin
}

// fingerprint is equal for equal requests.
func fingerprint(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic("chat: request does not encode: " + err.Error()) // plain structs always do
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func checkRequestID(id string) error {
	if id == "" || len(id) > maxRequestID || !utf8.ValidString(id) {
		return api.NewError(api.CodeInvalid, "requestId must be 1 to 128 bytes of text", "Use a fresh UUID for each submission.")
	}
	return nil
}

func checkPrompt(text string, attachments int) error {
	switch {
	case len(text) > api.MaxPrompt:
		return api.NewError(api.CodeTooLarge, "the message is longer than 4 MiB", "Attach it as a file, or name a file in the project.")
	case strings.TrimSpace(text) == "" && attachments == 0:
		return api.NewError(api.CodeInvalid, "the message is empty", "")
	}
	return nil
}

// Start makes a chat and begins its first turn.
func (s *Service) Start(ctx context.Context, req api.StartRequest, by Principal) (api.Accepted, error) {
	if err := checkRequestID(req.RequestID); err != nil {
		return api.Accepted{}, err
	}
	attachments, err := s.attached(req.Attachments)
	if err != nil {
		return api.Accepted{}, err
	}
	if err := checkPrompt(req.Prompt, len(attachments)); err != nil {
		return api.Accepted{}, err
	}
	id := req.RequestID
	req.RequestID = ""
	m := message{
		requestID: id, fingerprint: fingerprint(req), text: req.Prompt, attachments: attachments, origin: by.Origin,
	}
	sub := registry.Submission{RequestID: id, Fingerprint: m.fingerprint}
	// A replay is answered before anything is checked that may have changed
	// since.
	if known, ok, err := s.registry.Submission(ctx, sub); err != nil {
		return api.Accepted{}, storageError(err)
	} else if ok {
		return s.submitTo(ctx, known, m, api.BusyReject)
	}
	c, err := s.newChat(ctx, req, by)
	if err != nil {
		return api.Accepted{}, err
	}
	created, replayed, err := s.registry.CreateChat(ctx, c, sub)
	if err != nil {
		return api.Accepted{}, storageError(err)
	}
	if replayed {
		// Either it was accepted, or another request for it is just ahead, or
		// the process ended between making the chat and committing its first row.
		return s.submitTo(ctx, created.ID, m, api.BusyReject)
	}
	accepted, err := s.submitTo(ctx, c.ID, m, api.BusyReject)
	if err != nil {
		// The chat was never accepted: it goes as it came.
		if derr := s.registry.RetractChat(context.WithoutCancel(ctx), c.ID, id); derr != nil {
			s.log.Error("chat that was not accepted remains", "chat", c.ID, "err", derr)
		}
		s.forget(c.ID)
		return api.Accepted{}, err
	}
	s.remember(c)
	return accepted, nil
}

func (s *Service) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.owners, id)
}

// newChat checks a start request and returns the record it asks for.
func (s *Service) newChat(ctx context.Context, req api.StartRequest, by Principal) (registry.Chat, error) {
	settings := s.Settings()
	executor := firstOf(req.ExecutorID, s.runtimes.Default(deref(settings.DefaultExecutor)))
	rt, err := s.runtimes.Runtime(executor)
	if err != nil {
		return registry.Chat{}, err
	}
	if req.ProjectPath == "" {
		return registry.Chat{}, api.NewError(api.CodeInvalid, "projectPath is missing", "Name the directory the agent works in.")
	}
	path, err := inspect(ctx, rt, req.ProjectPath)
	if err != nil {
		return registry.Chat{}, err
	}
	last, _ := s.registry.Selection(executor, path)
	agent := firstOf(req.Agent, last.Agent, deref(settings.DefaultAgent))
	if agent == "" {
		if agent, err = onlyAgent(ctx, rt); err != nil {
			return registry.Chat{}, err
		}
	}
	integration, err := rt.Integration(ctx, agent)
	if err != nil {
		return registry.Chat{}, err
	}
	if last.Agent != agent {
		last = registry.Selection{}
	}
	c := registry.Chat{
		ID: s.registry.NewChatID(), Title: cleanTitle(req.Title), TitleSource: registry.TitleFromUser, Tags: slices.Clone(req.Tags),
		ExecutorID: executor, Agent: agent, Model: firstOf(req.Model, last.Model), Mode: firstOf(req.Mode, last.Mode),
		Effort: firstOf(req.Effort, last.Effort), EndpointID: firstOf(req.ProviderID, last.EndpointID), ProjectPath: path,
		View: newID(), ParentID: req.ParentID, Origin: string(by.Origin), Settings: req.Settings,
		CreatedAt: now(), LastActivity: now(), Preview: preview(req.Prompt),
	}
	if c.Title == "" {
		c.Title, c.TitleSource = titleOf(req.Prompt), registry.TitleFromPrompt
	}
	if err := checkTags(c.Tags); err != nil {
		return registry.Chat{}, err
	}
	if err := s.checkSelection(integration.Manifest, &c); err != nil {
		return registry.Chat{}, err
	}
	return c, nil
}

// onlyAgent chooses the agent when there is no choice.
func onlyAgent(ctx context.Context, rt exec.Runtime) (string, error) {
	info, err := rt.Info(ctx)
	if err != nil {
		return "", err
	}
	if len(info.Integrations) == 1 {
		return info.Integrations[0].ID, nil
	}
	names := make([]string, len(info.Integrations))
	for i, m := range info.Integrations {
		names[i] = m.ID
	}
	return "", api.NewError(api.CodeInvalid, "no agent was named", "Use --agent with one of: "+strings.Join(names, ", ")+".")
}

// checkSelection checks what a chat runs with against what its agent offers.
func (s *Service) checkSelection(m exec.Manifest, c *registry.Chat) error {
	if c.Mode != "" && !slices.ContainsFunc(m.Modes, func(o exec.Mode) bool { return o.ID == c.Mode }) {
		names := make([]string, len(m.Modes))
		for i, o := range m.Modes {
			names[i] = o.ID
		}
		return api.NewError(api.CodeInvalid, m.Label+" has no permission mode \""+c.Mode+"\"", "Modes: "+strings.Join(names, ", ")+".")
	}
	if c.Mode == "" {
		c.Mode = m.DefaultMode
	}
	if c.Effort != "" && !slices.Contains(m.Efforts, c.Effort) {
		hint := "It has no effort setting."
		if len(m.Efforts) > 0 {
			hint = "Efforts: " + strings.Join(m.Efforts, ", ") + "."
		}
		return api.NewError(api.CodeInvalid, m.Label+" has no effort \""+c.Effort+"\"", hint)
	}
	if !m.NeedsEndpoint {
		c.EndpointID = ""
		return nil
	}
	p, err := s.providerFor(m, c.EndpointID)
	if err != nil {
		return err
	}
	c.EndpointID = p.ID
	if c.Model == "" {
		if len(p.Models) == 0 {
			return api.NewError(api.CodeInvalid, "no model was named", "`garcon models list --agent "+m.ID+"` lists those of "+p.Label+".")
		}
		c.Model = p.Models[0]
	}
	return nil
}

// remember keeps the selection for the next chat in the same project.
func (s *Service) remember(c registry.Chat) {
	s.start(func() {
		err := s.registry.PutSelection(s.ctx, c.ProjectPath, registry.Selection{
			ExecutorID: c.ExecutorID, Agent: c.Agent, Model: c.Model, Mode: c.Mode, Effort: c.Effort, EndpointID: c.EndpointID,
		})
		if err != nil && !errors.Is(err, context.Canceled) {
			s.log.Warn("selection not remembered", "err", err)
		}
	})
}

// Submit sends a message to a chat.
func (s *Service) Submit(ctx context.Context, chat string, req api.SubmitRequest, by Principal) (api.Accepted, error) {
	if err := checkRequestID(req.RequestID); err != nil {
		return api.Accepted{}, err
	}
	attachments, err := s.attached(req.Attachments)
	if err != nil {
		return api.Accepted{}, err
	}
	if err := checkPrompt(req.Prompt, len(attachments)); err != nil {
		return api.Accepted{}, err
	}
	busy := req.Busy
	switch busy {
	case "":
		busy = api.BusyQueue
	case api.BusyReject, api.BusyQueue, api.BusySteer, api.BusyInterrupt:
	default:
		return api.Accepted{}, api.NewError(api.CodeInvalid, "busy must be reject, queue, steer or interrupt", "")
	}
	id := req.RequestID
	req.RequestID = ""
	m := message{
		requestID: id, fingerprint: fingerprint(req), text: req.Prompt, attachments: attachments, origin: by.Origin,
	}
	return s.submitFenced(ctx, chat, m, busy, func(c registry.Chat) error {
		if req.ExpectedOwnerEpoch != nil && *req.ExpectedOwnerEpoch != c.OwnerEpoch {
			return api.NewError(api.CodeChatOwnerChanged, "the chat has been handed to another agent since you looked", "Look at it again.")
		}
		if req.Model == "" && req.Mode == "" && req.Effort == "" {
			return nil
		}
		_, err := s.Update(ctx, chat, api.UpdateRequest{
			Model: ptr(req.Model), Mode: ptr(req.Mode), Effort: ptr(req.Effort),
		})
		return err
	})
}

func (s *Service) submitTo(ctx context.Context, chat string, m message, busy api.BusyPolicy) (api.Accepted, error) {
	return s.submitFenced(ctx, chat, m, busy, func(registry.Chat) error { return nil })
}

// submitFenced admits a message after the replay lookup and the fence.
func (s *Service) submitFenced(ctx context.Context, chat string, m message, busy api.BusyPolicy, fence func(registry.Chat) error) (api.Accepted, error) {
	o, err := s.owner(chat)
	if err != nil {
		return api.Accepted{}, err
	}
	release, err := o.admit(ctx)
	if err != nil {
		return api.Accepted{}, err
	}
	defer release()
	if accepted, ok, err := o.replay(ctx, m); ok || err != nil {
		return accepted, err
	}
	c, err := o.record()
	if err != nil {
		return api.Accepted{}, err
	}
	if err := fence(c); err != nil {
		return api.Accepted{}, err
	}
	return o.admitMessage(ctx, m, busy)
}

// replay finds an earlier acceptance of the same request.
func (o *owner) replay(ctx context.Context, m message) (api.Accepted, bool, error) {
	o.mu.Lock()
	known, ok := o.accepted[m.requestID]
	o.mu.Unlock()
	if ok {
		if known.fingerprint != m.fingerprint {
			return api.Accepted{}, false, errConflict()
		}
		known.Replayed = true
		return known.Accepted, true, known.err
	}
	l, err := o.s.ledgers.Open(ctx, o.id)
	if errors.Is(err, ledger.ErrNotFound) {
		return api.Accepted{}, false, nil
	}
	if err != nil {
		return api.Accepted{}, false, storageError(err)
	}
	defer l.Release()
	first, ok, err := l.Lookup(ctx, m.requestID, m.fingerprint)
	if err != nil || !ok {
		return api.Accepted{}, false, storageError(err)
	}
	accepted, err := o.replayed(ctx, first)
	return accepted, err == nil, err
}

// replayed returns the acceptance that a committed user row stands for.
func (o *owner) replayed(ctx context.Context, ordinal int64) (api.Accepted, error) {
	if ordinal < 0 {
		// Its row went when the transcript was reloaded.
		return api.Accepted{ChatID: o.id, Disposition: api.Started, Replayed: true}, nil
	}
	l, err := o.ledger(ctx)
	if err != nil {
		return api.Accepted{}, err
	}
	defer l.Release()
	stored, err := l.Row(ctx, "", ordinal)
	if err != nil {
		return api.Accepted{}, storageError(err)
	}
	return api.Accepted{ChatID: o.id, TurnID: stored.Row.TurnID, Disposition: api.Started, Replayed: true}, nil
}

// admitMessage does what the policy says. The caller holds the admission
// token.
func (o *owner) admitMessage(ctx context.Context, m message, busy api.BusyPolicy) (api.Accepted, error) {
	for {
		o.mu.Lock()
		active := o.active
		waiting := len(o.queue.entries) > 0
		o.mu.Unlock()
		switch {
		case active == nil && busy == api.BusyQueue && waiting:
			// Messages keep their order, also behind a paused queue.
			return o.enqueue(m, false)
		case active == nil && busy == api.BusySteer:
			return api.Accepted{}, api.NewError(api.CodeChatIdle, "no turn is going that could be steered", "Send the message as a new turn: `garcon chats resume`.")
		case active == nil:
			accepted, err := o.begin(ctx, m)
			if isBusy(err) {
				continue
			}
			return accepted, err
		case busy == api.BusyQueue:
			return o.enqueue(m, false)
		case busy == api.BusySteer:
			return o.steer(ctx, active, m)
		case busy == api.BusyInterrupt:
			if err := o.checkBegin(ctx, m); err != nil {
				return api.Accepted{}, err
			}
			o.stop(active, nil)
			continue
		default:
			return api.Accepted{}, errBusy()
		}
	}
}

// checkBegin refuses what could not begin, before anything is interrupted for
// it.
func (o *owner) checkBegin(ctx context.Context, m message) error {
	c, err := o.record()
	if err != nil {
		return err
	}
	integration, err := o.resolve(ctx, c)
	if err != nil {
		return err
	}
	return checkAttachments(integration.Manifest, m.attachments)
}

// steer commits a message and delivers it into the active run. One that the
// run definitely did not take becomes the next turn.
func (o *owner) steer(ctx context.Context, r *run, m message) (api.Accepted, error) {
	ctx, cancel := context.WithTimeout(ctx, steerWait)
	defer cancel()
	select {
	case <-r.launched:
	case <-r.ctx.Done():
		return o.admitMessage(ctx, m, api.BusyQueue)
	case <-ctx.Done():
		return api.Accepted{}, exec.Errorf(exec.CodeNotSteerable, "the agent is still starting").
			WithHint("Nothing was sent. Try again, or queue the message.")
	}
	o.mu.Lock()
	handle, integration, b, over := r.handle, r.integration, r.bind, r.finished
	o.mu.Unlock()
	if over {
		return o.admitMessage(ctx, m, api.BusyQueue)
	}
	if integration.Steering == nil {
		return api.Accepted{}, exec.Errorf(exec.CodeNotSteerable, "%s cannot be steered", integration.Manifest.Label).
			WithHint("Queue the message, or interrupt with it.")
	}
	if err := checkAttachments(integration.Manifest, m.attachments); err != nil {
		return api.Accepted{}, err
	}
	prompt, err := o.steerPrompt(ctx, m)
	if err != nil {
		return api.Accepted{}, err
	}
	committed, err := b.ledger.Append(ctx, ledger.Batch{
		Rows: []row.Row{row.New(r.turn, r.id, &row.User{
			Text: m.text, Attachments: m.attachments, ClientID: m.requestID, Origin: m.origin, Steered: true,
		})},
		ClientID: m.requestID, Fingerprint: m.fingerprint, Urgent: true,
	})
	if err != nil {
		return api.Accepted{}, storageError(err)
	}
	if committed.Replayed {
		return o.replayed(ctx, committed.First)
	}
	err = integration.Steering.Steer(ctx, exec.Steer{Run: handle, ID: newID(), Prompt: prompt})
	accepted := api.Accepted{ChatID: o.id, TurnID: r.turn, Disposition: api.Steered}
	if err == nil {
		o.mu.Lock()
		o.rememberLocked(m.requestID, acceptance{m.fingerprint, accepted, nil})
		o.mu.Unlock()
		return accepted, nil
	}
	if e := exec.AsError(err); e.Dispatched != exec.NotDispatched {
		unknown := api.FromExec(e.WithDispatched(exec.MaybeDispatched))
		o.mu.Lock()
		o.rememberLocked(m.requestID, acceptance{m.fingerprint, accepted, unknown})
		o.mu.Unlock()
		o.note(r, row.Notice{
			Code: string(exec.CodeOutcomeUnknown), Title: "Message may not have arrived",
			Text: "The agent did not confirm the message above: " + e.Message,
		})
		return api.Accepted{}, unknown
	}
	// The row is there; only the delivery is owed.
	m.committed = true
	return o.enqueue(m, true)
}

// note commits a notice of the controller.
func (o *owner) note(r *run, n row.Notice) {
	if err := o.Resolved(row.New(r.turn, r.id, &n)); err != nil {
		o.s.log.Error("notice not recorded", "chat", o.id, "err", err)
	}
	o.wake()
}

// Compact asks the chat's agent to compact its context, as a turn of its own.
func (s *Service) Compact(ctx context.Context, chat string, req api.CompactRequest) (api.Accepted, error) {
	if err := checkRequestID(req.RequestID); err != nil {
		return api.Accepted{}, err
	}
	id := req.RequestID
	req.RequestID = ""
	m := message{requestID: id, fingerprint: fingerprint(req), text: req.Instructions}
	o, err := s.owner(chat)
	if err != nil {
		return api.Accepted{}, err
	}
	release, err := o.admit(ctx)
	if err != nil {
		return api.Accepted{}, err
	}
	defer release()
	if accepted, ok, err := o.replay(ctx, m); ok || err != nil {
		return accepted, err
	}
	c, err := o.record()
	if err != nil {
		return api.Accepted{}, err
	}
	integration, err := o.resolve(ctx, c)
	if err != nil {
		return api.Accepted{}, err
	}
	if integration.Compaction == nil {
		return api.Accepted{}, exec.Errorf(exec.CodeUnsupported, "%s cannot compact a chat", integration.Manifest.Label)
	}
	r := o.newRun(m, api.PhaseAccepted)
	r.compact = true
	return o.admitRun(ctx, c, r)
}

// Receipt returns what became of a turn, waiting until it ends or ctx is over.
func (s *Service) Receipt(ctx context.Context, chat, turn string) (api.Receipt, error) {
	got, ok := s.receipts.wait(ctx, chat, turn)
	if !ok {
		if _, there := s.registry.Chat(chat); !there {
			return api.Receipt{}, s.notFound(chat)
		}
		return api.Receipt{}, api.NewError(api.CodeTurnNotFound, "this controller has no receipt of turn "+turn,
			"Receipts live as long as the controller's process. `garcon chats read "+chat+"` shows the transcript.")
	}
	if got.State == api.TurnActive {
		if o, err := s.owner(chat); err == nil {
			st := o.state()
			if st.TurnID == turn {
				got.Phase, got.Pending = st.Phase, st.Pending
			}
		}
	}
	return got, nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// ptr returns nil for an empty value.
func ptr(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
