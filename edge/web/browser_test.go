package web_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience bounds the time that a test waits. Nothing should ever take that long.
const patience = 30 * time.Second

// requireBrowser turns skipping into failing; "make test-pages" sets it.
const requireBrowser = "MARKETDATA_REQUIRE_BROWSER"

// browser is a headless Chromium.
type browser struct{ ctx context.Context }

// startBrowser starts Chromium, which runs until the test ends and can reach only this machine.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes its time")
	}
	program := ""
	for _, name := range []string{
		os.Getenv("CHROMIUM"), "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		const why = "no Chromium on this machine (Debian: apt-get install chromium), nor one named by CHROMIUM"
		if os.Getenv(requireBrowser) != "" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("lang", "en-US"),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"))...)
	t.Cleanup(cancel)
	ctx, _ = chromedp.NewContext(ctx) // Cancel ends it
	ok(t, chromedp.Do(ctx))
	t.Cleanup(func() { ok(t, chromedp.Cancel(ctx)) })
	return &browser{ctx}
}

// page is a tab, and a record of what happened in it.
type page struct {
	t    *testing.T
	ctx  context.Context
	view view

	mu         sync.Mutex
	requests   []string // the requested URLs
	complaints []string // errors and warnings of the console, of scripts, and of the content security policy
	received   float64  // bytes received, including response heads
}

// view describes a reader's window and device.
type view struct {
	width, height int
	dark, phone   bool
}

var desktop = view{width: 1280, height: 900}

// views contains the views in which tests look at the pages, by the suffix of their pictures' names.
// Because a browser is slow, it contains only the first view unless allViews is set.
var views = func() map[string]view {
	all := map[string]view{
		"":       desktop,
		"-dark":  {width: 1280, height: 900, dark: true},
		"-phone": {width: 390, height: 844, phone: true},
	}
	if !allViews {
		delete(all, "-dark")
		delete(all, "-phone")
	}
	return all
}()

// allViews makes tests also look at the pages in the dark theme and on a phone.
var allViews = os.Getenv("TEST_LONG") == "1" || os.Getenv("SCREENSHOTS") != ""

// open opens an empty tab with a view. The tab has its own cookies and storage, and is closed when the test
// ends.
func (b *browser) open(t *testing.T, v view) *page {
	t.Helper()
	return openTab(t, v, b.ctx, chromedp.WithNewBrowserContext())
}

// tab opens another tab of the same reader.
func (p *page) tab() *page { return openTab(p.t, p.view, p.ctx) }

func openTab(t *testing.T, v view, parent context.Context, options ...chromedp.ContextOption) *page {
	t.Helper()
	p := &page{t: t, view: v}
	var cancel func()
	p.ctx, cancel = chromedp.NewContext(parent, append(options, chromedp.WithListener(p.event))...)
	t.Cleanup(cancel)
	ok(t, chromedp.Do(p.ctx))
	p.call("Audits.enable", nil)
	scale := 1
	if v.phone {
		scale = 2
	}
	p.call("Emulation.setDeviceMetricsOverride",
		map[string]any{"width": v.width, "height": v.height, "deviceScaleFactor": scale, "mobile": v.phone})
	p.call("Emulation.setTouchEmulationEnabled", map[string]any{"enabled": v.phone})
	scheme := "light"
	if v.dark {
		scheme = "dark"
	}
	p.emulate("", "prefers-color-scheme", scheme)
	return p
}

// emulate sets the medium and one preference of the reader.
func (p *page) emulate(medium, preference, value string) {
	p.t.Helper()
	p.call("Emulation.setEmulatedMedia",
		map[string]any{"media": medium, "features": []map[string]string{{"name": preference, "value": value}}})
}

func unmarshal(t *testing.T, raw json.RawMessage, into any) {
	t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
}

// call calls a method of the DevTools protocol and returns its result.
func (p *page) call(method string, params any) (result json.RawMessage) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if params == nil {
		params = struct{}{}
	}
	if err := chromedp.FromContext(p.ctx).Target.Call(ctx, method, params, &result); err != nil {
		p.t.Fatalf("%s: %v", method, err)
	}
	return result
}

// event records events that tests check.
func (p *page) event(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, e.Request.URL)
	case *network.EventWebSocketCreated:
		p.requests = append(p.requests, e.URL)
	case *network.EventLoadingFinished:
		p.received += e.EncodedDataLength
	case *runtime.EventExceptionThrown:
		p.complaints = append(p.complaints, (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			text, err := json.Marshal(e)
			p.complaints = append(p.complaints, fmt.Sprintf("%s %v", text, err))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			p.complaints = append(p.complaints, e.Entry.Text+" "+e.Entry.URL)
		}
	case *audits.EventIssueAdded:
		if e.Issue.Code == audits.InspectorIssueCodeContentSecurityPolicyIssue {
			text, err := json.Marshal(e)
			p.complaints = append(p.complaints, fmt.Sprintf("%s %v", text, err))
		}
	}
}

func (p *page) goTo(url string) {
	p.t.Helper()
	var r struct{ ErrorText string }
	unmarshal(p.t, p.call("Page.navigate", map[string]any{"url": url}), &r)
	if r.ErrorText != "" {
		p.t.Fatalf("%s: %s", url, r.ErrorText)
	}
}

// eval returns the value of a JavaScript expression. If that is a promise, it waits for the promise.
func (p *page) eval(expression string) any {
	p.t.Helper()
	value, err := p.try(expression)
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

func (p *page) try(expression string) (any, error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	byHand := func(e *runtime.EvaluateParams) { e.UserGesture = new(true) }
	return chromedp.Run(ctx, chromedp.Evaluate[any](expression, chromedp.EvalAwaitPromise, byHand))
}

// await waits until a JavaScript expression is true. It also waits while a page is being replaced by
// another one.
func (p *page) await(condition string) {
	p.t.Helper()
	const look = `new Promise((done) => {
		const end = performance.now() + 1000;
		(function again() {
			let is = false;
			try { is = Boolean(%s); } catch {}
			if (is || performance.now() > end) done(is); else setTimeout(again, 20);
		})();
	})`
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if value, _ := p.try(fmt.Sprintf(look, condition)); value == true {
			return
		}
	}
	text, _ := p.try("document.body.innerText")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.t.Fatalf("never: %s\ncomplaints: %q\nthe page: %.2000v", condition, p.complaints, text)
}

// key presses a key of package kb.
func (p *page) key(key string) {
	p.t.Helper()
	ok(p.t, chromedp.Do(p.ctx, chromedp.KeyEvent(key)))
}

// slash presses the slash key. If the page handles the key, no text is inserted.
func (p *page) slash() {
	p.t.Helper()
	p.call("Input.dispatchKeyEvent",
		map[string]any{"type": "keyDown", "key": "/", "text": "/", "windowsVirtualKeyCode": 191})
}

// place returns a position in the element that a selector finds: at a fraction of its width, and halfway
// down.
func (p *page) place(selector string, part float64) map[string]any {
	p.t.Helper()
	at := map[string]any{}
	unmarshal(p.t, json.RawMessage(p.eval(fmt.Sprintf(
		`(() => { const r = document.querySelector(%s).getBoundingClientRect(); return JSON.stringify({ x: r.left + r.width * %g, y: r.top + r.height / 2 }); })()`, quote(selector), part)).(string)), &at)
	return at
}

// point moves the mouse to a place. On a phone, it taps there instead.
func (p *page) point(selector string, part float64) {
	p.t.Helper()
	if p.view.phone {
		p.call("Input.dispatchTouchEvent",
			map[string]any{"type": "touchStart", "touchPoints": []any{p.place(selector, part)}})
		p.call("Input.dispatchTouchEvent", map[string]any{"type": "touchEnd", "touchPoints": []any{}})
		return
	}
	p.mouse("mouseMoved", selector, part, 0)
}

// mouse sends a mouse event at a place.
func (p *page) mouse(what, selector string, part float64, clicks int) {
	p.t.Helper()
	event := p.place(selector, part)
	event["type"], event["clickCount"] = what, clicks
	if clicks > 0 {
		event["button"], event["buttons"] = "left", 1
	}
	p.call("Input.dispatchMouseEvent", event)
}

// press presses the mouse button at one place, and releases it at another.
func (p *page) press(selector string, from, to float64, clicks int) {
	p.t.Helper()
	p.mouse("mouseMoved", selector, from, 0)
	p.mouse("mousePressed", selector, from, clicks)
	if to != from {
		p.mouse("mouseMoved", selector, to, clicks)
	}
	p.mouse("mouseReleased", selector, to, clicks)
}

// download presses a button, and returns the contents of the downloaded file with this name.
func (p *page) download(button, name string) string {
	p.t.Helper()
	dir := p.t.TempDir()
	p.call("Browser.setDownloadBehavior", map[string]any{
		"behavior": "allow", "browserContextId": chromedp.FromContext(p.ctx).BrowserContextID, "downloadPath": dir})
	p.eval(`document.querySelector(` + quote(button) + `).scrollIntoView()`)
	p.press(button, 0.5, 0.5, 1)
	var got []byte
	for end := time.Now().Add(patience); len(got) == 0 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		got, _ = os.ReadFile(filepath.Join(dir, name))
	}
	return string(got)
}

// block makes requests to URLs with these patterns fail. Without patterns, it ends this.
func (p *page) block(urls ...string) {
	p.t.Helper()
	p.call("Network.setBlockedURLs", map[string]any{"urls": append([]string{}, urls...)})
}

// insert types text into the focused element.
func (p *page) insert(text string) {
	p.t.Helper()
	p.call("Input.insertText", map[string]any{"text": text})
}

// shoot writes a picture into the folder that SCREENSHOTS names, if any.
func (p *page) shoot(name string) {
	p.t.Helper()
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		return
	}
	p.settle()
	taken, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		taken, err = small(taken)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), taken, 0o644)
	}
	if err != nil {
		p.t.Error(err)
	}
}

// small encodes a picture with a palette of 64 of its colours, and replaces all others with the nearest of
// these. Half of the palette are the most frequent colours. The other half are not close to any colour in
// the palette, so that small elements keep their colour.
func small(taken []byte) ([]byte, error) {
	full, err := png.Decode(bytes.NewReader(taken))
	if err != nil {
		return nil, err
	}
	count := map[color.Color]int{}
	bounds := full.Bounds()
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			count[full.At(x, y)]++
		}
	}
	shade := func(a, b color.Color) bool {
		near := func(a, b uint32) bool { return max(a, b)-min(a, b) < 16<<8 }
		r, g, b1, _ := a.RGBA()
		r2, g2, b2, _ := b.RGBA()
		return near(r, r2) && near(g, g2) && near(b1, b2)
	}
	var colours color.Palette
	for _, c := range slices.SortedFunc(
		maps.Keys(count), func(a, b color.Color) int { return cmp.Compare(count[b], count[a]) }) {
		if len(colours) < 32 ||
			len(colours) < 64 && !slices.ContainsFunc(colours, func(one color.Color) bool { return shade(one, c) }) {
			colours = append(colours, c)
		}
	}
	index := map[color.Color]uint8{}
	for c := range count {
		index[c] = uint8(colours.Index(c))
	}
	few := image.NewPaletted(bounds, colours)
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			few.SetColorIndex(x, y, index[full.At(x, y)])
		}
	}
	var out bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, few)
	return out.Bytes(), err
}

// settle finishes all finite animations.
func (p *page) settle() {
	p.t.Helper()
	p.eval(`document.getAnimations().filter((a) => a.effect.getComputedTiming().endTime !== Infinity).forEach((a) => a.finish())`)
}

// axe returns the source of axe-core, which checks the accessibility of pages.
var axe = sync.OnceValues(func() (string, error) {
	f, err := os.Open("axe/axe.min.js.br")
	if err != nil {
		return "", err
	}
	defer f.Close()
	source, err := io.ReadAll(brotli.NewReader(f))
	if err != nil {
		return "", err
	}
	want, err := os.ReadFile("axe/axe.min.js.sha256")
	if sum := sha256.Sum256(source); err == nil && hex.EncodeToString(sum[:]) != strings.TrimSpace(string(want)) {
		err = errors.New("axe has another digest than was noted")
	}
	return string(source), err
})

// checkAxe fails for each violation that axe-core finds on the page.
func (p *page) checkAxe(state string) {
	p.t.Helper()
	source, err := axe()
	if err != nil {
		p.t.Fatal(err)
	}
	p.settle()
	p.eval(source + `; 0`)
	for _, finding := range p.texts(`axe.run().then((r) => r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.failureSummary + " " + n.html)))`) {
		p.t.Errorf("%s: axe: %s", state, finding)
	}
}

// checkFits fails if the page is wider than the window.
func (p *page) checkFits() {
	p.t.Helper()
	if wide := p.eval(`document.documentElement.scrollWidth - document.documentElement.clientWidth`); wide != 0.0 {
		p.t.Errorf("the page is %v pixels wider than the window", wide)
	}
}

// checkDark fails if the page's background is not dark, or not light if want is false.
func (p *page) checkDark(want bool) {
	p.t.Helper()
	if dark := p.eval(`getComputedStyle(document.body).backgroundColor.match(/\d+/g).slice(0, 3).every((c) => Number(c) < 64)`); dark != want {
		p.t.Errorf("dark: %v, want %t", dark, want)
	}
}

// checkStayed fails if the page sent a request to another host, or if there were complaints, for example
// about a violated policy. It ignores complaints that contain one of the expected strings.
func (p *page) checkStayed(base string, expected ...string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, url := range p.requests {
		if !strings.HasPrefix(url, base+"/") && !strings.HasPrefix(url, "data:") && url != "about:blank" {
			p.t.Errorf("the page asks %s", url)
		}
	}
	if len(p.requests) == 0 {
		p.t.Error("no request was recorded")
	}
	for _, complaint := range p.complaints {
		if !slices.ContainsFunc(expected, func(text string) bool { return strings.Contains(complaint, text) }) {
			p.t.Errorf("the browser complains: %.600s", complaint)
		}
	}
}

// count returns the number of requests whose URL contains part.
func (p *page) count(part string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, url := range p.requests {
		if strings.Contains(url, part) {
			n++
		}
	}
	return n
}

func (p *page) asked(part string) bool { return p.count(part) > 0 }
