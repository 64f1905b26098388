package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

const (
	// stepTimeout bounds one step in a page: far beyond what a loaded machine
	// takes, so that reaching it is a fault.
	stepTimeout = 30 * time.Second
	// startTimeout bounds the start of a browser.
	startTimeout = 60 * time.Second
)

// Browser is a running Chromium with a profile of its own.
type Browser struct {
	t   testing.TB
	ctx context.Context
}

// chromium returns the path of the browser. Without one the test is skipped
// with a line that says how to get it; in CI it fails.
func chromium(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("GARCON_E2E_CHROMIUM"); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const hint = "no Chromium in PATH; install it (Debian: apt-get install chromium) or name it in GARCON_E2E_CHROMIUM"
	if os.Getenv("CI") != "" {
		t.Fatal(hint)
	}
	t.Skip(hint)
	return ""
}

// New starts a browser that ends with the test.
func New(t testing.TB) *Browser {
	t.Helper()
	alloc, cancelAlloc := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(chromium(t)), chromedp.UserDataDir(t.TempDir()),
		chromedp.Headless, chromedp.NoSandbox, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.DisableGPU,
		// A test machine reaches nothing but loopback.
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.WSURLReadTimeout(startTimeout),
	)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(func() {
		cancel()
		cancelAlloc()
	})
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatalf("start the browser: %v", err)
	}
	return &Browser{t, ctx}
}

// Tab is one page. Its methods fail the test; they are to be called from its
// goroutine.
type Tab struct {
	t   testing.TB
	ctx context.Context

	mu sync.Mutex
	// logged is everything the page said; faults are what fails the test.
	logged, faults []string
	// allowed are texts in faults that the test expects.
	allowed []string
}

// Profile opens a tab that shares nothing with other profiles: another
// browser, as far as a server can tell.
func (b *Browser) Profile(width, height int64) *Tab {
	b.t.Helper()
	return b.tab(width, height, chromedp.WithNewBrowserContext())
}

// Tab opens an empty page.
func (b *Browser) Tab(width, height int64) *Tab {
	b.t.Helper()
	return b.tab(width, height)
}

func (b *Browser) tab(width, height int64, options ...chromedp.ContextOption) *Tab {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx, options...)
	tab := &Tab{t: b.t, ctx: ctx}
	b.t.Cleanup(func() {
		tab.end()
		cancel()
	})
	if err := chromedp.Listen(ctx, tab.listen); err != nil {
		b.t.Fatalf("open a page: %v", err)
	}
	if _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); err != nil {
		b.t.Fatalf("open a page: %v", err)
	}
	tab.Do("size the page", chromedp.EmulateViewport(width, height))
	return tab
}

// listen collects what the page reports.
func (tab *Tab) listen(event any) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	line, fault := "", false
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		parts := make([]string, len(e.Args))
		for i, a := range e.Args {
			parts[i] = strings.Trim(string(a.Value), `"`)
			if a.Description != "" {
				parts[i] = a.Description
			}
		}
		line, fault = fmt.Sprintf("console.%s: %s", e.Type, strings.Join(parts, " ")), e.Type == "error" || e.Type == "assert"
	case *runtime.EventExceptionThrown:
		d := e.ExceptionDetails
		line, fault = fmt.Sprintf("exception: %s at %s:%d", d.Text, d.URL, d.LineNumber), true
		if d.Exception != nil {
			line += " " + d.Exception.Description
		}
	case *log.EventEntryAdded:
		line, fault = fmt.Sprintf("%s %s: %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL), e.Entry.Level == log.EntryLevelError
	default:
		return
	}
	tab.logged = append(tab.logged, line)
	if fault {
		tab.faults = append(tab.faults, line)
	}
}

// Allow names a text that a reported error may hold, such as that of a
// connection which the test cuts.
func (tab *Tab) Allow(text string) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	tab.allowed = append(tab.allowed, text)
}

// end fails the test for what the page reported, and keeps a picture of a
// failure.
func (tab *Tab) end() {
	tab.mu.Lock()
	for _, f := range tab.faults {
		expected := false
		for _, a := range tab.allowed {
			expected = expected || strings.Contains(f, a)
		}
		if !expected {
			tab.t.Errorf("the page reported: %s", f)
		}
	}
	logged := strings.Join(tab.logged, "\n")
	tab.mu.Unlock()
	if tab.t.Failed() {
		tab.t.Logf("the page logged:\n%s", logged)
		tab.Keep("failure")
	}
}

// Do runs actions within the bound of one step.
func (tab *Tab) Do(what string, steps ...chromedp.Action[chromedp.Void]) {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, stepTimeout)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		tab.t.Fatalf("%s: %v\n%s", what, err, tab.text())
	}
}

// Eval evaluates a JavaScript expression.
func Eval[T any](tab *Tab, expression string) T {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, stepTimeout)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		tab.t.Fatalf("evaluate %s: %v", expression, err)
	}
	return v
}

// lookInterval is how often [Tab.Wait] looks. The page's own policy forbids the
// functions with which a page could be told to look by itself.
const lookInterval = 20 * time.Millisecond

// Wait waits until a JavaScript expression is true.
func (tab *Tab) Wait(what, expression string) {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, stepTimeout)
	defer cancel()
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if err == nil && ok {
			return
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			tab.t.Fatalf("after %s still not: %s (%v)\n%s", stepTimeout, what, err, tab.text())
		}
	}
}

// text returns what the page shows, for messages.
func (tab *Tab) text() string {
	ctx, cancel := context.WithTimeout(tab.ctx, stepTimeout)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body ? document.body.innerText : ""`))
	if err != nil {
		return err.Error()
	}
	const most = 4000
	return "the page shows:\n" + text[:min(len(text), most)]
}

// screenshots is where pictures are kept; empty keeps none.
var screenshots = os.Getenv("GARCON_E2E_SCREENSHOTS")

// Keep keeps a picture of the page when GARCON_E2E_SCREENSHOTS names a
// directory.
func (tab *Tab) Keep(name string) {
	tab.t.Helper()
	if screenshots == "" {
		return
	}
	ctx, cancel := context.WithTimeout(tab.ctx, stepTimeout)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		tab.t.Logf("no screenshot: %v", err)
		return
	}
	file := strings.NewReplacer("/", "-", " ", "-").Replace(tab.t.Name() + "-" + name + ".png")
	if err := os.MkdirAll(screenshots, 0o755); err != nil {
		tab.t.Log(err)
		return
	}
	if err := os.WriteFile(filepath.Join(screenshots, file), png, 0o600); err != nil {
		tab.t.Log(err)
	}
}
