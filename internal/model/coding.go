package model

import (
	"regexp"
	"strconv"
	"strings"
)

// codings lists the content codings in order of preference at equal weight.
var codings = []string{"zstd", "gzip", "br"}

// minCoded is the length that a body must exceed to be compressed.
const minCoded = 1024

var codingElement = regexp.MustCompile(`^[ \t]*([!#$%&'*+.^_|~0-9A-Za-z-]+)[ \t]*(?:;[ \t]*[qQ]=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)[ \t]*)?$`)

// Coding returns the content coding of a body of the given length for the Accept-Encoding headers
// of a request (INTERFACE.md, "Codings"; RFC 9110, section 12.5.3). It returns "" for no coding.
func Coding(lines []string, length int) string {
	if length <= minCoded {
		return ""
	}
	weights := map[string]float64{}
	for _, element := range strings.Split(strings.Join(lines, ","), ",") {
		m := codingElement.FindStringSubmatch(element)
		if m == nil {
			continue
		}
		weight := 1.0
		if m[2] != "" {
			weight, _ = strconv.ParseFloat(m[2], 64)
		}
		name := strings.ToLower(m[1])
		if name == "x-gzip" {
			name = "gzip"
		}
		weights[name] = weight
	}
	best, bestWeight := "", 0.0
	for _, coding := range codings {
		weight, named := weights[coding]
		if !named && coding == "gzip" {
			weight = weights["*"]
		}
		if weight > bestWeight {
			best, bestWeight = coding, weight
		}
	}
	if weights["identity"] > bestWeight { // An identity that is not named has weight 0.
		return ""
	}
	return best
}
