package browser

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/google/uuid"

	"garcon/e2e"
	"garcon/proto/api"
	"garcon/proto/row"
)

// desk is a controller with the demo agent and a signed-in browser in front of
// it.
type desk struct {
	t          *testing.T
	world      *e2e.World
	controller *e2e.Role
	browser    *Browser
	tab        *Tab
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	b := New(t) // first: without a browser there is nothing to do
	w := e2e.New(t)
	d := &desk{t: t, world: w, controller: w.Controller(), browser: b}
	d.tab = d.signIn(b.Profile(1280, 800))
	return d
}

// signIn opens the page with a fresh one-time link.
func (d *desk) signIn(tab *Tab) *Tab {
	d.t.Helper()
	link := strings.TrimSpace(d.world.Must("login"))
	tab.Do("open the link", chromedp.Navigate(link))
	tab.Wait("the page is connected", `document.querySelector('.app')?.dataset.conn === 'connected'`)
	return tab
}

// start starts a chat of the demo agent from another place.
func (d *desk) start(prompt string) api.Accepted {
	d.t.Helper()
	var a api.Accepted
	d.call(api.OpChatsStart, nil, nil, api.StartRequest{
		RequestID: uuid.NewString(), Agent: "demo", ProjectPath: d.world.Project, Prompt: prompt,
	}, &a)
	return a
}

func (d *desk) call(op api.OperationID, path []string, query url.Values, body, out any) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	if err := d.controller.Call(ctx, op, path, query, body, out); err != nil {
		d.t.Fatalf("%s: %v\n%s", op, err, d.controller.Logs())
	}
}

// open shows a chat in a tab.
func (d *desk) open(tab *Tab, chat string) {
	d.t.Helper()
	tab.Do("open the chat", chromedp.Evaluate[chromedp.Void](`location.hash = "#/chat/`+chat+`"`))
	tab.Wait("the chat is shown", `document.querySelector('.chat[data-chat="`+chat+`"]')?.dataset.fresh === 'true'`)
}

// inPhase waits until the shown chat is in the phase.
func inPhase(tab *Tab, chat, phase string) {
	tab.t.Helper()
	tab.Wait("the chat is "+phase, `document.querySelector('.chat[data-chat="`+chat+`"]')?.dataset.phase === "`+phase+`"`)
}

// shows waits until a tab's transcript has the text.
func shows(tab *Tab, text string) {
	tab.t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		tab.t.Fatal(err)
	}
	tab.Wait("the transcript has "+text, `document.querySelector('[role=feed]')?.innerText.includes(`+string(quoted)+`)`)
}

// typed types into the focused element.
func typed(tab *Tab, keys string) {
	tab.t.Helper()
	tab.Do("type", chromedp.KeyEvent(keys))
}

func TestFirstMinute(t *testing.T) {
	d := newDesk(t)
	d.tab.Keep("empty")
	a := d.start("slowly say Hello from the demo agent, one word after another.")
	d.open(d.tab, a.ChatID)
	shows(d.tab, "Hello from")
	inPhase(d.tab, a.ChatID, "idle")
	shows(d.tab, "one word after another.")
	d.tab.Keep("said")

	// The next message comes from the page itself.
	d.tab.Do("focus the composer", chromedp.Focus(chromedp.CSS(`textarea[aria-label^="Message to"]`)))
	typed(d.tab, "run: echo from-the-page")
	typed(d.tab, "\r")
	d.tab.Wait("a card asks", `document.querySelector('.card[data-occurrence]')`)
	d.tab.Keep("asks")
	answerWith(d.tab, "y")
	inPhase(d.tab, a.ChatID, "idle")
	shows(d.tab, "from-the-page")
	d.tab.Keep("ran")
	wantTranscript(t, d, a.ChatID)
}

// answerWith answers the open card with a key. A card that the list is still
// placing takes no focus, and one that has just appeared takes no key.
func answerWith(tab *Tab, key string) {
	tab.t.Helper()
	const tries = 300
	for range tries {
		if Eval[bool](tab, `(() => { const c = document.querySelector('.card[data-occurrence]'); c?.focus(); return !c })()`) {
			return
		}
		typed(tab, key)
		tab.Wait("a frame", `new Promise(r => requestAnimationFrame(() => r(true)))`)
	}
	tab.t.Fatalf("the card does not take %q\n%s", key, tab.text())
}

// wantTranscript checks that the page shows what the ledger holds.
func wantTranscript(t *testing.T, d *desk, chat string) {
	t.Helper()
	var page api.Page
	d.call(api.OpChatsPage, []string{chat}, url.Values{"max": {strconv.Itoa(api.MaxPageMessages)}}, nil, &page)
	for _, raw := range page.Rows {
		switch b := decode(t, raw).Body.(type) {
		case *row.User:
			shows(d.tab, b.Text)
		case *row.Assistant:
			first, _, _ := strings.Cut(b.Text, "\n")
			shows(d.tab, strings.Trim(first, "#*` "))
		}
	}
}

func decode(t *testing.T, raw json.RawMessage) row.Row {
	t.Helper()
	var r row.Row
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTwoBrowsersAgree(t *testing.T) {
	d := newDesk(t)
	other := d.signIn(d.browser.Profile(1280, 800))
	a := d.start("ask me: Which color? Red, Blue")
	d.open(d.tab, a.ChatID)
	d.open(other, a.ChatID)
	for _, tab := range []*Tab{d.tab, other} {
		tab.Wait("a card asks", `document.querySelector('.card[data-occurrence]')`)
	}
	// Answered from the shell, it disappears in both.
	d.world.Must("chats", "answer", a.ChatID, "--answer", "Blue")
	for _, tab := range []*Tab{d.tab, other} {
		tab.Wait("the card is gone", `!document.querySelector('.card[data-occurrence]')`)
		inPhase(tab, a.ChatID, "idle")
		shows(tab, "Blue")
	}
}

func TestEveryRowOnPhoneAndDesk(t *testing.T) {
	d := newDesk(t)
	a := d.start("show tools\nmarkdown\ntodo: one; two")
	phone := d.signIn(d.browser.Profile(390, 800))
	for _, tab := range []*Tab{d.tab, phone} {
		d.open(tab, a.ChatID)
		inPhase(tab, a.ChatID, "idle")
		tab.Wait("rows are drawn", `document.querySelectorAll('[role=feed] article').length > 3`)
		if width := Eval[int](tab, `document.documentElement.scrollWidth - innerWidth`); width > 0 {
			t.Errorf("the page scrolls sideways by %d px", width)
		}
	}
	d.tab.Keep("desk-light")
	phone.Keep("phone-light")
	for _, tab := range []*Tab{d.tab, phone} {
		tab.Do("dark", chromedp.Evaluate[chromedp.Void](`document.documentElement.dataset.theme = 'dark'`))
	}
	d.tab.Keep("desk-dark")
	phone.Keep("phone-dark")
}

// TestCutConnection ends the controller under the page: it says so, keeps what
// it shows, and is current again without a reload.
func TestControllerRestartsUnderThePage(t *testing.T) {
	d := newDesk(t)
	d.tab.Allow("WebSocket")
	d.tab.Allow("Failed to load resource")
	d.tab.Allow("ERR_CONNECTION_REFUSED")
	a := d.start("say before the restart")
	d.open(d.tab, a.ChatID)
	shows(d.tab, "before the restart")
	address := d.controller.Descriptor.URL
	d.controller.Kill()
	d.tab.Wait("it says so", `document.querySelector('.app')?.dataset.conn !== 'connected'`)
	shows(d.tab, "before the restart")
	_, port, _ := strings.Cut(strings.TrimPrefix(address, "http://"), ":")
	d.controller = d.world.Controller("--port", port)
	d.tab.Wait("it is connected again", `document.querySelector('.app')?.dataset.conn === 'connected'`)
	d.world.Must("chats", "resume", a.ChatID, "say after the restart")
	shows(d.tab, "after the restart")
}
