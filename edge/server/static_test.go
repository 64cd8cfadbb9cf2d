package server

import "testing"

func TestStaticCodings(t *testing.T) {
	_, addr := start(t, func(cfg *Config) {
		cfg.Static = map[string]StaticFile{
			"/both":  {Body: []byte("plain"), Brotli: []byte("in br"), Gzip: []byte("in gzip"), ContentType: "text/css"},
			"/plain": {Body: []byte("plain"), ContentType: "text/css"},
		}
	})
	plain := ask(t, addr, "GET", "/both").Header.Get("ETag")
	tag := plain[:len(plain)-1]
	for list, want := range map[string]string{
		"": "", "gzip": "gzip", "br": "br", "gzip, deflate, br, zstd": "br", "GZIP": "gzip", "*": "gzip", "*, br;q=0.5": "br", "gzip;q=0, *": "", "*;q=0": "", "br;q=0, gzip;q=0.1": "gzip",
		"br;q=0,*": "gzip", "gzip;q=0.000": "", "gzip ; q=1": "gzip", "identity": "", "deflate": "", "gzip;q=0, br ;q=0.0": "", "brr": "",
	} {
		a := ask(t, addr, "GET", "/both", "Accept-Encoding: "+list)
		body, etag := "plain", plain
		if want != "" {
			body, etag = "in "+want, tag+"-"+want+`"`
		}
		if a.StatusCode != 200 || a.body != body || a.Header.Get("Content-Encoding") != want || a.Header.Get("ETag") != etag ||
			a.Header.Get("Vary") != "Accept-Encoding" || a.Header.Get("Content-Type") != "text/css" {
			t.Errorf("Accept-Encoding %q: %d %q with %v", list, a.StatusCode, a.body, a.Header)
		}
		if a := ask(t, addr, "GET", "/plain", "Accept-Encoding: "+list); a.body != "plain" || a.Header.Get("Content-Encoding") != "" || a.Header.Get("Vary") != "" {
			t.Errorf("one coding, Accept-Encoding %q: %q with %v", list, a.body, a.Header)
		}
		for _, known := range []string{plain, tag + `-br"`, tag + `-gzip"`} {
			a := ask(t, addr, "GET", "/both", "Accept-Encoding: "+list, "If-None-Match: "+known)
			if a.StatusCode != 304 || a.body != "" || a.Header.Get("ETag") != etag || a.Header.Get("Content-Encoding") != "" || a.Header.Get("Vary") != "Accept-Encoding" {
				t.Errorf("Accept-Encoding %q, If-None-Match %s: %d %q with %v", list, known, a.StatusCode, a.body, a.Header)
			}
		}
	}
}
