package pace

import (
	"math"
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
	"pgregory.net/rapid"
)

func all(s *Schedule) []time.Duration {
	var due []time.Duration
	for {
		d, ok := s.Next()
		if !ok {
			return due
		}
		due = append(due, d)
	}
}

func TestUniform(t *testing.T) {
	for _, tc := range []struct {
		stages string
		count  int
		at     map[int]time.Duration // due time by the index of the request
	}{
		{"1s:4", 4, map[int]time.Duration{0: 0, 1: 250 * time.Millisecond, 3: 750 * time.Millisecond}},
		{"10s:1000,60s:20000", 1_210_000, map[int]time.Duration{0: 0, 9_999: 9_999 * time.Millisecond,
			10_000: 10 * time.Second, 1_209_999: 70*time.Second - 50*time.Microsecond}},
		{"1s:2,1s:0,1s:2", 4,
			map[int]time.Duration{1: 500 * time.Millisecond, 2: 2 * time.Second, 3: 2500 * time.Millisecond}},
		{"2s:0-100", 100, map[int]time.Duration{0: 0, 25: time.Second}}, // a quarter of them in half of the time
		{"2s:100-0", 100, map[int]time.Duration{75: time.Second}},
		{"500ms:1", 1, map[int]time.Duration{0: 0}},
	} {
		t.Run(tc.stages, func(t *testing.T) {
			due := all(New(must.Get(ParseStages(tc.stages))(t), Uniform, 1))
			if len(due) != tc.count {
				t.Fatalf("%d requests, want %d", len(due), tc.count)
			}
			for i, want := range tc.at {
				if d := due[i] - want; d < -time.Microsecond || d > time.Microsecond {
					t.Errorf("request %d due at %v, want %v", i, due[i], want)
				}
			}
		})
	}
}

// Apart from chance, there are as many Poisson arrivals as requested, and the standard deviation of the times
// between them equals their mean. Only the same seed gives the same arrivals again.
func TestPoisson(t *testing.T) {
	stages := Constant(1000, 100*time.Second)
	due := all(New(stages, Poisson, 7))
	const mean = 100_000
	if d := math.Abs(float64(len(due)) - mean); d > 5*math.Sqrt(mean) {
		t.Errorf("%d arrivals, want about %d", len(due), mean)
	}
	var sum, squares float64
	for i := 1; i < len(due); i++ {
		d := (due[i] - due[i-1]).Seconds()
		sum += d
		squares += d * d
	}
	n := float64(len(due) - 1)
	if cv := math.Sqrt(squares/n-(sum/n)*(sum/n)) / (sum / n); cv < 0.97 || cv > 1.03 {
		t.Errorf("deviation of distances is %.3f of their mean, want 1", cv)
	}
	again, other := all(New(stages, Poisson, 7)), all(New(stages, Poisson, 8))
	if len(again) != len(due) || again[500] != due[500] {
		t.Error("same seed, other arrivals")
	}
	if other[500] == due[500] {
		t.Error("another seed, same arrivals")
	}
}

// For all stages, the due times ascend and are within the run, and their number is the area under the rates.
func TestScheduleProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stages := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Stage {
			return Stage{
				Duration: time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond,
				From:     float64(rapid.IntRange(0, 2000).Draw(t, "from")),
				To:       float64(rapid.IntRange(0, 2000).Draw(t, "to")),
			}
		}), 1, 5).Draw(t, "stages")
		if Check(stages) != nil {
			t.Skip("no rate")
		}
		parsed, err := ParseStages(FormatStages(stages))
		if err != nil || len(parsed) != len(stages) {
			t.Fatalf("stages do not survive being written: %v", err)
		}
		area := 0.0
		for i, s := range stages {
			area += s.area()
			if parsed[i] != s {
				t.Fatalf("stage %d became %v", i, parsed[i])
			}
		}
		due := all(New(stages, Uniform, 0))
		if want := math.Ceil(area); math.Abs(float64(len(due))-want) > 1 {
			t.Fatalf("%d requests, want %v", len(due), want)
		}
		for i, d := range due {
			if d < 0 || d > Duration(stages) || i > 0 && d < due[i-1] {
				t.Fatalf("request %d of %d due at %v", i, len(due), d)
			}
		}
	})
}

func TestParseStagesRefuses(t *testing.T) {
	for _, s := range []string{"", "10s", "10s:", "10:5", "x:5", "10s:x", "-1s:5", "0s:5", "10s:-5", "10s:5-",
		"10s:NaN", "10s:Inf", "10s:0", "10s:1e9", "10s:5,,5s:1"} {
		if got, err := ParseStages(s); err == nil {
			t.Errorf("ParseStages(%q) = %v, want an error", s, got)
		}
	}
}

func TestRate(t *testing.T) {
	for text, want := range map[string]float64{
		"500": 500, "0.5": 0.5, "5k": 5000, "5K": 5000, "1.5k": 1500, "4.35k": 4350, "0.3k": 300, "2M": 2e6,
		"5k/s": 5000, "1e3": 1000, "0": 0,
		"": -1, "k": -1, "5m": -1, "5kk": -1, "5 k": -1, "5,000": -1, "-1": -1, "-1k": -1, "NaN": -1, "Inf": -1,
		"1e400": -1, "fast": -1,
	} {
		var r Rate
		err := r.UnmarshalText([]byte(text))
		if (err == nil) != (want >= 0) || err == nil && float64(r) != want {
			t.Errorf("%q: %v, %v, want %v", text, r, err, want)
		}
	}
	got := must.Get(ParseStages("10s:1.5k,30s:1k-2M"))(t)
	if FormatStages(got) != "10s:1500,30s:1000-2000000" {
		t.Errorf("stages are %s", FormatStages(got))
	}
}

func TestAt(t *testing.T) {
	stages := must.Get(ParseStages("10s:100,10s:100-300,5s:0,5s:7"))(t)
	for at, want := range map[time.Duration]float64{
		0: 100, 9 * time.Second: 100, 15 * time.Second: 200, 22 * time.Second: 0, 29 * time.Second: 7,
		30 * time.Second: 0,
	} {
		if got := At(stages, at); got != want {
			t.Errorf("at %v the rate is %v, want %v", at, got, want)
		}
	}
}
