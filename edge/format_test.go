package edge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/stores"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
)

var updateAnswers = flag.Bool("update", false,
	"write down what an edge answers from the stores of every format, instead of comparing")

// keptAnswers is the contents of the file answers.json next to a stored test store.
type keptAnswers struct {
	TrustKey string                 `json:"trust_key"`
	APIKey   string                 `json:"api_key"`
	Check    *artifacts.CheckReport `json:"check"`
	Answers  []keptAnswer           `json:"answers"`
}

type keptAnswer struct {
	Target string `json:"target"`
	Pin    string `json:"pin,omitempty"` // X-Snapshot-Time of the request
	Status int    `json:"status"`
	Time   string `json:"time"` // X-Snapshot-Time of the answer
	// SHA256 is the digest of the body. Body contains the body itself if it is short.
	SHA256 string `json:"sha256"`
	Body   string `json:"body,omitempty"`
}

// TestEveryFormat checks that a store of every format that was ever released is found intact, and that an
// edge answers from it as the release that wrote it did.
func TestEveryFormat(t *testing.T) {
	for format := artifacts.OldestFormat; format <= artifacts.Format; format++ {
		t.Run(fmt.Sprint(format), func(t *testing.T) {
			dir := filepath.Join("..", "artifacts", "testdata", fmt.Sprintf("format%d", format))
			path := filepath.Join(dir, "answers.json")
			var kept keptAnswers
			b, err := os.ReadFile(path)
			if err == nil {
				err = json.Unmarshal(b, &kept)
			}
			must.OK(t, err)
			reader := must.Get(stores.OpenReader(t.Context(), "file:"+filepath.Join(dir, "store")))(t)
			trust := must.Get(artifacts.ParseTrustKey(kept.TrustKey))(t)
			report := must.Get(teststore.Check(reader))(t)
			e, _ := start(t, reader, func(c *Config) { c.AuthOff, c.Trust = false, artifacts.Trust{trust} })
			until(t, "the store of a format", func() bool {
				return e.current() != nil && e.refresher.Status().Missing == 0 && e.watcher.Status().InForce == 1 &&
					e.refresher.State().Change != nil
			})
			if *updateAnswers {
				kept.Check = report
				for i := range kept.Answers {
					kept.ask(t, e, &kept.Answers[i])
				}
				b, err := json.MarshalIndent(kept, "", "\t")
				if err == nil {
					err = os.WriteFile(path, append(b, '\n'), 0o644)
				}
				must.OK(t, err)
				return
			}
			if got, want := fmt.Sprint(*report), fmt.Sprint(*kept.Check); got != want {
				t.Errorf("Check says %s, want %s", got, want)
			}
			if len(kept.Answers) == 0 {
				t.Error("no answers are kept")
			}
			for _, want := range kept.Answers {
				got := want
				if kept.ask(t, e, &got); got != want {
					t.Errorf("%s: %+v, want %+v", want.Target, got, want)
				}
			}
		})
	}
}

// ask sends the request of a and records the edge's answer in a.
func (k *keptAnswers) ask(t *testing.T, e *Edge, a *keptAnswer) {
	t.Helper()
	headers := []string{"X-Api-Key", k.APIKey}
	if a.Pin != "" {
		headers = append(headers, "X-Snapshot-Time", a.Pin)
	}
	status, body, h := Get(t, e.Addr(), a.Target, headers...)
	sum := sha256.Sum256([]byte(body))
	a.Status, a.Time, a.SHA256, a.Body = status, h.Get("X-Snapshot-Time"), hex.EncodeToString(sum[:]), ""
	if len(body) <= 1000 {
		a.Body = body
	}
}

// put stores b under the key that key returns for its digest.
func put(t *testing.T, mem *memstore.Store, key func(artifacts.Digest) artifacts.Key, b []byte) artifacts.Ref {
	t.Helper()
	ref := artifacts.RefOf(b)
	must.OK(t, mem.Put(t.Context(), key(ref.Digest), b))
	return ref
}

// TestUnknownSortKey checks a snapshot from a builder that does not know a sort key or the search index. The
// edge answers all requests that need neither.
func TestUnknownSortKey(t *testing.T) {
	mem := memstore.New()
	p := teststore.Publish(t, mem, teststore.NewFeed(200, 1), teststore.Start)
	m, next := *p.Manifest, *p.Pointer
	m.Views = slices.DeleteFunc(slices.Clone(m.Views), func(v artifacts.View) bool {
		return v.Collection == "exchanges" && v.Sort == "volume" || v.Collection == "search"
	})
	for i := range m.Views {
		if v := &m.Views[i]; v.Collection == "exchanges" && v.Columns != nil {
			// The column volume is the last one.
			v.Columns = slices.DeleteFunc(slices.Clone(v.Columns), func(c string) bool { return c == "volume" })
		}
	}
	next.Sequence++
	next.Manifest = put(t, mem, artifacts.ManifestKey, m.Encode())
	must.Get(mem.Swap(t.Context(), artifacts.CurrentKey, p.Version, next.Encode()))(t)
	e, _ := start(t, mem, nil)
	until(t, "the snapshot", func() bool { return e.current() != nil && e.refresher.Status().Missing == 0 })
	for query, want := range map[string]int{
		"exchanges": 200, "exchanges?sort=name": 200, "exchanges?slug=exchange-1&sort=slug:desc": 200,
		"exchanges?id=1&sort=name": 200,
		"exchanges?sort=volume":    503, "exchanges?id=1&sort=volume:desc": 503,
		"exchanges?slug=exchange-1&sort=volume": 503, "search?q=asset": 503, "search": 400,
	} {
		if status, body, _ := Get(t, e.Addr(), "/openapi/v1/"+query); status != want {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
	// The edge counts an answer after it has sent it, which may be after the client has read it.
	metrics := func() (body string) {
		_, body, _ = Get(t, e.AdminAddr(), "/metrics")
		return body
	}
	until(t, "the four answers that need an unknown view", func() bool {
		return strings.Contains(metrics(), `edge_http_requests_total{code="503",route="future_pin"} 4`)
	})
	if !strings.Contains(metrics(), `edge_http_requests_total{code="503",route="exchanges"} 0`) {
		t.Error("it counts as a fault of the service")
	}
}

// TestNewerFormat checks that an edge refuses data in a newer format and says so in /status, and that the
// snapshot in force stays.
func TestNewerFormat(t *testing.T) {
	ctx := context.Background()
	for name, change := range map[string]func(t *testing.T, mem *memstore.Store, next *artifacts.Pointer,
		m artifacts.Manifest){
		"pointer": func(_ *testing.T, _ *memstore.Store, next *artifacts.Pointer,
			_ artifacts.Manifest) {
			next.Format++
		},
		"manifest": func(t *testing.T, mem *memstore.Store, next *artifacts.Pointer, m artifacts.Manifest) {
			b := bytes.Replace(artifacts.Unsigned(m.Encode()), fmt.Appendf(nil, `"format":%d`, artifacts.Format),
				fmt.Appendf(nil, `"format":%d`, artifacts.Format+1), 1)
			next.Manifest = put(t, mem, artifacts.ManifestKey, b)
		},
		"object": func(t *testing.T, mem *memstore.Store, next *artifacts.Pointer, m artifacts.Manifest) {
			next.Time = next.Time.Add(artifacts.Step)
			m.Time, m.Views = next.Time, slices.Clone(m.Views)
			m.Views[0].Objects = slices.Clone(m.Views[0].Objects)
			o := &m.Views[0].Objects[0]
			b, _, err := mem.Get(ctx, artifacts.ObjectKey(o.Digest), o.Size)
			must.OK(t, err)
			o.Ref = put(t, mem, artifacts.ObjectKey, append([]byte("MDV2"), b[4:]...))
			next.Manifest = put(t, mem, artifacts.ManifestKey, m.Encode())
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem := memstore.New()
			first := teststore.Publish(t, mem, teststore.NewFeed(200, 1), teststore.Start)
			e, _ := start(t, mem, nil)
			until(t, "the first snapshot", func() bool {
				return e.current() != nil &&
					e.refresher.Status().Missing == 0
			})
			_, want, _ := Get(t, e.Addr(), board)
			next := *first.Pointer
			next.Sequence++
			change(t, mem, &next, *first.Manifest)
			must.Get(mem.Swap(ctx, artifacts.CurrentKey, first.Version, next.Encode()))(t)
			var status struct {
				State     string
				LastError string `json:"last_error"`
				Sequence  uint64
			}
			until(t, "a reason in /status", func() bool {
				_, body, _ := Get(t, e.AdminAddr(), "/status")
				return json.Unmarshal([]byte(body), &status) == nil && strings.Contains(status.LastError,
					artifacts.ErrFormat.Error())
			})
			if status.State != "INTERRUPTED" || status.Sequence != 1 {
				t.Errorf("%+v", status)
			}
			if _, got, _ := Get(t, e.Addr(), board); got != want {
				t.Errorf("the answer became %s", got)
			}
		})
	}
}
