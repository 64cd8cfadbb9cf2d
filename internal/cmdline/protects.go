package cmdline

import (
	"os"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"
)

// emptyProtection refuses a flag with the tag protects that is given without a value: a variable
// that is set and empty is a mistake of a deployment, and must not turn protection off unnoticed.
func emptyProtection(parsed *kong.Context) error {
	for _, f := range parsed.Flags() {
		if !f.Set || !f.Tag.Has("protects") || !blank(f.Target) {
			continue
		}
		name := "--" + f.Name
		for _, variable := range f.Envs {
			if _, set := os.LookupEnv(variable); set {
				name += ", or " + variable + ","
			}
		}
		return Wrong("%s is empty: want a value, or leave it out to do without", name)
	}
	return nil
}

// blank reports whether a text, or each text of a list, is empty. A list may have none.
func blank(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return strings.TrimSpace(v.String()) == ""
	case reflect.Slice:
		for i := range v.Len() {
			if !blank(v.Index(i)) {
				return false
			}
		}
		return true
	}
	return v.IsZero()
}
