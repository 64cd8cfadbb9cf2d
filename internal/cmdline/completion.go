package cmdline

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// completeWord as the first argument asks the program to complete its last argument.
const completeWord = "__complete"

// The scripts pass the words before the cursor to the program, and let the shell complete files if
// the program prints nothing. NAME is the program's name.
var scripts = map[string]string{
	"bash": `_NAME() {
  local line=${COMP_LINE:0:COMP_POINT} cur words IFS=$' \t\n'
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=('')
  cur=${words[-1]} IFS=$'\n'
  COMPREPLY=($("${words[0]}" __complete "${words[@]:1}" 2>/dev/null | cut -f 1))
  # Readline replaces what is behind an = only.
  [[ $cur == --*=* ]] && COMPREPLY=("${COMPREPLY[@]#"${cur%%=*}="}")
}
complete -o bashdefault -o default -F _NAME NAME
`,
	"zsh": `#compdef NAME
_NAME() {
  local -a found
  found=(${(f)"$($words[1] __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( $#found )); then
    found=("${(@)found/$'\t'/:}")
    _describe NAME found
  else
    _files
  fi
}
# Loaded from fpath by its first use, it is that use.
if [[ $funcstack[1] == _NAME ]]; then _NAME "$@"; else compdef _NAME NAME; fi
`,
	"fish": `function __NAME_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l found ($words[1] __complete $words[2..] 2>/dev/null)
  if test (count $found) -gt 0
    printf '%s\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c NAME -f -a '(__NAME_complete)'
`,
}

type completion struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help implements the interface through which kong reads the help of a command.
func (completion) Help() string {
	return `Examples with builder, as with edge and loadtest; the first two last until the shell ends:

    source <(builder completion bash)
    source <(builder completion zsh)
    builder completion fish >~/.config/fish/completions/builder.fish

For all users, where deb and rpm have them: /usr/share/bash-completion/completions/builder, _builder in a folder of zsh's fpath, and /usr/share/fish/vendor_completions.d/builder.fish.`
}

// Run implements the command. Kong calls it.
func (c *completion) Run(k *kong.Kong) error {
	_, err := io.WriteString(k.Stdout, strings.ReplaceAll(scripts[c.Shell], "NAME", k.Model.Name))
	return err
}

// complete prints the completions of the last word, one per line, each followed by a tab and a
// description. If it prints nothing, the shell completes file names.
func complete(w io.Writer, node *kong.Node, words []string) {
	if len(words) == 0 {
		words = []string{""}
	}
	flags := slices.Clone(node.Flags)
	var valued *kong.Flag // the flag whose value comes next
	for _, word := range words[:len(words)-1] {
		if valued != nil {
			valued = nil
			continue
		}
		if name, is := strings.CutPrefix(word, "--"); is {
			if i := slices.IndexFunc(flags, func(f *kong.Flag) bool { return f.Name == name }); i >= 0 &&
				!flags[i].IsBool() {
				valued = flags[i]
			}
		} else if i := slices.IndexFunc(node.Children, func(c *kong.Node) bool { return c.Name == word }); i >= 0 {
			node = node.Children[i]
			flags = append(flags, node.Flags...)
		}
	}
	last := words[len(words)-1]
	offer := func(text, what string) {
		if strings.HasPrefix(text, last) {
			what, _, _ = strings.Cut(what, "\n")
			fmt.Fprintf(w, "%s\t%s\n", text, what)
		}
	}
	values := func(before string, v *kong.Value) {
		for _, text := range v.EnumSlice() {
			if text != "" {
				offer(before+text, "")
			}
		}
	}
	name, _, assigned := strings.Cut(last, "=")
	switch {
	case valued != nil:
		values("", valued.Value)
	case strings.HasPrefix(last, "-"):
		for _, f := range flags {
			switch {
			case assigned && "--"+f.Name == name:
				values(name+"=", f.Value)
			case !assigned && !f.Hidden:
				offer("--"+f.Name, f.Help)
			}
		}
	default:
		for _, child := range node.Children {
			if !child.Hidden {
				offer(child.Name, child.Help)
			}
		}
		for _, p := range node.Positional {
			values("", p)
		}
	}
}
