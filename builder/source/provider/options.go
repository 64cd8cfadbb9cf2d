package provider

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Options are the options in a source's name after the colon, such as ?cache=DIR&slow=20.
type Options struct {
	scheme string
	values url.Values
}

// ParseOptions parses rest, the part of a source's name after the colon. It accepts the options
// that all providers have, and those in extra, whose keys are the names of options and whose values
// are the forms of their values, such as N or DIR. If an option is invalid, the error lists all
// options.
func ParseOptions(scheme, rest string, extra map[string]string) (*Options, error) {
	taken := map[string]string{
		"base": "URL", "cache": "DIR", "plan": "NAME", "quota": "N|none", "rate": "N", "replay": "DIR", "slow": "N",
	}
	maps.Copy(taken, extra)
	query, found := strings.CutPrefix(rest, "?")
	values, err := url.ParseQuery(query)
	switch {
	case !found && rest != "":
		err = fmt.Errorf("unexpected %.80q", rest)
	case err != nil:
		err = fmt.Errorf("query %.80q: %w", query, err)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		_, known := taken[name]
		switch {
		case err != nil:
		case !known:
			err = fmt.Errorf("unknown option %.80q", name)
		case len(values[name]) > 1:
			err = fmt.Errorf("%s is given %d times", name, len(values[name]))
		case values.Get(name) == "":
			err = fmt.Errorf("%s is empty", name)
		case name != "replay" && values.Has("replay"):
			err = fmt.Errorf("%s has no effect with replay, which makes no calls", name)
		}
	}
	if err != nil {
		want := scheme + ":"
		for i, name := range slices.Sorted(maps.Keys(taken)) {
			want += map[bool]string{true: "?", false: "&"}[i == 0] + name + "=" + taken[name]
		}
		return nil, fmt.Errorf("%w; want %s, all optional", err, want)
	}
	return &Options{scheme, values}, nil
}

// Text returns the value of an option. If the option is not given, Text returns its second
// argument.
func (o *Options) Text(name, otherwise string) string {
	if o.values.Has(name) {
		return o.values.Get(name)
	}
	return otherwise
}

// Number returns the value of an option, which must be a whole number from minimum to maximum. If
// the option is not given, Number returns its second argument.
func (o *Options) Number(name string, otherwise, minimum, maximum int) (int, error) {
	if !o.values.Has(name) {
		return otherwise, nil
	}
	n, err := strconv.Atoi(o.values.Get(name))
	if err != nil || n < minimum || n > maximum {
		return 0, fmt.Errorf("%s=%.80s: want a whole number from %d to %d", name, o.values.Get(name), minimum, maximum)
	}
	return n, nil
}

// String returns the name of the source with all options.
func (o *Options) String() string {
	if len(o.values) == 0 {
		return o.scheme + ":"
	}
	return o.scheme + ":?" + o.values.Encode()
}
