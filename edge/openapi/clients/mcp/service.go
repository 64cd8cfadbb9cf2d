package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
	marketdata "example.com/marketdata/edge/openapi/clients/go"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	callTime = 30 * time.Second // for one call, including all attempts
	maxWait  = 5 * time.Second  // between two attempts, because the assistant's user is waiting
	maxItems = 48 << 10         // bytes of the items in an answer; assistants accept no more in one answer
	maxList  = 100              // values of a list argument, the service's own limit
	maxText  = 200              // characters of a text argument
)

// places bounds the number of concurrent calls.
var places = make(chan struct{}, 16)

const instructions = `Figures of a crypto market data service that publishes a snapshot every ten minutes. All tools only read.

- Every answer has snapshot, the time of the snapshot that it is from. Name it with the figures. Pass it as the argument snapshot to further calls, and all answers of the conversation fit together; leave it out for the newest figures. A snapshot is retained for about an hour.
- Amounts are US dollars. Figures are texts with all their decimals: compute with decimal arithmetic, and round at the end.
- Unrelated assets share symbols. Find an asset with search, then use its id.
- Show notice, when there is one, with the data, and tell the user what remarks say.
- The percent_change of a window that not_covered names counts from since, not over the window: say "since" and the date.
- A figure that is null is not known. Do not estimate it.
- Prices are a source's averages every ten minutes: no trades, and no advice.`

// service queries an edge on behalf of the tools.
type service struct {
	client    *marketdata.Client
	base, key string
	trust     artifacts.Trust
	log       *slog.Logger
}

// server returns a server with all tools.
func (s *service) server(version string) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: name, Title: "Market data", Version: version}, &mcp.ServerOptions{
		Instructions: instructions, Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}})
	server.AddReceivingMiddleware(s.guard)
	s.addTools(server)
	return server
}

// guard rejects calls that contain the API key, because answers, errors and logs repeat arguments. It also
// logs failed calls.
func (s *service) guard(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		call, ok := req.(*mcp.CallToolRequest)
		if ok && s.key != "" && strings.Contains(call.Params.Name+string(call.Params.Arguments), s.key) {
			return nil, errors.New("the API key is in the call: nothing that a tool takes is a key, and this server has its own")
		}
		result, err := next(ctx, method, req)
		if called, ok := result.(*mcp.CallToolResult); ok && err == nil && called.GetError() != nil {
			s.log.Warn("call failed", "tool", call.Params.Name, "err", called.GetError())
		}
		return result, err
	}
}

// answer is the result of every tool.
type answer[T any] struct {
	Snapshot   string              `json:"snapshot" jsonschema:"Time of the snapshot that answered: pass it as snapshot to further calls. Empty before the first snapshot."`
	Notice     *marketdata.Notice  `json:"notice,omitempty" jsonschema:"Show it with the data."`
	Page       int64               `json:"page,omitempty"`
	TotalPages int64               `json:"total_pages,omitempty"`
	Total      int64               `json:"total,omitempty" jsonschema:"Rows that match, on all pages."`
	NotFound   map[string][]string `json:"not_found,omitempty" jsonschema:"Values of arguments that match nothing."`
	Remarks    []string            `json:"remarks,omitempty" jsonschema:"What is missing, cut or not covered, and what to do. Tell the user."`
	Items      []T                 `json:"items"`
}

func (a *answer[T]) remark(format string, args ...any) {
	a.Remarks = append(a.Remarks, fmt.Sprintf(format, args...))
}

// reply converts the client's answer and the given items to a tool's answer.
func reply[R, From, T any](got *marketdata.Answer[R], items []From, each func(From) T) *answer[T] {
	a := &answer[T]{Snapshot: stamp(got.SnapshotTime), NotFound: got.NotFound, Items: make([]T, len(items))}
	for i, item := range items {
		a.Items[i] = each(item)
	}
	return a
}

// ofPage converts the client's page to a tool's answer. If err is not nil, it returns err.
func ofPage[From, T any](got *marketdata.Answer[marketdata.Page[From]], err error,
	each func(From) T) (*answer[T], error) {
	if err != nil {
		return nil, err
	}
	a := reply(got, got.Result.Items, each)
	a.Page, a.TotalPages, a.Total = got.Result.Page, got.Result.TotalPage, got.Result.Total
	return a, nil
}

// finish adds the notice, and drops items from the end if the answer would otherwise be too large.
func finish[T any](ctx context.Context, s *service, a *answer[T]) error {
	at, err := time.Parse(time.RFC3339, a.Snapshot)
	if err != nil {
		a.remark("The service has not published a snapshot yet: ask again in ten minutes.")
		return nil
	}
	global, err := s.client.Global(ctx, marketdata.GlobalQuery{At: at})
	if errors.Is(err, marketdata.ErrSnapshotGone) { // files are kept longer than snapshots
		global, err = s.client.Global(ctx, marketdata.GlobalQuery{})
	}
	if err != nil {
		return err
	}
	a.Notice = global.Result.Notice
	bytes := 0
	for i, item := range a.Items {
		b, err := json.Marshal(item)
		if bytes += len(b); err != nil || bytes <= maxItems {
			continue
		}
		if i == 0 {
			return errors.New("one row alone is too large for an answer: ask for a shorter window, or for candles from and to nearer times")
		}
		a.remark("Only %d of the %d rows of this page fit into an answer. For all, ask with size %d for page 1, 2 and so on, with this snapshot.",
			i, len(a.Items), i)
		a.Items = a.Items[:i]
		break
	}
	return nil
}

// add adds a tool. choices lists the allowed values of those arguments that accept only a few.
func add[In, T any](server *mcp.Server, s *service, tool, title, description string, choices map[string][]any,
	call func(context.Context, In) (*answer[T], error)) {
	closed := false
	mcp.AddTool(server, &mcp.Tool{Name: tool, Title: title, Description: description, InputSchema: schema[In](choices),
		OutputSchema: schema[answer[T]](nil),
		Annotations:  &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &closed}},
		func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, *answer[T], error) {
			select {
			case places <- struct{}{}:
				defer func() { <-places }()
			default:
				return nil, nil, errors.New("too many calls run at the same time: ask again, one after the other")
			}
			ctx, cancel := context.WithTimeout(ctx, callTime)
			defer cancel()
			a, err := call(ctx, in)
			if err == nil {
				err = finish(ctx, s, a)
			}
			return nil, a, explain(err)
		})
}

// schema returns the schema of a tool's arguments or, if choices is nil, of its answer. Only arguments have
// bounds.
func schema[T any](choices map[string][]any) *jsonschema.Schema {
	row := func(item jsonschema.Schema) *jsonschema.Schema {
		return &jsonschema.Schema{Type: "array", Items: &item}
	}
	schema, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[moment]():            {Type: "string"},
		reflect.TypeFor[marketdata.Point]():  row(jsonschema.Schema{Type: "string"}),
		reflect.TypeFor[marketdata.Candle](): row(jsonschema.Schema{Types: []string{"null", "string"}}),
	}})
	if err != nil {
		panic("BUG: " + err.Error())
	}
	notNull(schema)
	if choices == nil {
		return schema
	}
	list, text := maxList, maxText
	for argument, p := range schema.Properties {
		if p.Type == "array" {
			p.MaxItems = &list
			p = p.Items
		}
		if p.Enum = choices[argument]; p.Type == "string" {
			p.MaxLength = &text
		}
	}
	return schema
}

// notNull removes null from the types of lists and objects, which are never null here.
func notNull(schema *jsonschema.Schema) {
	if schema == nil {
		return
	}
	if i := slices.IndexFunc(schema.Types, func(t string) bool { return t == "array" || t == "object" }); i >= 0 {
		schema.Type, schema.Types = schema.Types[i], nil
	}
	notNull(schema.Items)
	notNull(schema.AdditionalProperties)
	for _, p := range schema.Properties {
		notNull(p)
	}
}

// advice contains, for each status code, what an assistant can do about the error.
var advice = map[int]string{
	http.StatusBadRequest:      "the service refuses an argument: %s. Correct it and ask again",
	http.StatusUnauthorized:    "the service does not accept the API key of this server (%s). Do not ask again: the user must set MARKETDATA_KEY to a key in force and restart the server",
	http.StatusNotFound:        "the service does not have this: %s. It has not published a snapshot yet, or is older than this tool: tell the user",
	http.StatusGone:            "%s. Ask again without the argument snapshot, use the snapshot of the new answer from then on, and do not mix its figures with older ones",
	http.StatusTooManyRequests: "the rate limit of the key is used up: %s. Ask for less",
}

// explain rewrites an error so that it tells an assistant what to do.
func explain(err error) error {
	var api *marketdata.APIError
	switch {
	case errors.As(err, &api):
		text, known := advice[api.Status]
		if !known {
			text = "the service cannot answer now: %s. Ask again once, and tell the user if it fails again"
		}
		if text = fmt.Sprintf(text, api.Message); api.RetryAfter > 0 {
			text += fmt.Sprintf(". Wait %.0f seconds before that", api.RetryAfter.Seconds())
		}
		return errors.New(text)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fmt.Errorf("no answer came within %.0f seconds. Ask for less, or again later", callTime.Seconds())
	case errors.As(err, new(*marketdata.TransportError)):
		return fmt.Errorf("the service cannot be reached: %w. Ask again once; if that fails, the user must check MARKETDATA_URL and the network", err)
	}
	return err
}
