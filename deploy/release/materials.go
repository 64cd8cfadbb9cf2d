package main

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/licensecheck"
	"github.com/google/uuid"
)

// notices is the file with the licenses of everything in the programs. Most licenses require a copy
// of their text.
const notices = "THIRD-PARTY-LICENSES"

// materials are the components of the programs, by package URL.
type materials struct {
	parts    map[string]*cdx.Component
	licenses map[string]string          // license texts, by package URL
	used     map[string]map[string]bool // package URLs, by program
}

func newMaterials() *materials {
	return &materials{
		parts: map[string]*cdx.Component{}, licenses: map[string]string{}, used: map[string]map[string]bool{}}
}

// part returns a component of a program. It adds the component if it is new.
func (m *materials) part(program, kind, name, version string) *cdx.Component {
	url := "pkg:" + kind + "/" + strings.Replace(name, "@", "%40", 1) + "@" + version
	if m.parts[url] == nil {
		m.parts[url] = &cdx.Component{
			BOMRef: url, PackageURL: url, Type: cdx.ComponentTypeLibrary, Name: name, Version: version}
	}
	if m.used[program] == nil {
		m.used[program] = map[string]bool{}
	}
	m.used[program][url] = true
	return m.parts[url]
}

// add adds the modules from which a program was built, according to its build information.
func (m *materials) add(program string, info *debug.BuildInfo) {
	m.part(program, "golang", "stdlib", strings.TrimPrefix(info.GoVersion, "go"))
	for _, d := range info.Deps {
		if d.Replace != nil {
			continue // It is replaced by one of our own folders.
		}
		p := m.part(program, "golang", d.Path, d.Version)
		// go.sum has the hash of the hashes of the module's files.
		if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(d.Sum, "h1:")); err == nil && len(sum) > 0 {
			p.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
		}
	}
}

// complete adds the packages that the edge's pages embed, and all licenses, whose texts it writes
// to the stage.
func (m *materials) complete(ctx context.Context, r *release) error {
	folders := map[string]string{}
	for _, module := range append(slices.Collect(maps.Values(modules)), ".") {
		list, err := output(ctx, filepath.Join(r.source, module), "env",
			append(r.environment(), "go", "list", "-m", "-f", "pkg:golang/{{.Path}}@{{.Version}} {{.Dir}}", "all")...)
		if err != nil {
			return err
		}
		for line := range strings.Lines(list) {
			if url, folder, ok := strings.Cut(strings.TrimSpace(line), " "); ok { // It has been downloaded.
				folders[url] = folder
			}
		}
	}
	var err error
	if folders["pkg:golang/stdlib@"+r.goVersion], err = output(
		ctx, r.source, "env", append(r.environment(), "go", "env", "GOROOT")...); err != nil {
		return err
	}
	web := filepath.Join(r.source, "edge/web")
	embeds, err := os.ReadFile(filepath.Join(web, "web.go"))
	if err != nil {
		return err
	}
	script, err := os.ReadFile(filepath.Join(web, "update.sh"))
	if err != nil {
		return err
	}
	for _, p := range regexp.MustCompile(`(?m)^take (\S+)@(\S+) (\w+) `).FindAllStringSubmatch(string(script), -1) {
		// Leave out packages that only tests use.
		if regexp.MustCompile(`(?m)^//go:embed.*\b` + p[3] + `\b`).Match(embeds) {
			folders[m.part("edge", "npm", p[1], p[2]).PackageURL] = filepath.Join(web, p[3])
		}
	}
	var all strings.Builder
	for _, url := range slices.Sorted(maps.Keys(m.parts)) {
		p := m.parts[url]
		// LICENSE, LICENCE, COPYING, NOTICE
		texts, err := filepath.Glob(filepath.Join(folders[url], "[LCN][IO][CPT][EYI]*"))
		if err != nil {
			return err
		}
		var found cdx.Licenses
		for _, file := range texts {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			fmt.Fprintf(&all, "==== %s %s: %s\n\n%s\n\n", p.Name, p.Version, filepath.Base(file),
				strings.TrimSpace(string(text)))
			for _, match := range licensecheck.Scan(text).Match {
				if !match.IsURL &&
					!slices.ContainsFunc(found, func(c cdx.LicenseChoice) bool { return c.License.ID == match.ID }) {
					found = append(found, cdx.LicenseChoice{License: &cdx.License{ID: match.ID}})
				}
			}
		}
		if found == nil {
			return fmt.Errorf("%s %s: no licence in %q", p.Name, p.Version, folders[url])
		}
		p.Licenses = &found
	}
	stages, err := filepath.Glob(filepath.Join(r.stage, "*"))
	if err != nil {
		return err
	}
	for _, dir := range stages {
		if err := os.WriteFile(filepath.Join(dir, notices), []byte(all.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// write writes the bill of materials in the form of CycloneDX.
func (m *materials) write(r *release) (err error) {
	own := func(kind cdx.ComponentType, name string) cdx.Component {
		url := "pkg:generic/" + name + "@" + r.version
		return cdx.Component{BOMRef: url, PackageURL: url, Type: kind, Name: name, Version: r.version,
			Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}}
	}
	whole := own(cdx.ComponentTypeApplication, "marketdata")
	var (
		components   []cdx.Component
		dependencies []cdx.Dependency
		parts        []string
	)
	for _, name := range programs {
		program := own(cdx.ComponentTypeApplication, name)
		uses := slices.Sorted(maps.Keys(m.used[name]))
		components, parts = append(components, program), append(parts, program.BOMRef)
		dependencies = append(dependencies, cdx.Dependency{Ref: program.BOMRef, Dependencies: &uses})
	}
	dependencies = append(dependencies, cdx.Dependency{Ref: whole.BOMRef, Dependencies: &parts})
	for _, url := range slices.Sorted(maps.Keys(m.parts)) {
		components = append(components, *m.parts[url])
	}
	bom := cdx.NewBOM()
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, []byte(whole.PackageURL+"#"+r.commit)).URN()
	bom.Metadata = &cdx.Metadata{Timestamp: r.committed.Format(time.RFC3339), Component: &whole}
	bom.Components, bom.Dependencies = &components, &dependencies
	file, err := os.Create(filepath.Join(r.out, fmt.Sprintf("marketdata-%s.cdx.json", r.version)))
	if err != nil {
		return err
	}
	// Not all tools read the newest version yet.
	err = cdx.NewBOMEncoder(file, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}
