package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"
	"text/template"

	"example.com/marketdata/internal/test/must"
)

var update = flag.Bool("update", false, "write TRANSCRIPT.md anew")

const transcript = "TRANSCRIPT.md"

// preface is the beginning of the transcript.
const preface = `# Twenty-one questions

For each question, this page shows the tool call that an assistant makes, the tool's answer, and what the assistant can reply. The market is simulated (` + "`sim:?assets=200&seed=1`" + `, the snapshot of 2026-11-21T12:00:00Z); ` + "`…`" + ` marks places where answers are shortened here. ` + "`go test -run TestTranscript -update`" + ` in this folder asks all questions and writes this page.
`

// questions contains the questions of one conversation. say is a template for the assistant's reply, which
// is executed with the tool's answer; its function item returns one of the items.
var questions = []struct{ question, tool, arguments, say string }{
	{"What is bitcoin worth?", "quotes", `{"slug":["bitcoin"]}`,
		`{{with item . 0}}{{.name}} is worth {{.price}} US dollars, {{index .percent_change "24h"}} % within 24 hours{{end}}, as of {{.snapshot}}. {{.notice.text}}.`},
	{"I mean the asset with the symbol AI. Which ones are there?", "search", `{"words":"AI"}`,
		`Several have this symbol: {{range .items}}{{if eq .symbol "AI"}}{{.name}} (id {{.id}}), {{end}}{{end}}so I need to know which one you mean.`},
	{"The first one. What does it cost, in the same snapshot as before?", "quotes",
		`{"id":[41],"snapshot":"2026-11-21T12:00:00Z"}`,
		`{{with item . 0}}{{.name}} costs {{.price}} US dollars. Its {{index .not_covered 0}} change of {{index .percent_change "1y"}} % covers only the time since {{.since}}, because there is no earlier price.{{end}}`},
	{"Which are the three largest?", "markets", `{"size":3}`,
		`{{range .items}}{{.rank}}. {{.name}} ({{.market_cap}} US dollars) {{end}}of {{.total}} assets.`},
	{"What rose most today?", "markets", `{"sort":"percent_change.24h","size":3}`,
		`{{range .items}}{{.name}} {{index .percent_change "24h"}} %; {{end}}over 24 hours.`},
	{"And what fell most within a week?", "markets", `{"sort":"percent_change.7d","direction":"asc","size":2}`,
		`{{range .items}}{{.name}} {{index .percent_change "7d"}} %; {{end}}over seven days.`},
	{"What is traded most?", "markets", `{"sort":"volume","size":2}`,
		`{{range .items}}{{.name}} with {{.volume}} US dollars; {{end}}within 24 hours.`},
	{"Which are the largest stablecoins?", "markets", `{"category":["stablecoins"],"size":3}`,
		`{{range .items}}{{.name}} ({{.symbol}}), {{end}}of {{.total}} in this category.`},
	{"What is large on Arbitrum?", "markets", `{"chain":["arbitrum-one"],"size":2}`,
		`{{range .items}}{{.name}} (rank {{.rank}}), {{end}}of {{.total}} assets on this chain.`},
	{"How large is the whole market?", "global", `{}`,
		`{{with item . 0}}{{.total_market_cap}} US dollars, {{.total_market_cap_change_percentage_24h}} % within 24 hours. That is the sum over this directory.{{end}}`},
	{"How did ethereum do over the last week?", "history", `{"slug":["ethereum"],"window":"7d"}`,
		`{{with item . 0}}It went from {{index .points 0 1}} to {{index .points 168 1}} US dollars.{{end}}`},
	{"Show its days of last week as candles.", "history",
		`{"slug":["ethereum"],"kind":"candles","interval":"1d","from":"2026-11-14","to":"2026-11-20"}`,
		`{{with item . 0}}On {{index .candles 0 0}} it opened at {{index .candles 0 1}}, rose to {{index .candles 0 2}}, fell to {{index .candles 0 3}} and closed at {{index .candles 0 4}}; {{len .candles}} days in all.{{end}}`},
	{"How has the asset with id 41 done over a year?", "history", `{"id":[41],"window":"1y"}`,
		`{{index .remarks 0}}`},
	{"What was bitcoin worth on the first of March?", "price_at", `{"slug":["bitcoin"],"time":["2026-03-01"]}`,
		`{{with index (item . 0).prices 0}}{{.price}} US dollars, by the snapshot of {{.snapshot_time}}.{{end}}`},
	{"I bought bitcoin and ethereum on 3 June at noon in Berlin, and sold on 20 November at 9:30 UTC. At what prices?",
		"price_at", `{"slug":["bitcoin","ethereum"],"time":["2026-06-03T12:00:00+02:00","2026-11-20T09:30:00Z"]}`,
		`{{range .items}}{{.name}}: {{range .prices}}{{.price}} (taken at {{.snapshot_time}}) {{end}}{{end}}`},
	{"And what was bitcoin worth in January 2011?", "price_at", `{"slug":["bitcoin"],"time":["2011-01-01"]}`,
		`That is not known here. {{index .remarks 0}}`},
	{"Compare dogecoin with moondoge.", "quotes", `{"slug":["dogecoin","moondoge"]}`,
		`{{with item . 0}}{{.name}} is worth {{.price}} US dollars.{{end}} There is no {{index .not_found.slug 0}} in this directory.`},
	{"What did the ranking look like yesterday at noon?", "markets", `{"size":3,"snapshot":"2026-11-20T12:00:00Z"}`,
		`Yesterday's ranking is no longer available, but I can look up what individual assets were worth at the time.`},
	{"Can you prove the price of bitcoin?", "verify_proof", `{"id":1}`,
		`{{index .remarks 0}} The file is {{(item . 0).file}} of {{.snapshot}}.`},
	{"Which assets are new?", "changes", `{"collection":["assets"],"kind":["added","back"]}`,
		`{{range .items}}{{.name}} ({{.symbol}}), which has been listed since {{.time}}. {{end}}{{index .remarks 0}}`},
	{"Sort the market by beauty.", "markets", `{"sort":"beauty"}`,
		`I can sort by rank, market cap, volume, price and changes.`},
}

// TestTranscript asks the questions, and compares the conversation with TRANSCRIPT.md.
func TestTranscript(t *testing.T) {
	session := connect(t, simulated(t))
	functions := template.FuncMap{"item": func(answer map[string]any, i int) any { return answer["items"].([]any)[i] }}
	var page bytes.Buffer
	page.WriteString(preface)
	for i, q := range questions {
		var args arguments
		must.OK(t, json.Unmarshal([]byte(q.arguments), &args))
		got := ask(t, session, q.tool, args)
		answer := map[string]any{}
		if got.failure == "" {
			answer = decoded(t, []byte(got.text)).(map[string]any)
		}
		say := must.Get(template.New("").Funcs(functions).Option("missingkey=error").Parse(q.say))(t)
		shown := got.text
		if len(shown) > 600 {
			shown = shown[:400] + "…" + shown[len(shown)-200:]
		}
		fmt.Fprintf(&page, "\n## %d. %s\n\n`%s` `%s`\n\n```text\n%s\n```\n\n", i+1, q.question, q.tool,
			q.arguments, shown)
		must.OK(t, say.Execute(&page, answer))
		page.WriteByte('\n')
	}
	if len(questions) != 21 {
		t.Errorf("%d questions", len(questions))
	}
	if *update {
		must.OK(t, os.WriteFile(transcript, page.Bytes(), 0o644))
	}
	if want := must.Get(os.ReadFile(transcript))(t); !bytes.Equal(page.Bytes(), want) {
		t.Errorf("%s is not what is answered now: go test -run TestTranscript -update, and read the difference:\n%s",
			transcript, &page)
	}
}
