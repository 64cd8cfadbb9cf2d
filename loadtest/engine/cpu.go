package engine

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// usableCPUs returns the number of processors that the process may use: GOMAXPROCS, or the quota of the
// control group if that is lower. (GOMAXPROCS rounds the quota up.)
func usableCPUs() float64 {
	n := float64(runtime.GOMAXPROCS(0))
	b, err := os.ReadFile("/sys/fs/cgroup/cpu.max")
	if err != nil {
		return n
	}
	if q, ok := parseQuota(string(b)); ok {
		n = min(n, q)
	}
	return n
}

// parseQuota parses the contents of cpu.max, "QUOTA PERIOD" in microseconds. The quota "max" means none.
func parseQuota(s string) (float64, bool) {
	quota, period, ok := strings.Cut(strings.TrimSpace(s), " ")
	if !ok {
		return 0, false
	}
	q, err1 := strconv.ParseFloat(quota, 64)
	p, err2 := strconv.ParseFloat(period, 64)
	if err1 != nil || err2 != nil || q <= 0 || p <= 0 {
		return 0, false
	}
	return q / p, true
}
