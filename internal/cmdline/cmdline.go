// Package cmdline is shared by the command lines of all programs. It provides exit statuses, common
// flags, values with units, a configuration file, shell completion and error messages.
package cmdline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"example.com/marketdata/internal/buildinfo"
	"example.com/marketdata/internal/logs"
	"example.com/marketdata/internal/secret"
	"example.com/marketdata/internal/suggest"
	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// Exit statuses of every program (COMMANDS.md, "Exit status"). A program may have others, which it
// returns as a [Status].
const (
	Done   = 0
	Failed = 1
	Usage  = 2
)

// Status is an exit status as an error, for programs that have already printed the reason. It is
// not an interface, because [exec.ExitError] would implement it, and the status of another program
// has no meaning here.
type Status int

func (s Status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// ErrUsage marks usage errors that the flag parser cannot detect.
var ErrUsage = errors.New("usage")

// Wrong returns a usage error; see ErrUsage.
func Wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUsage, fmt.Errorf(format, args...))
}

// Flags are the flags and the command that all programs have. Embed it in a command line.
type Flags struct {
	logs.Flags
	Config     configFile       `placeholder:"FILE" help:"YAML file with values of flags, by their names without dashes. Environment variables, named like this flag's ${env}, override it, and the command line overrides both."`
	Version    kong.VersionFlag `env:"-" help:"Print the version and exit."`
	Completion completion       `cmd:"" takes:"" help:"Print the script that completes commands, flags and values in a shell."`
}

// Program is a command line.
type Program struct {
	Name, Description string
	CLI               any // a struct as kong expects it, with or without Flags
	Vars              kong.Vars
	// Help contains the help texts of the commands. Each text follows a line with # and the
	// command.
	Help string
	// Groups contains the titles of the flag groups, in the order in which the help shows them. The
	// tag "group" assigns a flag to a group.
	Groups []string
	// Usage is an additional error that counts as wrong usage. It is for errors from the program's library.
	Usage error
	// Run runs the parsed command.
	Run func(ctx context.Context, parsed *kong.Context, log *slog.Logger) error
}

// Main runs the program as a process. The first SIGINT or SIGTERM asks it to stop, as does
// SIGHUP, unless nohup makes the process ignore it. A second signal kills it.
func (p Program) Main() {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop)
	os.Exit(p.Do(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Uninterrupted returns err, or nil if ctx is done: an interrupt is the normal end of a program
// that runs until it is stopped.
func Uninterrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Do parses the command line, runs the command and returns the exit status. The status is never
// Done if a write to out failed. For every other status, the reason is written to errout.
//
// The tag "daemon" marks a command that runs until it is stopped. Nobody needs to read errout while
// it runs: lines that do not fit into a [logs.Queue] are dropped.
func (p Program) Do(ctx context.Context, args []string, out, errout io.Writer) (status int) {
	stdout := &output{to: out, paint: PaintOn(out)}
	colours := PaintOn(errout)
	stderr := &output{to: errout, paint: colours}
	fail := func(err error) { fmt.Fprintln(stderr, colours.Red(p.Name+": "+logs.Text(err))) }
	var told error
	defer func() {
		if err := stdout.failed(); err != nil {
			if !errors.Is(told, err) {
				fail(fmt.Errorf("standard output: %w", err))
			}
			status = max(status, Failed)
		}
	}()
	parser, exited := p.parser(stdout, stderr)
	if len(args) > 0 && args[0] == completeWord {
		complete(stdout, parser.Model.Node, args[1:])
		return Done
	}
	if len(args) == 0 && len(parser.Model.Children) > 0 && parser.Model.DefaultCmd == nil {
		_, _ = parser.Parse([]string{"--help"})
		return Usage
	}
	args = wordsToFlags(parser.Model.Node, args)
	if slices.Contains(args, "--json") || os.Getenv(variable(p.Name, "json")) != "" {
		colours = Paint{} // A program reads the output.
	}
	parsed, err := parser.Parse(args)
	if *exited || stdout.failed() != nil { // --help or --version has printed its text.
		return Done
	}
	log := slog.New(slog.DiscardHandler)
	wrong := func(err error, at *kong.Context) int {
		fail(errors.New(mistake(err, at)))
		fmt.Fprintf(stderr, "Try: %s --help\n", strings.Join(append([]string{p.Name}, commandsOf(at)...), " "))
		return Usage
	}
	if err != nil {
		for _, u := range unknownVariables(parser.Model.Node, p.Name) {
			fail(u)
		}
		var at *kong.ParseError
		errors.As(err, &at)
		return wrong(err, at.Context)
	}
	if of, ok := p.CLI.(interface{ LogFlags() logs.Flags }); ok {
		flags := of.LogFlags()
		if node := parsed.Selected(); node != nil && node.Tag.Has("daemon") {
			queue := p.detach(flags, errout)
			defer queue.Close(lastWords)
			errout, stderr.to = queue, queue
		}
		log = flags.Logger(paintedLog{errout, colours})
		if flags.LogFormat == "json" {
			log = flags.Logger(errout)
			fail = func(err error) { log.Error("failed", "err", err) }
		}
	}
	p.warn(log, parsed, args)
	if err := emptyProtection(parsed); err != nil {
		return wrong(err, parsed)
	}
	secret.Log(log)
	parsed.BindTo(ctx, (*context.Context)(nil))
	var is Status
	told = p.Run(ctx, parsed, log)
	switch err = told; {
	case err == nil:
		return Done
	case errors.As(err, &is):
		return int(is)
	case errors.Is(err, ErrUsage), p.Usage != nil && errors.Is(err, p.Usage):
		return wrong(err, parsed)
	}
	fail(err)
	return Failed
}

// mistake describes what is wrong with a command line.
func mistake(err error, at *kong.Context) string {
	text := strings.TrimPrefix(err.Error(), ErrUsage.Error()+": ")
	if word, ok := strings.CutPrefix(text, "unexpected argument "); ok &&
		slices.ContainsFunc(at.Flags(), func(f *kong.Flag) bool { return f.Name == word }) {
		text += fmt.Sprintf(", did you mean \"--%s\"?", word)
	}
	return strings.Replace(text, `got "EOL" (<EOL>)`, "the line ends", 1)
}

// parser returns a kong parser. The parser sets exited after it has printed help or the version.
func (p Program) parser(stdout, stderr io.Writer) (_ *kong.Kong, exited *bool) {
	exited = new(bool)
	vars := kong.Vars{"version": buildinfo.Version(p.Name)}
	parser := kong.Must(
		p.CLI, kong.Name(p.Name), kong.Description(p.Description), kong.DefaultEnvars(prefix(p.Name)),
		kong.Writers(stdout, stderr), kong.Exit(func(int) { *exited = true }),
		kong.Help(p.printHelp), kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
		// Leave out the names of variables, because the description explains how they are formed.
		kong.ValueFormatter(func(v *kong.Value) string { return v.Help }),
		vars.CloneWith(p.Vars), kong.TypeMapper(reflect.TypeFor[netip.Prefix](), kong.MapperFunc(decodePrefix)),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(decodeDuration)))
	p.describe(parser.Model.Node)
	flagsBelow(parser.Model.Node, func(f *kong.Flag) {
		if name := formerName(f); name != "" {
			f.Aliases = append(f.Aliases, name)
			f.Envs = append(f.Envs, variable(p.Name, name))
			f.Tag.Envs = f.Envs
		}
	})
	return parser, exited
}

// lastWords is how long a daemon waits for its log to be written before it exits.
const lastWords = time.Second

// detach makes the process independent of the reader of its log. A write to a pipe without a reader
// is then an error that does not kill the process, and the process does not wait for a slow reader.
func (p Program) detach(flags logs.Flags, to io.Writer) *logs.Queue {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return logs.NewQueue(to, func(lost int) []byte {
		var line bytes.Buffer
		flags.Logger(&line).Warn("lines of this log were dropped because nobody read them", "lines", lost)
		return line.Bytes()
	})
}

// LogFlags returns the flags for logging.
func (f Flags) LogFlags() logs.Flags { return f.Flags }

// wordsToFlags replaces the word version, and the word help before or after a command, with the
// corresponding flags. "help all" also shows the hidden flags.
func wordsToFlags(app *kong.Node, args []string) []string {
	node := app
	if len(args) == 1 && args[0] == "version" {
		return []string{"--version"}
	}
	for i, arg := range args {
		if arg == "help" {
			last := i + 1
			if last < len(args) && args[last] == "all" {
				flagsBelow(app, func(f *kong.Flag) { f.Hidden = false })
				last++
			}
			return append(slices.Delete(slices.Clone(args), i, last), "--help")
		}
		at := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == arg })
		if at < 0 || len(node.Children[at].Positional) > 0 {
			break
		}
		node = node.Children[at]
	}
	return args
}

// commandsOf returns the names of the commands that were parsed before the error, if any.
func commandsOf(at *kong.Context) (names []string) {
	for _, step := range at.Path {
		if step.Command != nil && step.Command != at.Model.DefaultCmd {
			names = append(names, step.Command.Name)
		}
	}
	return names
}

// flagsBelow calls visit for each flag of a node and of the commands below it.
func flagsBelow(n *kong.Node, visit func(*kong.Flag)) {
	for _, f := range n.Flags {
		visit(f)
	}
	for _, child := range n.Children {
		flagsBelow(child, visit)
	}
}

// warn logs environment variables that no flag reads, and flags that were given by their former
// names.
func (p Program) warn(log *slog.Logger, parsed *kong.Context, args []string) {
	for _, u := range unknownVariables(parsed.Model.Node, p.Name) {
		log.Warn("unknown environment variable", "err", u)
	}
	configured := map[string]yaml.Node{}
	for _, f := range parsed.Flags() {
		if file, is := parsed.FlagValue(f).(configFile); is && file != "" {
			configured, _ = file.read() // An error would already have ended the parsing.
		}
	}
	for _, f := range parsed.Flags() {
		name := formerName(f)
		if name == "" {
			continue
		}
		given := slices.ContainsFunc(args, func(arg string) bool {
			flag, _, _ := strings.Cut(arg, "=")
			return flag == "--"+name
		})
		if _, there := configured[name]; given || there || os.Getenv(variable(p.Name, name)) != "" {
			log.Warn("a flag has a new name; the old one works until the next minor version", "old", name, "new", f.Name)
		}
	}
}

// formerName returns the previous name of a flag, from its tag former, or "" if it has none. The
// previous name works like the new one until the next minor version. An alias (tag aliases) is a
// permanent second name.
func formerName(f *kong.Flag) string { return f.Tag.Get("former") }

// prefix returns the prefix of a program's environment variables, without the "_".
func prefix(program string) string { return strings.ToUpper(strings.ReplaceAll(program, "-", "_")) }

// variable returns the name of a flag's environment variable.
func variable(program, flag string) string { return prefix(program + "-" + flag) }

// unknownVariables returns an error for each environment variable with the program's prefix that no
// flag reads.
func unknownVariables(app *kong.Node, name string) (unknown []error) {
	var known []string
	flagsBelow(app, func(f *kong.Flag) { known = append(known, f.Envs...) })
	for _, pair := range os.Environ() {
		variable, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(variable, prefix(name)+"_") && !slices.Contains(known, variable) {
			unknown = append(unknown, fmt.Errorf("%s does nothing%s", variable, didYouMean(variable, known)))
		}
	}
	slices.SortFunc(unknown, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return unknown
}

// didYouMean returns a suggestion with the nearest known word.
func didYouMean(word string, known []string) string {
	if len(known) == 0 {
		return ""
	}
	word = slices.MinFunc(known, func(a, b string) int { return suggest.Distance(word, a) - suggest.Distance(word, b) })
	return ", did you mean " + word + "?"
}
