package browser

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"garcon/e2e"
	"garcon/proto/api"
	"garcon/proto/row"
)

// cuts is how often the connection is spoiled during one turn.
const cuts = 200

// TestCutConnections spoils the connection at random moments of a turn of 500
// rows: cuts it, cuts it inside a frame, stalls it. At the end the page shows
// what the ledger holds, without a reload and without a banner.
func TestCutConnections(t *testing.T) {
	b := New(t)
	w := e2e.New(t)
	p := newProxy(t)
	d := &desk{t: t, world: w, controller: w.Controller("--allowed-host", p.address()), browser: b}
	p.lead(strings.TrimPrefix(d.controller.Descriptor.URL, "http://"))
	tab := b.Profile(1280, 800)
	for _, expected := range []string{"WebSocket", "Failed to load resource", "ERR_"} {
		tab.Allow(expected)
	}
	link, err := url.Parse(strings.TrimSpace(w.Must("login")))
	if err != nil {
		t.Fatal(err)
	}
	link.Host = p.address()
	tab.Do("open the link", chromedp.Navigate(link.String()))
	tab.Wait("the page is connected", `document.querySelector('.app')?.dataset.conn === 'connected'`)
	loaded := Eval[float64](tab, `performance.timeOrigin`)

	var prompt strings.Builder
	for i := range 100 {
		fmt.Fprintf(&prompt, "burst 5\nsleep 0.1\nsay line %d of the turn\n", i)
	}
	a := d.start(prompt.String())
	d.open(tab, a.ChatID)

	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("GARCON_E2E_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("repeat with GARCON_E2E_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	pause := time.NewTimer(0)
	defer pause.Stop()
	for range cuts {
		pause.Reset(time.Duration(random.IntN(120)) * time.Millisecond)
		<-pause.C
		switch random.IntN(4) {
		case 0:
			p.stall()
			pause.Reset(time.Duration(random.IntN(300)) * time.Millisecond)
			<-pause.C
			if random.IntN(2) == 0 {
				p.cut()
			}
			p.resume()
		case 1:
			p.cutAfter(1 + random.IntN(20_000))
		case 2:
			p.cutAfter(0)
			p.cut()
		default:
			p.cut()
		}
	}
	p.cutAfter(0)
	p.cut()
	inPhase(tab, a.ChatID, "idle")
	tab.Wait("the page is connected", `document.querySelector('.app')?.dataset.conn === 'connected'`)
	if again := Eval[float64](tab, `performance.timeOrigin`); again != loaded {
		t.Error("the page was reloaded")
	}
	sameAsLedger(t, d, tab, a.ChatID)
	tab.Keep("after the cuts")
}

// sameAsLedger walks through the whole transcript on the page and compares it
// with the ledger: every answer is there with its text, and nothing twice.
func sameAsLedger(t *testing.T, d *desk, tab *Tab, chat string) {
	t.Helper()
	want := map[int64]string{}
	query := url.Values{"max": {strconv.Itoa(api.MaxPageMessages)}}
	for {
		var page api.Page
		d.call(api.OpChatsPage, []string{chat}, query, nil, &page)
		for _, raw := range page.Rows {
			r := decode(t, raw)
			if b, ok := r.Body.(*row.Assistant); ok {
				want[r.Ordinal] = b.Text
			}
		}
		if !page.HasMore {
			break
		}
		query.Set("before", strconv.FormatInt(decode(t, page.Rows[0]).Ordinal, 10))
	}
	if len(want) < 500 {
		t.Fatalf("the turn has only %d answers", len(want))
	}
	type shown struct {
		Ordinal int64  `json:"ordinal"`
		Text    string `json:"text"`
	}
	feed := `document.querySelector('.chat[data-chat="` + chat + `"] [role=feed]')`
	got := map[int64]string{}
	// From the end upwards: older pages come as the page is scrolled.
	for range 3000 {
		visible := Eval[[]shown](tab, `[...`+feed+`.querySelectorAll('article[data-row=text]')].map(a => ({ordinal: Number(a.getAttribute('aria-posinset')) - 1, text: a.innerText}))`)
		seen := map[int64]bool{}
		for _, r := range visible {
			if seen[r.Ordinal] {
				t.Errorf("row %d is on the page twice", r.Ordinal)
			}
			seen[r.Ordinal] = true
			got[r.Ordinal] = r.Text
		}
		missing := false
		for ordinal := range want {
			if _, ok := got[ordinal]; !ok {
				missing = true
			}
		}
		if !missing {
			break
		}
		tab.Do("scroll up", chromedp.Evaluate[chromedp.Void](`(() => { let s = `+feed+`; while (s && s.scrollHeight <= s.clientHeight + 1) s = s.parentElement; s?.scrollBy(0, -400) })()`))
		pause := time.NewTimer(lookInterval)
		<-pause.C
	}
	wrong := 0
	for ordinal, text := range want {
		if shown, ok := got[ordinal]; !ok || !strings.Contains(shown, strings.TrimSpace(text)) {
			if wrong++; wrong <= 5 {
				t.Errorf("row %d: the page shows %q, the ledger holds %q", ordinal, shown, text)
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d answers are not as in the ledger", wrong, len(want))
	}
}
