// Package openapitest checks a running edge against the OpenAPI document. It provides a Checker
// for answers, and a small market to send requests to.
package openapitest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/openapi"
	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// Checker checks requests and answers against the document. It is safe for
// concurrent use.
type Checker struct {
	// Doc is the document with closed schemas: clients must accept unknown fields, but this service
	// must not send any.
	Doc *openapi3.T
}

// New returns a Checker for the current document, which it reads only once per process.
func New() (*Checker, error) { return checker() }

var checker = sync.OnceValues(func() (*Checker, error) {
	text, err := openapi.Document(openapi.Options{})
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	close(tree["components"].(map[string]any)["schemas"])
	if text, err = json.Marshal(tree); err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, fmt.Errorf("load the document: %w", err)
	}
	if err := doc.Validate(context.Background(), openapi3.DisableExamplesValidation()); err != nil {
		return nil, fmt.Errorf("the document is not valid: %w", err)
	}
	return &Checker{doc}, nil
})

// close makes every schema with properties reject other properties.
func close(node any) {
	switch node := node.(type) {
	case map[string]any:
		if _, ok := node["properties"].(map[string]any); ok && node["type"] == "object" {
			node["additionalProperties"] = false
		}
		for key, value := range node {
			if key != "examples" {
				close(value)
			}
		}
	case []any:
		for _, value := range node {
			close(value)
		}
	}
}

// Answer is a response whose body has been decoded.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// plain contains the names of general HTTP headers, which the document does not list.
var plain = []string{"Connection", "Content-Length", "Content-Type", "Date"}

// Check checks the answer to a request against the document: its status, every header and every
// field. target is the path and the query of the request.
func (c *Checker) Check(method, target string, a Answer) error {
	if method == http.MethodOptions {
		return nil // Browsers send OPTIONS; the document describes it only in prose.
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return err
	}
	operation, _ := c.Operation(u.Path)
	known := operation != nil && (method == http.MethodGet || method == http.MethodHead)
	var ref *openapi3.ResponseRef
	switch {
	case known:
		ref = operation.Responses.Status(a.Status)
	case a.Status == http.StatusNotFound && operation == nil,
		a.Status == http.StatusMethodNotAllowed && operation != nil:
		ref = c.Doc.Components.Responses["OtherError"]
	case operation == nil && (method == http.MethodGet || method == http.MethodHead):
		return fmt.Errorf("%s: %d at a path that the document does not have", target, a.Status)
	default:
		ref = c.Doc.Paths.Value("/openapi/v1/assets").Get.Responses.Status(a.Status)
	}
	if ref == nil {
		return fmt.Errorf("%s %s: the document has no answer of status %d", method, target, a.Status)
	}
	for name := range a.Header {
		if ref.Value.Headers[canonical(name)] == nil && !slices.Contains(plain, name) {
			return fmt.Errorf("%s %s: the document has no header %s on %d", method, target, name, a.Status)
		}
	}
	if err := c.validate(method, ref, a); err != nil {
		return fmt.Errorf("%s %s: %d: %w", method, target, a.Status, err)
	}
	return nil
}

// canonical returns the name of a header in the spelling of the document.
func canonical(name string) string {
	switch name {
	case "Etag":
		return "ETag"
	case "Ratelimit":
		return "RateLimit"
	case "Ratelimit-Policy":
		return "RateLimit-Policy"
	case "Www-Authenticate":
		return "WWW-Authenticate"
	}
	return name
}

// validate makes kin-openapi check the headers and the body. kin-openapi would check neither in a
// 304 or in an answer to HEAD, so validate presents these as the 200 answer to a GET request whose
// only response is ref.
func (c *Checker) validate(method string, ref *openapi3.ResponseRef, a Answer) error {
	bodiless := method == http.MethodHead || a.Status == http.StatusNotModified
	if bodiless && len(a.Body) > 0 {
		return errors.New("it has a body")
	}
	if kind := ref.Value.Content[a.Header.Get("Content-Type")]; kind != nil && kind.Schema == nil {
		bodiless = true // It is a file, whose bytes the document does not describe.
	}
	operation := &openapi3.Operation{Responses: openapi3.NewResponses(openapi3.WithStatus(http.StatusOK, ref))}
	return openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: &http.Request{Method: http.MethodGet},
			Route:   &routers.Route{Spec: c.Doc, Operation: operation},
		},
		Status: http.StatusOK, Header: a.Header, Body: io.NopCloser(bytes.NewReader(a.Body)),
		Options: &openapi3filter.Options{ExcludeResponseBody: bodiless, IncludeResponseStatus: true},
	})
}

// Valid returns an error if a GET request's parameters do not match the document.
func (c *Checker) Valid(target string, header http.Header) error {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return err
	}
	operation, time := c.Operation(u.Path)
	if operation == nil {
		return fmt.Errorf("%s: no such path", target)
	}
	return openapi3filter.ValidateRequest(context.Background(), &openapi3filter.RequestValidationInput{
		Request:    &http.Request{Method: http.MethodGet, URL: u, Header: header},
		PathParams: map[string]string{"time": time},
		Route: &routers.Route{Spec: c.Doc, PathItem: &openapi3.PathItem{Get: operation}, Operation: operation,
			Path: u.Path, Method: http.MethodGet},
		Options: &openapi3filter.Options{
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, SkipSettingDefaults: true},
	})
}

// timely matches what an edge parses as a time below /at/.
var timely = regexp.MustCompile(`^(\d{8}T\d{6}Z|\d{4}-\d\d-\d\d[Tt].*)$`)

// Operation returns the document's description of a path, or nil if it has none. For a path below
// /at/ it also returns the time in the path.
func (c *Checker) Operation(path string) (operation *openapi3.Operation, time string) {
	if below, ok := strings.CutPrefix(path, "/at/"); ok {
		var endpoint string
		time, endpoint, _ = strings.Cut(below, "/")
		if !timely.MatchString(time) {
			return nil, ""
		}
		path = "/at/{time}/" + endpoint
	}
	const files, prices = "/openapi/v1/files/", "prices/"
	if before, name, ok := strings.Cut(path, files); ok && name != "" && name != artifacts.FilesJSON {
		folder := ""
		if strings.HasPrefix(name, prices) {
			folder = prices
		}
		path = before + files + folder + "{name}"
	}
	if item := c.Doc.Paths.Value(path); item != nil {
		operation = item.Get
	}
	return operation, time
}
