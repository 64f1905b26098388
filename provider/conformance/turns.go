package conformance

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"slices"
	"strings"
	"sync"
	"testing"

	"garcon/proto/exec"
	"garcon/proto/row"
)

func testManifest(t *testing.T, s Subject) {
	in := s.integration(t)
	m := in.Manifest
	if m.ID != s.IntegrationID || m.Label == "" {
		t.Errorf("manifest of %q has id %q and label %q", s.IntegrationID, m.ID, m.Label)
	}
	for facet, there := range facets(in) {
		if slices.Contains(m.Facets, facet) != there {
			t.Errorf("facet %s: named %v, there %v", facet, !there, there)
		}
	}
	switch m.Conversation {
	case exec.ConversationNative:
	case exec.ConversationController:
		if in.History != nil || in.Forking != nil {
			t.Error("an agent without a conversation of its own has history or forks")
		}
	default:
		t.Errorf("conversation %q", m.Conversation)
	}
	ids := map[string]exec.Mode{}
	for _, mode := range m.Modes {
		if _, twice := ids[mode.ID]; twice || mode.ID == "" || mode.Label == "" {
			t.Errorf("mode %+v has no id or label, or is there twice", mode)
		}
		ids[mode.ID] = mode
	}
	if def, ok := ids[m.DefaultMode]; len(m.Modes) > 0 && (!ok || def.Bypass) {
		t.Errorf("default mode %q is no mode or bypasses permissions", m.DefaultMode)
	}
	for _, setting := range m.Settings {
		if setting.Key == "" || setting.Label == "" || len(setting.Choices) > 0 && setting.Default != "" && !slices.Contains(setting.Choices, setting.Default) {
			t.Errorf("setting %+v", setting)
		}
	}
	if again := s.integration(t); again != in {
		t.Error("the integration is not a stable value")
	}
	if _, err := s.Runtime.Integration(t.Context(), "no such agent"); exec.CodeOf(err) != exec.CodeUnknownAgent {
		t.Errorf("an unknown agent: %v", err)
	}
	info, err := s.Runtime.Info(limited(t))
	if err != nil || !slices.ContainsFunc(info.Integrations, func(o exec.Manifest) bool { return o.ID == m.ID }) {
		t.Errorf("the runtime does not list the agent: %+v, %v", info, err)
	}
}

func testCatalog(t *testing.T, s Subject) {
	var l exec.Launch
	if s.Configure != nil {
		s.Configure(&l)
	}
	models, err := s.integration(t).Catalog.Models(limited(t), s.ProjectPath, l.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	defaults := 0
	for _, m := range models {
		if m.ID == "" || seen[m.ID] {
			t.Errorf("model %+v has no id or is there twice", m)
		}
		seen[m.ID] = true
		if m.Default {
			defaults++
		}
	}
	if len(models) == 0 || defaults > 1 {
		t.Errorf("%d models, %d of them the default", len(models), defaults)
	}
	if l.Model != "" && !seen[l.Model] {
		t.Errorf("model %q, which the launches use, is not listed", l.Model)
	}
}

func testAuth(t *testing.T, s Subject) {
	status, err := s.integration(t).Auth.Status(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	if !status.Installed || !status.Supported || status.Version == "" || status.Problem != "" {
		t.Errorf("the agent is here, but its status is %+v", status)
	}
	if !slices.Contains([]string{"yes", "no", "unknown"}, status.SignedIn) {
		t.Errorf("signed in %q", status.SignedIn)
	}
}

func testTurn(t *testing.T, s Subject) {
	c := openChat(t, s)
	r := c.turn(s.Say)
	if !strings.Contains(r.text(), s.Reply) {
		t.Errorf("answered %q, want %q in it", r.text(), s.Reply)
	}
	final := 0
	for _, one := range r.rows() {
		if a, ok := one.Body.(*row.Assistant); ok && a.Final {
			final++
		}
	}
	if final != 1 {
		t.Errorf("%d rows are the final answer", final)
	}
	if native(c.in) && c.session == "" {
		t.Error("the native session is not known after a turn")
	}
	if slices.ContainsFunc(c.sink.all(), func(e exec.Event) bool { return e.Live != nil }) {
		return
	}
	t.Error("nothing was streamed")
}

func testResume(t *testing.T, s Subject) {
	c := openChat(t, s)
	c.turn(s.Say)
	first := c.session
	// In the same conversation, and after the binding was closed.
	again := c.turn(s.Say)
	if !strings.Contains(again.text(), s.Reply) {
		t.Errorf("second turn answered %q", again.text())
	}
	c.close()
	c.open()
	later := c.turn(s.Say)
	if !strings.Contains(later.text(), s.Reply) {
		t.Errorf("third turn answered %q", later.text())
	}
	if c.session != first {
		t.Errorf("the session changed from %q to %q", first, c.session)
	}
}

// testPromptLikeFlags begins a prompt as an argument of a program would.
func testPromptLikeFlags(t *testing.T, s Subject) {
	c := openChat(t, s)
	r := c.turn("--settings=/nonexistent --help -p\n" + s.Say)
	if !strings.Contains(r.text(), s.Reply) {
		t.Errorf("answered %q", r.text())
	}
}

func testAttachments(t *testing.T, s Subject) {
	c := openChat(t, s)
	allowed := c.in.Manifest.Attachments
	file := func(media string, size int) exec.Launch {
		l := c.prepare(s.Say)
		a := exec.AttachmentData{Attachment: row.Attachment{Name: "a.png", MediaType: media, Size: int64(size)}, Data: make([]byte, size)}
		l.Prompt.Attachments = []exec.AttachmentData{a}
		return l
	}
	_, err := c.launch(file("application/x-garcon-unknown", 1))
	if len(allowed.MediaTypes) == 0 {
		wantRefused(t, err, exec.CodeTooLarge)
		return
	}
	wantRefused(t, err, exec.CodeInvalid)
	images := slices.ContainsFunc(allowed.MediaTypes, func(m string) bool { return m == "image/" || m == "image/png" })
	if !images {
		return
	}
	if allowed.MaxBytes > 0 {
		_, err := c.launch(file("image/png", int(allowed.MaxBytes)+1))
		wantRefused(t, err, exec.CodeTooLarge)
	}
	var buf bytes.Buffer
	if err := png.Encode(&buf, image.NewGray(image.Rect(0, 0, 2, 2))); err != nil {
		t.Fatal(err)
	}
	l := file("image/png", buf.Len())
	l.Prompt.Attachments[0].Data = buf.Bytes()
	r := c.begin(l)
	r.completes()
	if !strings.Contains(r.text(), s.Reply) {
		t.Errorf("answered %q", r.text())
	}
}

// concurrentChats is how many chats talk at once.
const concurrentChats = 4

func testConcurrent(t *testing.T, s Subject) {
	var chats []*chat
	for range concurrentChats {
		chats = append(chats, openChat(t, s))
	}
	errs := make([]error, len(chats))
	runs := make([]*run, len(chats))
	var wg sync.WaitGroup
	for i, c := range chats {
		l := c.prepare(s.Say)
		wg.Go(func() { runs[i], errs[i] = c.launch(l) })
	}
	wg.Wait()
	sessions := map[string]bool{}
	for i, c := range chats {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		runs[i].completes()
		if !strings.Contains(runs[i].text(), s.Reply) {
			t.Errorf("chat %d was answered %q", i, runs[i].text())
		}
		for _, e := range c.sink.all() {
			if e.RunID != "" && e.RunID != runs[i].id {
				t.Errorf("chat %d got an event of run %s", i, e.RunID)
			}
		}
		if native(c.in) && sessions[c.session] {
			t.Errorf("two chats share session %q", c.session)
		}
		sessions[c.session] = true
	}
}

// testSlowController has a sink that takes nothing for a while.
func testSlowController(t *testing.T, s Subject) {
	c := openChat(t, s)
	c.sink.hold()
	r, err := c.launch(c.prepare(s.Burst))
	if err != nil {
		t.Fatal(err)
	}
	other := openChat(t, s)
	if got := other.turn(s.Say).text(); !strings.Contains(got, s.Reply) {
		t.Errorf("a chat beside a slow one was answered %q", got)
	}
	c.sink.release()
	r.completes()
	if n := len(r.rows()); n < s.BurstRows {
		t.Errorf("%d rows came, want at least %d", n, s.BurstRows)
	}
	if c.sink.overlap.Load() {
		t.Error("the sink was called by two goroutines at once")
	}
}

func testCommands(t *testing.T, s Subject) {
	list, err := s.integration(t).Commands.Commands(limited(t), s.ProjectPath)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, one := range list {
		if one.Name == "" || strings.HasPrefix(one.Name, "/") || seen[one.Name] {
			t.Errorf("command %+v has no plain name or is there twice", one)
		}
		seen[one.Name] = true
	}
}

func testSingleQuery(t *testing.T, s Subject) {
	var l exec.Launch
	if s.Configure != nil {
		s.Configure(&l)
	}
	q := exec.Query{Prompt: s.Say, Model: l.Model, Endpoint: l.Endpoint}
	answer, err := s.integration(t).SingleQuery.Query(limited(t), q)
	if err != nil || !strings.Contains(answer, s.Reply) {
		t.Errorf("answered %q, %v", answer, err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.integration(t).SingleQuery.Query(cancelled, q); err == nil {
		t.Error("a query whose context had ended was answered")
	} else if exec.CodeOf(err) == "" {
		t.Errorf("an error without a code: %v", err)
	}
}
