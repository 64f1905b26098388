package chat

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"garcon/proto/api"
	"garcon/proto/row"
	"garcon/store/ledger"
	"garcon/store/registry"
)

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
	return s.once(ctx, chat, m, func(o *owner, c registry.Chat) (api.Accepted, error) {
		if req.ExpectedOwnerEpoch != nil && *req.ExpectedOwnerEpoch != c.OwnerEpoch {
			return api.Accepted{}, api.NewError(api.CodeChatOwnerChanged, "the chat has been handed to another agent since you looked", "Look at it again.")
		}
		if req.Model != "" || req.Mode != "" || req.Effort != "" {
			selection := api.UpdateRequest{Model: ptr(req.Model), Mode: ptr(req.Mode), Effort: ptr(req.Effort)}
			if _, err := s.Update(ctx, chat, selection); err != nil {
				return api.Accepted{}, err
			}
		}
		return o.admitMessage(ctx, m, busy)
	})
}

func (s *Service) submitTo(ctx context.Context, chat string, m message, busy api.BusyPolicy) (api.Accepted, error) {
	return s.once(ctx, chat, m, func(o *owner, _ registry.Chat) (api.Accepted, error) { return o.admitMessage(ctx, m, busy) })
}

// once runs admit under the chat's admission token, unless the same request was
// accepted before: then that acceptance is the answer.
func (s *Service) once(ctx context.Context, chat string, m message, admit func(*owner, registry.Chat) (api.Accepted, error)) (api.Accepted, error) {
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
	return admit(o, c)
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
