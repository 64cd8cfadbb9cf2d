package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// packages makes deb and rpm packages of the Linux programs in the stage.
func (r *release) packages(goarch string) error {
	stage := filepath.Join(r.stage, r.name("linux", goarch))
	units := filepath.Join(r.stage, "units-"+goarch)
	if err := os.CopyFS(units, os.DirFS(filepath.Join(stage, "systemd"))); err != nil {
		return err
	}
	// Packages install to /usr, because /usr/local is for files that no package owns.
	err := filepath.WalkDir(units, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, bytes.ReplaceAll(b, []byte("/usr/local/bin/"), []byte("/usr/bin/")), 0o644)
	})
	if err != nil {
		return err
	}
	folder := filepath.Join(r.source, "deploy/release")
	variables := map[string]string{"ARCH": goarch, "VERSION": r.version, "STAGE": stage, "UNITS": units,
		"MAINTAINER": r.maintainer, "HOMEPAGE": r.homepage}
	config, err := nfpm.ParseFileWithEnvMapping(
		filepath.Join(folder, "nfpm.yaml"), func(name string) string { return variables[name] })
	if err != nil {
		return err
	}
	for _, script := range []*string{
		&config.Scripts.PostInstall, &config.Scripts.PreRemove, &config.Scripts.PostRemove} {
		*script = filepath.Join(folder, *script)
	}
	for _, format := range []string{"deb", "rpm"} {
		if err := r.pack(&config, format); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) pack(config *nfpm.Config, format string) error {
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	info, err := config.Get(format)
	if err != nil {
		return err
	}
	info.MTime = r.committed
	info = nfpm.WithDefaults(info)
	file, err := os.Create(filepath.Join(r.out, packager.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	return errors.Join(packager.Package(info, file), file.Close())
}
