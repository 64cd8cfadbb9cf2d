package cmdline

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// writeHelp prints the help of a command: its own flags, in groups, and then the flags of every
// command. A command's "takes" tag lists the program's flags that apply to it. Without the tag,
// all of them do.
func (p Program) writeHelp(options kong.HelpOptions, ctx *kong.Context) error {
	root, node := ctx.Model.Node, ctx.Selected()
	if root.Leaf() {
		return kong.DefaultHelpPrinter(options, ctx)
	}
	if node == nil {
		node = root
	}
	own, every := []*kong.Flag{}, []*kong.Flag{}
	if node != root {
		own = node.Flags
	}
	for _, f := range root.Flags {
		switch {
		case f.Group == nil:
			f.Group = &kong.Group{Key: "every", Title: "Of every command:"}
			every = append(every, f)
		case !node.Tag.Has("takes") || slices.Contains(strings.Split(node.Tag.Get("takes"), ","), f.Name):
			own = append(own, f)
		}
	}
	place := func(f *kong.Flag) int {
		if f.Group == nil {
			return -1
		}
		return slices.Index(p.Groups, f.Group.Key)
	}
	slices.SortStableFunc(own, func(a, b *kong.Flag) int { return place(a) - place(b) })
	root.Flags, node.Flags = nil, append(own, every...)
	options.FlagsLast = root.DefaultCmd == nil // Otherwise they belong to the default command.
	return kong.DefaultHelpPrinter(options, ctx)
}

// describe assigns the texts of Help to the commands.
func (p Program) describe(root *kong.Node) {
	for section := range strings.SplitSeq("\n"+p.Help, "\n# ") {
		command, text, _ := strings.Cut(section, "\n")
		node := root
		for name := range strings.FieldsSeq(command) {
			i := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == name })
			if i < 0 {
				panic("BUG: help for " + command + ", which is not a command")
			}
			node = node.Children[i]
		}
		if node != root {
			node.Detail = strings.TrimSpace(text)
		}
	}
}
