// Package cmdline is what the command lines of all programs share: exit
// statuses, the flags that each has, values with units, a configuration file,
// completion, and what is said when something is wrong.
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

// Exit statuses that every program has (COMMANDS.md, "Exit status"); a program may
// have more, by returning a [Status].
const (
	Done   = 0
	Failed = 1
	Usage  = 2
)

// Status is an exit status as an error, for a program that has printed the reason itself. It is not
// an interface, because [exec.ExitError] would implement it, and another program's status has no
// meaning here.
type Status int

func (s Status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// ErrUsage marks wrong usage that the parser of flags did not find.
var ErrUsage = errors.New("usage")

// Wrong returns an error that is wrong usage.
func Wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUsage, fmt.Errorf(format, args...))
}

// Flags are those of every program, and the command that all have; embed them.
type Flags struct {
	logs.Flags
	Config     configFile       `placeholder:"FILE" help:"YAML file with values of flags, by their names without dashes. Environment variables, named like this flag's ${env}, override it, and the command line overrides both."`
	Version    kong.VersionFlag `env:"-" help:"Print the version and exit."`
	Completion completion       `cmd:"" takes:"" help:"Print the script that completes commands, flags and values in a shell."`
}

// Program is a command line.
type Program struct {
	Name, Description string
	CLI               any // as kong has it, with or without Flags
	Vars              kong.Vars
	// Help has the text of each command's help under a line with # and the command.
	Help string
	// Groups are the titles of groups of flags, in the order in which help has
	// them; the tag group puts a flag into one.
	Groups []string
	// Usage is another error that means wrong usage: the library's own.
	Usage error
	// Run runs the command that was parsed.
	Run func(ctx context.Context, parsed *kong.Context, log *slog.Logger) error
}

// Main runs the program as a process: SIGINT, SIGTERM, and SIGHUP unless nohup has it ignored, ask it
// to stop, a second one ends it.
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
// that runs until then.
func Uninterrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Do parses the command line, runs its command, and returns the exit status, which is never Done if
// something could not be written to out. For each status other than 0 the reason is on errout.
//
// The command's tag daemon is for one that runs until it is stopped: then nobody has to read errout,
// and the lines that do not fit into a [logs.Queue] are dropped.
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
		colours = Paint{} // programs read it
	}
	parsed, err := parser.Parse(args)
	if *exited || stdout.failed() != nil { // by --help or --version, which have printed their text
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

// mistake says what was wrong with a command line.
func mistake(err error, at *kong.Context) string {
	text := strings.TrimPrefix(err.Error(), ErrUsage.Error()+": ")
	if word, ok := strings.CutPrefix(text, "unexpected argument "); ok &&
		slices.ContainsFunc(at.Flags(), func(f *kong.Flag) bool { return f.Name == word }) {
		text += fmt.Sprintf(", did you mean \"--%s\"?", word)
	}
	return strings.Replace(text, `got "EOL" (<EOL>)`, "the line ends", 1)
}

// parser returns kong's, which sets exited when it has done what was asked.
func (p Program) parser(stdout, stderr io.Writer) (_ *kong.Kong, exited *bool) {
	exited = new(bool)
	vars := kong.Vars{"version": buildinfo.Version(p.Name)}
	parser := kong.Must(
		p.CLI, kong.Name(p.Name), kong.Description(p.Description), kong.DefaultEnvars(prefix(p.Name)),
		kong.Writers(stdout, stderr), kong.Exit(func(int) { *exited = true }),
		kong.Help(p.printHelp), kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
		// without the variable, of which the description says how all are named
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

// lastWords is how long the end of a daemon waits for its log to be read.
const lastWords = time.Second

// detach makes the process independent of whoever reads its log: writing to a pipe without a reader is
// an error and does not end it, and nothing waits for a slow one.
func (p Program) detach(flags logs.Flags, to io.Writer) *logs.Queue {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return logs.NewQueue(to, func(lost int) []byte {
		var line bytes.Buffer
		flags.Logger(&line).Warn("lines of this log were dropped, since nobody took them", "lines", lost)
		return line.Bytes()
	})
}

// LogFlags returns the log's flags.
func (f Flags) LogFlags() logs.Flags { return f.Flags }

// wordsToFlags replaces the word version, and help where a command may stand or after one, by the flags.
// After "help all", help shows the hidden flags, too.
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

// commandsOf names the command that was parsed, as far as it got.
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

// warn logs environment variables that do nothing, and flags that were given by their former names.
func (p Program) warn(log *slog.Logger, parsed *kong.Context, args []string) {
	for _, u := range unknownVariables(parsed.Model.Node, p.Name) {
		log.Warn("unknown environment variable", "err", u)
	}
	configured := map[string]yaml.Node{}
	for _, f := range parsed.Flags() {
		if file, is := parsed.FlagValue(f).(configFile); is && file != "" {
			configured, _ = file.read() // an error would have ended the parsing
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

// formerName returns the name that a flag had before, by its tag former; "" means that it had no other. The
// former name works like the new one. An alias (the tag aliases) is a second name that stays.
func formerName(f *kong.Flag) string { return f.Tag.Get("former") }

// prefix is what the environment variables of a program begin with, without a "_".
func prefix(program string) string { return strings.ToUpper(strings.ReplaceAll(program, "-", "_")) }

// variable returns the environment variable of a flag.
func variable(program, flag string) string { return prefix(program + "-" + flag) }

// unknownVariables returns the environment variables with the program's prefix that no flag reads.
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

// didYouMean names the nearest known word.
func didYouMean(word string, known []string) string {
	if len(known) == 0 {
		return ""
	}
	word = slices.MinFunc(known, func(a, b string) int { return suggest.Distance(word, a) - suggest.Distance(word, b) })
	return ", did you mean " + word + "?"
}
