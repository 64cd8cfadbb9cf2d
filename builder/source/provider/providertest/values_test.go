package providertest

import (
	"testing"

	"pgregory.net/rapid"
)

func TestUnits(t *testing.T) {
	for _, test := range []struct {
		value, units string // "": none
		fits, sure   bool
	}{
		{"0", "0", true, true}, {"-0", "0", true, false}, {"12.34", "1234", true, true}, {`"12.34"`, "1234", true, true},
		{"1e3", "100000", true, true}, {"1.25E-1", "12", true, true}, {"1.35e-1", "14", true, true}, {"0.015000001", "2", true, true},
		{"99999", "9999900", true, true}, {"99999.999", "10000000", true, false}, {"100000", "10000000", false, true},
		{"-1", "", false, true}, {"-0.001", "", false, false},
		{"1e-999999999", "0", true, true}, {"1e999999999", "", false, true},
		{"null", "", false, true}, {"[1]", "", false, true}, {"01", "", false, true}, {`"+1"`, "", false, true}, {`"1`, "", false, true}, {"1.", "", false, true},
	} {
		units, fits, sure := unitsOf(test.value, 2, 5)
		got := ""
		if units != nil {
			got = units.String()
		}
		if got != test.units || fits != test.fits || sure != test.sure {
			t.Errorf("%s: %s units, fits %v, sure %v", test.value, got, fits, sure)
		}
	}
}

// TestValue: what is drawn is of every kind, and mostly of use.
func TestValue(t *testing.T) {
	const draws = 300
	var numbers, others, long int
	values := rapid.Custom(func(t *rapid.T) string { return value(t, "value") })
	for seed := range draws {
		value := values.Example(seed)
		if _, fits, sure := unitsOf(value, 18, 18); fits && sure {
			numbers++
		} else if sure {
			others++
		}
		if len(value) > 20 {
			long++
		}
	}
	if numbers < draws/5 || others < draws/5 || long < draws/10 {
		t.Errorf("of %d there are %d numbers, %d others, %d long", draws, numbers, others, long)
	}
}
