package main

import "cmp"

// coded compares compressed pages with plain ones, both new and cached.
func coded(a, b *server, auth map[string]string, most int) (list []comparison) {
	const acceptEncoding = "Accept-Encoding"
	in := func(accept string, s *server, ask asker) load {
		return load{"edge, " + cmp.Or(accept, "plain"), s, ask,
			map[string]string{"X-Api-Key": auth["X-Api-Key"], acceptEncoding: accept}}
	}
	fresh, cached := pages(most, 5), always(quotes+"?page=3")
	for _, client := range []struct {
		name, accept string
		target       float64
	}{
		{"a new page for curl --compressed (zstd)", "deflate, gzip, br, zstd", 3},
		{"a new page for Chrome or Firefox (zstd)", "gzip, deflate, br, zstd", 3},
		{"a new page for Safari (gzip)", "gzip, deflate, br", 3.5},
		{"a new page for Python's requests (gzip)", "gzip, deflate", 3.5},
		{"a new page for Go (gzip)", "gzip", 3.5},
		{"a new page for Node's fetch (gzip)", "br, gzip, deflate", 3.5},
		{"a new page for a client that takes br alone", "br", 6},
	} {
		list = append(list, comparison{
			client.name + ", compared with a plain one", client.target, in(client.accept, a, fresh), in("", b, fresh)})
	}
	for _, name := range []string{"zstd", "gzip", "br"} {
		list = append(list,
			comparison{"a cached page in " + name + ", compared with a plain one", 0,
				in(name, a, cached), in("", b, cached)})
	}
	return list
}
