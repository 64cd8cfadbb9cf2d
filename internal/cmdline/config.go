package cmdline

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// configFile is the value of the flag that names a configuration file.
type configFile string

// BeforeResolve is called by kong when the flag or its variable is set.
func (configFile) BeforeResolve(ctx *kong.Context, trace *kong.Path) error {
	file := ctx.FlagValue(trace.Flag).(configFile)
	values, err := file.read()
	if err == nil {
		ctx.AddResolver(config{string(file), values})
	}
	return err
}

// read returns the values in the file, by the names of their flags.
func (f configFile) read() (values map[string]yaml.Node, err error) {
	b, err := os.ReadFile(string(f))
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	if err := yaml.Unmarshal(b, &values); err != nil {
		return nil, fmt.Errorf(
			"--config %s: %s; want lines such as log-level: debug", f, quoted.ReplaceAllString(err.Error(), "…"))
	}
	return values, nil
}

// quoted matches the parts of an error that quote the file. It may be the wrong file, and contain
// secrets.
var quoted = regexp.MustCompile("(?s)[`\"'].*[`\"']")

// config is a kong.Resolver for the values of a configuration file.
type config struct {
	file   string
	values map[string]yaml.Node
}

// Validate implements kong.Resolver. It rejects names that are not flags of any command.
func (c config) Validate(app *kong.Application) error {
	known := []string{}
	flagsBelow(app.Node, func(f *kong.Flag) {
		if f.Name != "help" && f.Name != "version" && f.Name != "config" {
			known = append(known, f.Name)
			if name := formerName(f); name != "" {
				known = append(known, name)
			}
		}
	})
	for name, value := range c.values {
		if !slices.Contains(known, name) {
			return fmt.Errorf(
				"--config %s: line %d: there is no flag of that name%s", c.file, value.Line, didYouMean(name, known))
		}
	}
	return nil
}

// Resolve implements kong.Resolver. A YAML list gives the values of a flag that can be repeated.
// All other values are written as on the command line.
func (c config) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	node, there := c.values[flag.Name]
	if name := formerName(flag); !there && name != "" {
		node, there = c.values[name]
	}
	for _, variable := range flag.Envs {
		if _, set := os.LookupEnv(variable); set || !there {
			return nil, nil
		}
	}
	var value any
	switch {
	case !there:
		return nil, nil
	case node.Kind == yaml.ScalarNode && node.Tag != "!!null":
		value = node.Value
	case node.Kind == yaml.SequenceNode && flag.IsSlice():
		list := []any{}
		for _, item := range node.Content {
			list = append(list, item.Value)
		}
		value = list
	default:
		return nil, fmt.Errorf("--config %s: line %d: want a value as on the command line", c.file, node.Line)
	}
	// Parse the value here, where the file and the line are known.
	if err := flag.Parse(
		kong.Scan().PushTyped(value, kong.FlagValueToken), reflect.New(flag.Target.Type()).Elem()); err != nil {
		// The caller adds the name of the flag.
		return nil, fmt.Errorf(
			"%s (--config %s, line %d)", strings.TrimPrefix(err.Error(), flag.ShortSummary()+": "), c.file, node.Line)
	}
	return value, nil
}
