package duckdb

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"example.com/marketdata/internal/test/testserver"
)

// packages lists ClickHouse, as a library for Node, and polars. The library of polars is listed
// separately, because npm would leave it out if Node is older than 22.
var packages = []string{"chdb@3.4.0", "nodejs-polars@0.26.1", "nodejs-polars-linux-x64-gnu@0.26.1"}

// execute runs a command in a folder and returns its output, or "" if the program is not installed.
func (r *reader) execute(dir string, env []string, command ...string) string {
	r.Helper()
	if _, err := exec.LookPath(command[0]); err != nil {
		r.Logf("skipped: %v", err)
		return ""
	}
	cmd := exec.CommandContext(r.Context(), command[0], command[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), env...), r.Output()
	out, err := cmd.Output()
	if err != nil {
		r.Fatalf("%s: %v: %s", command, err, out)
	}
	return strings.TrimSpace(string(out))
}

// checkPrograms mirrors the files to a folder and a bucket, as the page describes, and compares the
// results of its programs with /global.
func (r *reader) checkPrograms() {
	r.Helper()
	dir, server := r.TempDir(), r.minio
	files := filepath.Join(dir, "files")
	r.execute("../../../edge/openapi/clients/go", []string{"MARKETDATA_URL=" + r.url, "MARKETDATA_KEY=" + r.key},
		"go", "run", "./examples/download", files)
	remote := []string{"AWS_CA_BUNDLE=", "RCLONE_CONFIG_REMOTE_TYPE=s3", "RCLONE_CONFIG_REMOTE_PROVIDER=Minio",
		"RCLONE_CONFIG_REMOTE_ENV_AUTH=true", "RCLONE_CONFIG_REMOTE_ENDPOINT=" + server.Endpoint}
	bucket := "remote:" + testserver.Bucket + "/market"
	r.execute(dir, remote, "rclone", "sync", "files", bucket)
	r.execute(dir, remote, "rclone", "check", "--download", "files", bucket)

	r.execute(dir, nil,
		append([]string{"npm", "install", "--ignore-scripts", "--no-audit", "--no-fund"}, packages...)...)
	page := strings.NewReplacer("'quotes.parquet'", "'files/quotes.parquet'",
		`"quotes.parquet"`, `"files/quotes.parquet"`,
		"https://host/at/20261122T000000Z/openapi/v1/files/quotes.parquet", r.files["quotes.parquet"].url, "KEY", r.key,
		"https://s3.host/bucket", server.Endpoint+"/"+testserver.Bucket,
		"ACCESS", server.AccessKey, "SECRET", server.SecretKey)
	blocks := r.blocks()
	programs := []string{blocks[2]}
	for _, query := range strings.Split(strings.TrimSpace(blocks[1]), ";\n") {
		programs = append(programs, "console.log(require('chdb').query(`"+strings.TrimSuffix(query, ";")+"`, 'TSV'))")
	}
	for _, program := range programs {
		out := r.execute(dir, nil, "node", "-e", page.Replace(program))
		sums := strings.Fields(out)
		if want := r.global(); out != "" && (len(sums) != 2 || plain(sums[0]) != want[0] || plain(sums[1]) != want[1]) {
			r.Errorf("%s: %s, /global says %s", program, out, want)
		}
	}
}
