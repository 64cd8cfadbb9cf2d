package main

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"debug/macho"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/sassoftware/go-rpmutils"
)

const version = "1.2.3"

// sh runs a script, with args as $1 and so on, and returns its output.
func sh(t *testing.T, script string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(
		t.Context(), "bash", append([]string{"-euo", "pipefail", "-c", script, "bash"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// files returns the regular files in a folder, by path.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		all[path], err = os.ReadFile(filepath.Join(dir, path))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func same(t *testing.T, what string, got, want map[string][]byte) {
	t.Helper()
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: %s is in one only", what, name)
		}
	}
	for name, b := range want {
		if other, ok := got[name]; !ok || !bytes.Equal(other, b) {
			t.Errorf("%s: %s differs: %d and %d bytes", what, name, len(other), len(b))
		}
	}
}

// TestRelease makes a release of the current files twice, from two folders and in two environments.
// Both have the same bytes, and the files have the contents that they claim.
func TestRelease(t *testing.T) {
	commit := sh(t, `c=$(git -c user.name=t -c user.email=t@example.com stash create); echo "${c:-$(git rev-parse HEAD)}"`)
	out, again := filepath.Join(t.TempDir(), "dist"), filepath.Join(t.TempDir(), "elsewhere", "dist")
	here := []string{"linux/" + runtime.GOARCH}
	releaseTo := func(folder, out string, platforms []string) error {
		r := release{version: version, out: out, maintainer: "A. Uthor <a.uthor@project.test>",
			homepage: "https://project.test/"}
		return r.make(t.Context(), folder, commit, platforms)
	}
	if err := releaseTo(".", out, here); err != nil {
		t.Fatal(err)
	}
	clone := t.TempDir()
	sh(t, `git init --quiet "$2" && git -C "$2" fetch --quiet --depth=1 "file://$(git rev-parse --show-toplevel)" "$1"`, commit, clone)
	for name, value := range map[string]string{"TMPDIR": t.TempDir(), "TZ": "Pacific/Auckland",
		"GOFLAGS": "-tags=other", "GOAMD64": "v3", "GOARM64": "v9.0", "SOURCE_DATE_EPOCH": "1"} {
		t.Setenv(name, value)
	}
	umask := syscall.Umask(0o077)
	err := releaseTo(clone, again, here)
	syscall.Umask(umask)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "two builds", files(t, again), files(t, out))
	sh(t, `cd "$1" && sha256sum --check --strict SHA256SUMS && [ "$(ls | wc -l)" = "$(($(wc -l <SHA256SUMS) + 1))" ]`, out)

	archive := t.TempDir()
	sh(t, `tar -xzf "$1"/*.tar.gz -C "$2" --strip-components=1`, out, archive)
	for _, p := range programs {
		if got := sh(t, `"$1" --version`, filepath.Join(archive, p)); !strings.HasPrefix(
			got, p+" v"+version+" "+commit+" ") {
			t.Errorf("%s says that it is %s", p, got)
		}
	}
	t.Run("other platforms", func(t *testing.T) {
		others, dir := slices.DeleteFunc(slices.Clone(platforms), func(p string) bool { return p == here[0] }),
			t.TempDir()
		if err := releaseTo(".", dir, others); err != nil {
			t.Fatal(err)
		}
		testPlatforms(t, dir, others)
	})
	t.Run("bill of materials", func(t *testing.T) { testMaterials(t, out, archive) })
	rpm := t.TempDir()
	t.Run("rpm", func(t *testing.T) { testRPM(t, out, rpm) })
	t.Run("deb", func(t *testing.T) { testDeb(t, out, files(t, rpm)) })
	t.Run("completions", func(t *testing.T) { testCompletions(t, rpm, archive) })
	packed := files(t, rpm)
	for _, p := range programs {
		if !bytes.Equal(packed["usr/bin/"+p], files(t, archive)[p]) {
			t.Errorf("%s is not that of the archive", p)
		}
	}
	for _, unit := range []string{"builder", "edge", "edge@"} {
		text := packed["usr/lib/systemd/system/marketdata-"+unit+".service"]
		for _, m := range regexp.MustCompile(`(?m)^(?:ExecStart|EnvironmentFile)=/(\S+)`).FindAllSubmatch(text, -1) {
			if packed[string(m[1])] == nil {
				t.Errorf("the unit of %s names /%s, which is not packed", unit, m[1])
			}
		}
	}
}

// testPlatforms: archives and packages contain programs for the platform in their name, and the
// programs need nothing else from the platform.
func testPlatforms(t *testing.T, out string, platforms []string) {
	machines := map[string]any{"linux/amd64": elf.EM_X86_64, "linux/arm64": elf.EM_AARCH64,
		"darwin/amd64": macho.CpuAmd64, "darwin/arm64": macho.CpuArm64}
	for _, platform := range platforms {
		dir := t.TempDir()
		sh(t, `tar -xzf "$1"/*-"${2/\//-}".tar.gz -C "$3" --strip-components=1`, out, platform, dir)
		for _, p := range programs {
			var machine any
			libraries := []string{}
			if f, err := elf.Open(filepath.Join(dir, p)); err == nil {
				machine = f.Machine
				libraries, _ = f.ImportedLibraries()
				f.Close()
			} else if f, err := macho.Open(filepath.Join(dir, p)); err == nil {
				machine = f.Cpu
				f.Close()
			}
			if machine != machines[platform] || len(libraries) > 0 {
				t.Errorf("%s of %s is of %v, with %v", p, platform, machine, libraries)
			}
		}
		if goos, goarch, _ := strings.Cut(platform, "/"); goos == "linux" {
			rpm := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[goarch]
			sh(t, `[ -s "$1/marketdata-$3-1.$2.rpm" ] && [ "$(dpkg-deb --field "$1/marketdata_$3_$4.deb" Architecture)" = "$4" ]`, out, rpm, version,
				goarch)
		}
	}
}

// testCompletions: shells find the scripts in the folders below root where the packages install
// them, by the name of the program alone.
func testCompletions(t *testing.T, root, bin string) {
	for shell, script := range map[string]string{
		"bash": `source "$1/usr/share/bash-completion/completions/builder"; COMP_LINE='builder keys r' COMP_POINT=14; _builder; echo "${COMPREPLY[@]}"`,
		"zsh": `fpath=("$1/usr/share/zsh/site-functions" $fpath); autoload -Uz compinit; compinit -u -D
			_describe() { print -- "${(@)${(P@)2}%%:*}" }; words=(builder keys r) CURRENT=3; $_comps[builder]`,
		"fish": `set fish_complete_path $argv[1]/usr/share/fish/vendor_completions.d; complete -C 'builder keys r' | cut -f 1 | string join ' '`,
	} {
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("%s is not installed", shell)
			continue
		}
		args := map[string][]string{"bash": {"--norc", "-c", script, "bash"}, "zsh": {"-f", "-c", script, "zsh"},
			"fish": {"--no-config", "-c", script}}[shell]
		cmd := exec.CommandContext(t.Context(), shell, append(args, root)...)
		cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TERM=dumb"}
		b, err := cmd.CombinedOutput()
		offered := slices.Sorted(strings.FieldsSeq(string(b)))
		if strings.Join(offered, " ") != "restore revoke rotate" {
			t.Errorf("%s completes %q, %v", shell, b, err)
		}
	}
}

// testMaterials: the bill of materials is valid by its schema, and contains every module from which
// the programs were built.
func testMaterials(t *testing.T, out, archive string) {
	folder := sh(t, `go list -m -f '{{.Dir}}' github.com/CycloneDX/cyclonedx-go`)
	compiler := jsonschema.NewCompiler()
	for url, pattern := range map[string]string{"bom-1.6.schema.json": "bom-1.6.schema.json",
		"spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.*.json"} {
		matches, err := filepath.Glob(filepath.Join(folder, "schema", pattern))
		if err != nil || len(matches) != 1 {
			t.Fatal(pattern, matches, err)
		}
		b, err := os.ReadFile(matches[0])
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err == nil {
			err = compiler.AddResource("http://cyclonedx.org/schema/"+url, doc)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	schema, err := compiler.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(out, "marketdata-"+version+".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err == nil {
		err = schema.Validate(doc)
	}
	if err != nil {
		t.Error(err)
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(b), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	var urls []string
	for _, c := range *bom.Components {
		urls = append(urls, c.PackageURL)
	}
	notices, err := os.ReadFile(filepath.Join(archive, notices))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		info, err := buildinfo.ReadFile(filepath.Join(archive, p))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range info.Deps {
			if d.Replace == nil && (!slices.Contains(urls, "pkg:golang/"+d.Path+"@"+d.Version) ||
				!bytes.Contains(notices, []byte("==== "+d.Path+" "+d.Version+": "))) {
				t.Errorf("%s: %s %s is not in the bill, or not among the licences", p, d.Path, d.Version)
			}
		}
	}
	if !slices.ContainsFunc(urls, func(url string) bool { return strings.HasPrefix(url, "pkg:npm/uplot@") }) {
		t.Error("what the pages embed is not in the bill")
	}
}

// testRPM checks the rpm and extracts its files into dir.
func testRPM(t *testing.T, out, dir string) {
	matches, _ := filepath.Glob(filepath.Join(out, "*.rpm"))
	file, err := os.Open(matches[0])
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, _, err := rpmutils.Verify(file, nil); err != nil { // checks the digests; the package is not signed
		t.Error(err)
	}
	if _, err := file.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	rpm, err := rpmutils.ReadRpm(file)
	if err != nil {
		t.Fatal(err)
	}
	nevra, err := rpm.Header.GetNEVRA()
	if err != nil {
		t.Fatal(err)
	}
	if url, err := rpm.Header.GetString(rpmutils.URL); err != nil || url != "https://project.test/" {
		t.Errorf("homepage %q, %v", url, err)
	}
	if nevra.Name != "marketdata" || nevra.Version != version || nevra.Release != "1" {
		t.Errorf("%v", nevra)
	}
	infos, err := rpm.Header.GetFiles()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range infos {
		const kept = rpmutils.RPMFILE_CONFIG | rpmutils.RPMFILE_NOREPLACE
		if config := strings.HasSuffix(f.Name(), ".env"); config != (f.Flags()&kept == kept) ||
			config && f.Mode()&0o777 != 0o600 {
			t.Errorf("%s: flags %b, mode %o", f.Name(), f.Flags(), f.Mode())
		}
		if f.UserName() != "root" || f.GroupName() != "root" {
			t.Errorf("%s is %s's", f.Name(), f.UserName())
		}
	}
	if err := rpm.ExpandPayload(dir); err != nil {
		t.Fatal(err)
	}
}

// testDeb installs, upgrades, removes and purges the deb below a folder. The package has the same
// files as the rpm, and leaves edited files unchanged.
func testDeb(t *testing.T, out string, rpm map[string][]byte) {
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip(err)
	}
	matches, _ := filepath.Glob(filepath.Join(out, "*.deb"))
	deb, x := matches[0], t.TempDir()
	sh(t, `dpkg-deb --info "$1" | grep "Maintainer: A. Uthor <a.uthor@project.test>" && dpkg-deb --extract "$1" "$2"`, deb, x)
	// Debian's zsh looks in a different folder.
	want := map[string][]byte{}
	for name, b := range rpm {
		want[strings.Replace(name, "zsh/site-functions", "zsh/vendor-completions", 1)] = b
	}
	same(t, "deb and rpm", files(t, x), want)
	if os.Getuid() != 0 {
		t.Skip("dpkg installs as root only")
	}
	dpkg := func(args ...string) (left map[string][]byte) {
		sh(t, `mkdir -p "$1/var/lib/dpkg/"{info,updates,triggers} && touch "$1/var/lib/dpkg/status" && exec dpkg --root="$1" --force-depends --force-script-chrootless --log=/dev/null "${@:2}"`,
			append([]string{x}, args...)...)
		left = files(t, x)
		for name := range left {
			if strings.HasPrefix(name, "var/lib/dpkg/") {
				delete(left, name)
			}
		}
		return left
	}
	x = t.TempDir()
	same(t, "installed", dpkg("--install", deb), want)
	edited := []byte("EDGE_STORE='file:/srv/store'\n")
	if err := errors.Join(os.WriteFile(filepath.Join(x, "etc/marketdata/edge.env"), edited, 0o600),
		os.WriteFile(filepath.Join(x, "stays"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	next := filepath.Join(t.TempDir(), "next.deb")
	sh(t, `dpkg-deb --raw-extract "$1" "$3" && sed -i "s/^Version: .*/Version: 1.2.4/" "$3/DEBIAN/control" && echo "# new" >>"$3/etc/marketdata/edge.env" && dpkg-deb --build --root-owner-group -Znone "$3" "$2"`, deb, next, t.TempDir())
	if left := dpkg("--force-confold", "--install", next); !bytes.Equal(left["etc/marketdata/edge.env"], edited) {
		t.Errorf("an upgrade has overwritten what was edited: %s", left["etc/marketdata/edge.env"])
	}
	if left := dpkg("--remove", "marketdata"); left["usr/bin/edge"] != nil ||
		!bytes.Equal(left["etc/marketdata/edge.env"], edited) {
		t.Error("what is configuration stays when the package is removed, and nothing else")
	}
	for name := range dpkg("--purge", "marketdata") {
		if name != "stays" && !strings.HasSuffix(name, ".dpkg-dist") && !strings.HasSuffix(name, ".dpkg-new") {
			t.Errorf("%s is left", name)
		}
	}
}

// TestVersion: no release is made if the version is invalid.
func TestVersion(t *testing.T) {
	for _, bad := range []string{"", "v1.0.0", "1.0", "1.0.0+meta", "1.0.0 ", "../1.0.0"} {
		if err := (&release{version: bad, out: t.TempDir()}).make(t.Context(), ".", "HEAD", nil); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
}
