// Command release makes the files of a release: an archive for each platform, deb and rpm packages,
// a bill of materials and checksums.
//
//	release [-out FOLDER] [-platforms OS/ARCH,…] [-maintainer NAME] [-homepage URL] VERSION
//
// It builds a commit in a new repository, in which only this commit exists and has the version's
// tag. So neither the working folder, nor uncommitted changes, nor other tags affect the files. All
// times in the files are the time of the commit. Therefore the same commit, version, maintainer and
// homepage give the same bytes on every machine.
//
// It is a separate module, so that packaging libraries do not appear in the project's go.sum.
package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	programs = []string{"builder", "edge", "loadtest", "marketdata-mcp"}
	// modules maps the names of programs that are separate modules to their folders.
	modules   = map[string]string{"marketdata-mcp": "edge/openapi/clients/mcp"}
	platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}
)

// Defaults of the flags -maintainer and -homepage.
const (
	nobody  = "Nobody <nobody@example.com>"
	nowhere = "https://example.com/marketdata"
)

func main() {
	var r release
	flag.StringVar(&r.out, "out", "dist", "`folder` of the release's files, new or empty")
	flag.StringVar(&r.maintainer, "maintainer", nobody, "whom packages name, as NAME <ADDRESS>")
	flag.StringVar(&r.homepage, "homepage", nowhere, "where packages point")
	all := flag.String("platforms", strings.Join(platforms, ","), "what to build for")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: release [flags] VERSION\n\nVERSION is without v, such as 1.1.0 or 1.1.0-rc.1.")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if r.maintainer == nobody || r.homepage == nowhere {
		fmt.Fprintf(os.Stderr, "release: packages will name %s and %s: for others than yourself give MAINTAINER='NAME <ADDRESS>' and HOMEPAGE=URL\n",
			r.maintainer, r.homepage)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r.version = flag.Arg(0)
	if err := r.make(ctx, ".", "HEAD", strings.Split(*all, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is a release that is being made.
type release struct {
	version              string // without the v
	maintainer, homepage string // for packages
	out                  string // folder for the release's files

	commit    string
	committed time.Time // the time of every file
	source    string    // folder with the commit's files
	stage     string    // folder with the content of archives and packages
	goVersion string    // from go.mod, such as 1.26.8
}

// make makes a release of a commit in the repository that contains folder.
func (r *release) make(ctx context.Context, folder, commit string, platforms []string) (err error) {
	if !regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`).MatchString(r.version) {
		return fmt.Errorf("%q is not a version: want MAJOR.MINOR.PATCH, without v", r.version)
	}
	work, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	r.source, r.stage = filepath.Join(work, "source"), filepath.Join(work, "stage")
	if err := errors.Join(os.MkdirAll(r.out, 0o755), os.Mkdir(r.stage, 0o755)); err != nil {
		return err
	}
	if entries, err := os.ReadDir(r.out); err != nil || len(entries) > 0 {
		return errors.Join(err, fmt.Errorf("%s has files already", r.out))
	}
	if err := r.checkOut(ctx, folder, commit); err != nil {
		return err
	}
	here := filepath.Join(r.stage, r.name(runtime.GOOS, runtime.GOARCH)) // programs for this platform
	if !slices.Contains(platforms, runtime.GOOS+"/"+runtime.GOARCH) {
		here = filepath.Join(work, "here")
		if err := r.compile(ctx, here, runtime.GOOS, runtime.GOARCH); err != nil {
			return err
		}
	}
	parts := newMaterials()
	for _, platform := range platforms {
		goos, goarch, _ := strings.Cut(platform, "/")
		if err := r.build(ctx, goos, goarch, parts); err != nil {
			return err
		}
	}
	if err := parts.complete(ctx, r); err != nil {
		return err
	}
	for _, platform := range platforms {
		goos, goarch, _ := strings.Cut(platform, "/")
		if err := completions(ctx, here, filepath.Join(r.stage, r.name(goos, goarch), "completions")); err != nil {
			return err
		}
		if err := r.archive(r.name(goos, goarch)); err != nil {
			return err
		}
		if goos == "linux" {
			if err := r.packages(goarch); err != nil {
				return err
			}
		}
	}
	if err := parts.write(r); err != nil {
		return err
	}
	return r.checksums()
}

// name returns the name of a platform's archive and of the folder in it.
func (r *release) name(goos, goarch string) string {
	return fmt.Sprintf("marketdata-%s-%s-%s", r.version, goos, goarch)
}

// checkOut fetches the commit into a repository that contains nothing else.
func (r *release) checkOut(ctx context.Context, folder, commit string) error {
	root, err := output(
		ctx, folder, "git", "rev-parse", "--path-format=absolute", "--show-toplevel", commit+"^{commit}")
	if err != nil {
		return err
	}
	root, r.commit, _ = strings.Cut(root, "\n")
	for _, args := range [][]string{
		{"init", "--quiet", r.source},
		{"-C", r.source, "fetch", "--quiet", "--depth=1", "file://" + root, r.commit},
		{"-C", r.source, "-c", "core.autocrlf=false", "checkout", "--quiet", "--detach", r.commit},
		{"-C", r.source, "tag", "v" + r.version},
		{"-C", r.source, "tag", modules["marketdata-mcp"] + "/v" + r.version},
	} {
		if _, err := output(ctx, ".", "git", args...); err != nil {
			return err
		}
	}
	seconds, err := output(ctx, r.source, "git", "show", "--no-patch", "--format=%ct", r.commit)
	if err != nil {
		return err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return err
	}
	r.committed = time.Unix(unix, 0).UTC()
	gomod, err := os.ReadFile(filepath.Join(r.source, "go.mod"))
	if err != nil {
		return err
	}
	m := regexp.MustCompile(`(?m)^go (\S+)$`).FindSubmatch(gomod)
	if m == nil {
		return errors.New("go.mod names no version of Go")
	}
	r.goVersion = string(m[1])
	return nil
}

// build puts the programs of a platform and their companion files into the stage.
func (r *release) build(ctx context.Context, goos, goarch string, parts *materials) error {
	dir := filepath.Join(r.stage, r.name(goos, goarch))
	if err := r.compile(ctx, dir, goos, goarch); err != nil {
		return err
	}
	for _, p := range programs {
		info, err := buildinfo.ReadFile(filepath.Join(dir, p))
		if err != nil {
			return err
		}
		if info.Main.Version != "v"+r.version || info.GoVersion != "go"+r.goVersion {
			return fmt.Errorf("%s says that it is %s of %s", p, info.Main.Version, info.GoVersion)
		}
		parts.add(p, info)
	}
	for _, file := range []string{"README.md", "LICENSE", "CHANGELOG.md", "COMPATIBILITY.md"} {
		if err := copyFile(filepath.Join(dir, file), filepath.Join(r.source, file)); err != nil {
			return err
		}
	}
	if goos != "linux" {
		return nil
	}
	for _, folder := range []string{"systemd", "caddy"} {
		from := os.DirFS(filepath.Join(r.source, "deploy", folder))
		if err := os.CopyFS(filepath.Join(dir, folder), from); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) compile(ctx context.Context, dir, goos, goarch string) error {
	for _, p := range programs {
		source := "./" + p + "/cmd/" + p
		if modules[p] != "" {
			source = "."
		}
		args := append(r.environment(), "GOOS="+goos, "GOARCH="+goarch, "go", "build", "-trimpath", "-buildvcs=true",
			"-ldflags=-s -w", "-o", filepath.Join(dir, p), source)
		if _, err := output(ctx, filepath.Join(r.source, modules[p]), "env", args...); err != nil {
			return err
		}
	}
	return nil
}

// completions writes the completion scripts that the programs in bin print to a folder.
func completions(ctx context.Context, bin, folder string) error {
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	for _, p := range programs {
		for shell, name := range map[string]string{"bash": p + ".bash", "zsh": "_" + p, "fish": p + ".fish"} {
			script, err := output(ctx, ".", filepath.Join(bin, p), "completion", shell)
			if err == nil {
				err = os.WriteFile(filepath.Join(folder, name), []byte(script+"\n"), 0o644)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// environment returns the environment variables that affect a build, in the form that the env
// command accepts: the version of Go from go.mod, and the default for everything else.
func (r *release) environment() []string {
	return []string{"GOTOOLCHAIN=go" + r.goVersion, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=",
		"GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off"}
}

// archive packs a folder in the stage.
func (r *release) archive(name string) (err error) {
	file, err := os.Create(filepath.Join(r.out, name+".tar.gz"))
	if err != nil {
		return err
	}
	zip := gzip.NewWriter(file)
	w := tar.NewWriter(zip)
	err = filepath.WalkDir(filepath.Join(r.stage, name), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(r.stage, path)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: filepath.ToSlash(inside), Mode: 0o644, ModTime: r.committed, Uname: "root",
			Gname: "root", Format: tar.FormatUSTAR}
		if d.IsDir() {
			header.Typeflag, header.Name, header.Mode = tar.TypeDir, header.Name+"/", 0o755
			return w.WriteHeader(header)
		}
		if slices.Contains(programs, d.Name()) {
			header.Mode = 0o755
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		header.Size = int64(len(b))
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	})
	return errors.Join(err, w.Close(), zip.Close(), file.Close())
}

// checksums writes SHA256SUMS in the form that sha256sum -c reads.
func (r *release) checksums() error {
	files, err := filepath.Glob(filepath.Join(r.out, "*")) // sorted
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(b), filepath.Base(file))
	}
	fmt.Print(sums.String())
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(sums.String()), 0o644)
}

func copyFile(to, from string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}

// output runs a program in a folder and returns its output without trailing white space.
func output(ctx context.Context, folder, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = folder
	var errs strings.Builder
	cmd.Stderr = &errs
	b, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, errs.String())
	}
	return strings.TrimSpace(string(b)), nil
}
