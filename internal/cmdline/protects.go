package cmdline

import (
	"os"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"
)

// emptyProtection rejects a flag with the "protects" tag that is set to an empty value. A
// variable that is set but empty is a mistake in a deployment, and must not silently turn
// protection off.
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

// blank reports whether v is an empty string or a list of only empty strings, including an empty
// list.
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
